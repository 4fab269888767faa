/** Returns the cells of each row of the first tables after a heading, up to the next heading of its kind. */
export function rowsAfter(heading: string, text: string): string[][] {
  const [, section = ""] = text.split(`\n## ${heading}\n`);
  const [body = ""] = section.split("\n## ");
  const lines = body.split("\n").filter((line) => line.startsWith("|"));
  const rows = lines.filter((line) => !isHead(line, lines));
  return rows.map(cellsOf);
}

/** Whether a line of a table is its rule, or the row of headings above it. */
function isHead(line: string, lines: readonly string[]): boolean {
  const next = lines[lines.indexOf(line) + 1] ?? "";
  return isRule(line) || isRule(next);
}

function isRule(line: string): boolean {
  return /^[|\s-]+$/.test(line);
}

function cellsOf(row: string): string[] {
  const cells = row.split(/(?<!\\)\|/).slice(1, -1);
  return cells.map((cell) => cell.trim());
}
