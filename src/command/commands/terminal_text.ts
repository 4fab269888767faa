import { escapeCodeUnit } from "../../core/observe/log.ts";
import type { CommandIo } from "./command_io.ts";

const GAP = "  ";
/** The minimum width of the truncated column. */
const MIN_WIDTH = 10;

/**
 * Prints rows as a table with one line per row. The first row is the heading.
 *
 * @param flexible The index of the column that is truncated if a line is too wide for the terminal.
 */
export function printTable(
  rows: readonly (readonly string[])[],
  flexible: number,
  { columns, print }: Pick<CommandIo, "columns" | "print">,
): void {
  const cells = rows.map((row) => row.map(escapeInvisible));
  const widths = (rows[0] ?? []).map(() => 0);
  for (const row of cells) { // Math.max() cannot have as many arguments as there may be rows
    for (const [index, cell] of row.entries()) {
      widths[index] = Math.max(widths[index] ?? 0, widthOf(cell));
    }
  }
  const others = widths.reduce(
    (sum, column, index) =>
      index === flexible ? sum : sum + column + GAP.length,
    0,
  );
  widths[flexible] = Math.min(
    widths[flexible] ?? 0,
    Math.max(MIN_WIDTH, columns - others),
  );
  const fit = (cell: string, index: number) =>
    pad(truncate(cell, widths[index] ?? 0), widths[index] ?? 0);
  print(cells.map((row) => row.map(fit).join(GAP).trimEnd()).join("\n"));
}

/** Control and format characters, surrogates and line separators. They could change what a terminal displays. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const SHORT: Readonly<Record<string, string>> = {
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
};

/** Replaces characters that a terminal interprets or does not display by escape sequences. */
export function escapeInvisible(text: string): string {
  return text.replace(
    INVISIBLE,
    (char) => SHORT[char] ?? `\\u{${char.codePointAt(0)?.toString(16)}}`,
  );
}

/** Formats a value as JSON, with such characters escaped. Parsing it returns the same value. */
export function terminalJson(value: unknown, indent = 0): string {
  const escape = (char: string) =>
    char === "\n" ? char : char.split("").map(escapeCodeUnit).join("");
  return JSON.stringify(value, null, indent).replace(INVISIBLE, escape);
}

/** Truncates a text without invisible characters to a width, with an ellipsis. */
export function truncate(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let kept = "";
  let used = 0;
  for (const char of text) {
    used += widthOf(char);
    if (used > width - 1) break;
    kept += char;
  }
  return `${kept}…`;
}

function pad(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - widthOf(text)));
}

/** Characters that most terminals display two columns wide. */
const WIDE =
  /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uff60]/gu;

/** Returns the width of a text in terminal columns. Combining marks have none. */
function widthOf(text: string): number {
  const withoutMarks = text.replace(/\p{M}/gu, "");
  return [...withoutMarks].length + (withoutMarks.match(WIDE)?.length ?? 0);
}
