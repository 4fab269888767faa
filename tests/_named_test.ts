/** Returns why the test that a cell of a document names does not exist; `undefined` if it does. */
export async function problemOfTest(cell = ""): Promise<string | undefined> {
  const [, path, name = ""] =
    /^`(tests\/[\w/]+_test\.ts)`: "([^"]+)"$/.exec(cell) ?? [];
  if (path === undefined) return `expected a file and a name: ${cell}`;
  const source = await Deno.readTextFile(path);
  return definitionOf(name).test(source) ? undefined : `no such test: ${cell}`;
}

/** Returns a pattern for the definition of a test: by its first argument, or by its property `name`. */
function definitionOf(name: string): RegExp {
  return new RegExp(
    `(?:\\b(?:Deno\\.test|testBrowser)\\(\\s*|\\bname:\\s*)"${
      RegExp.escape(name)
    }",`,
  );
}

/** Returns the cells of each row of the table after a heading. */
export function rowsAfter(heading: string, text: string): string[][] {
  const [, section = ""] = text.split(`\n## ${heading}\n`);
  const [body = ""] = section.split("\n## ");
  const [, , ...rows] = body.split("\n").filter((line) => line.startsWith("|"));
  return rows.map((row) =>
    row.split("|").slice(1, -1).map((cell) => cell.trim())
  );
}
