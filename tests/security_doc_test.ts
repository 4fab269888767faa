import { assertEquals } from "@std/assert";

/** Returns the cells of each row of the table of threats. */
async function readThreats(): Promise<string[][]> {
  const text = await Deno.readTextFile("docs/security.md");
  const [, section = ""] = text.split("\n## Threats\n");
  const [, , ...rows] = section.split("\n").filter((line) => line.startsWith("|"));
  return rows.map((row) => row.split("|").slice(1, -1).map((cell) => cell.trim()));
}

/** Returns why the test that a cell names does not exist; `undefined` if it does. */
async function problemOf(cell = ""): Promise<string | undefined> {
  const [, path, name = ""] = /^`(tests\/[\w/]+_test\.ts)`: "([^"]+)"$/.exec(cell) ?? [];
  if (path === undefined) return `expected a file and a name: ${cell}`;
  const source = await Deno.readTextFile(path);
  return definitionOf(name).test(source) ? undefined : `no such test: ${cell}`;
}

/** Returns a pattern for the definition of a test: by its first argument, or by its property `name`. */
function definitionOf(name: string): RegExp {
  return new RegExp(`(?:\\b(?:Deno\\.test|testBrowser)\\(\\s*|\\bname: )"${RegExp.escape(name)}",`);
}

Deno.test("docs/security.md names for each threat what stops it, and a test that exists", async () => {
  const threats = await readThreats();
  assertEquals(threats.filter((cells) => cells.length !== 3 || cells.includes("")), []);
  const problems = await Promise.all(threats.map(([, , test]) => problemOf(test)));
  assertEquals(problems.filter((problem) => problem !== undefined), []);
  assertEquals(threats.length > 30, true);
});
