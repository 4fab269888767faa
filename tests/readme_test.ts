import { assertEquals } from "@std/assert";
import { optionTable } from "../src/cli/help.ts";
import { withOptionTable } from "../tools/option_table.ts";

const README = await Deno.readTextFile("README.md");

/** The text of every source file. */
async function sources(directory = "src"): Promise<string> {
  const texts = await Array.fromAsync(Deno.readDir(directory), ({ name, isDirectory }) => {
    const path = `${directory}/${name}`;
    return isDirectory ? sources(path) : Deno.readTextFile(path);
  });
  return texts.join("\n");
}

Deno.test("README.md has the table of options as the code has it", () => {
  assertEquals(README.includes(optionTable()), true, "deno run -A tools/option_table.ts writes it");
  assertEquals(withOptionTable(README), README);
});

Deno.test("README.md names no event of the log that the code does not write", async () => {
  const source = await sources();
  const named = new Set(README.match(/\brep\.[a-z_]+\.[a-z_]+\b|\brep\.(listening|stopping|stopped)\b/g));
  assertEquals([...named].filter((event) => !source.includes(`"${event}"`)), []);
  assertEquals(named.size > 10, true);
});

Deno.test("README.md names no file that is not there", async () => {
  const paths = [...README.matchAll(/\]\(((?!https?:)[^)]+)\)/g)].map(([, path]) => String(path));
  for (const path of paths) await Deno.stat(path);
  assertEquals(paths.length > 2, true);
});
