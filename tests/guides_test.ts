import { assertEquals } from "@std/assert";
import { runCommand } from "./_command.ts";

for (const name of ["service-worker", "vite-react", "vite-vue"]) {
  Deno.test(`examples/${name}/src/rep.d.ts has the types of its manifest`, async () => {
    const { stdout } = await runCommand(["typegen", "--manifest", `examples/${name}/.rep.yaml`]);
    assertEquals(await Deno.readTextFile(`examples/${name}/src/rep.d.ts`), stdout);
  });
}

Deno.test("the guides contain the code of the examples", async () => {
  const QUOTES = {
    "docs/vite.md": ["vite-react/vite.config.ts", "vite-react/src/use_variable.ts", "vite-vue/src/use_variable.ts"],
    "docs/hono.md": ["hono/configuration.ts"],
  };
  for (const [guide, paths] of Object.entries(QUOTES)) {
    const text = await Deno.readTextFile(guide);
    const examples = await Promise.all(paths.map((path) => Deno.readTextFile(`examples/${path}`)));
    assertEquals(examples.map((example) => text.includes(example)), examples.map(() => true), guide);
  }
});
