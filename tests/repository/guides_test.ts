import { assertEquals } from "@std/assert";
import { runCommand } from "../_command.ts";

for (const name of ["service-worker", "vite-react", "vite-vue"]) {
  Deno.test(`examples/${name}/src/rep.d.ts has the types of its manifest`, async () => {
    const { stdout } = await runCommand([
      "typegen",
      "--manifest",
      `examples/${name}/.rep.yaml`,
    ]);
    assertEquals(
      await Deno.readTextFile(`examples/${name}/src/rep.d.ts`),
      stdout,
    );
  });
}

Deno.test("the guides contain the code of the examples", async () => {
  const QUOTES = {
    "docs/vite.md": ["vite-react/vite.config.ts", "vite-react/app.env"],
    "docs/hono.md": ["hono/configuration.ts"],
  };
  for (const [guide, paths] of Object.entries(QUOTES)) {
    const text = await Deno.readTextFile(guide);
    const examples = await Promise.all(
      paths.map((path) => Deno.readTextFile(`examples/${path}`)),
    );
    assertEquals(
      examples.map((example) => text.includes(example)),
      examples.map(() => true),
      guide,
    );
  }
});

Deno.test("examples with packages keep app.env out of a repository, since it contains a SENSITIVE value", async () => {
  for (const name of ["service-worker", "vite-react", "vite-vue"]) {
    const [env, ignored] = await Promise.all(
      ["app.env", ".gitignore"].map((file) =>
        Deno.readTextFile(`examples/${name}/${file}`)
      ),
    );
    assertEquals(
      [
        env?.includes("REP_SENSITIVE_"),
        ignored?.split("\n").includes("app.env"),
      ],
      [true, true],
      name,
    );
  }
});
