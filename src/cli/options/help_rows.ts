/** What a row of `--help` explains, and the explanation. */
export type HelpRow = readonly [name: string, help: string];

/** Terminals have at least 80 columns. */
const COLUMNS = 80;
/** A longer name is on a line of its own. */
const MAX_NAME = 26;
const INDENT = "  ";

/** Formats the rows of one or more groups in two columns. */
export function formatRows(rows: readonly HelpRow[]): string[] {
  const indent = INDENT.length + MAX_NAME + INDENT.length;
  return rows.flatMap(([name, help]) => {
    const [first = "", ...rest] = wrap(help, COLUMNS - indent);
    const lines = [first, ...rest].map((line) => " ".repeat(indent) + line);
    if (name.length > MAX_NAME) return [INDENT + name, ...lines];
    return [`${INDENT}${name.padEnd(MAX_NAME)}${INDENT}${first}`.trimEnd(), ...lines.slice(1)];
  });
}

/** Wraps a paragraph. */
export function wrap(text: string, columns = COLUMNS): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > columns) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}
