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
  const widths: number[] = [];
  for (const row of cells) { // Math.max() cannot have as many arguments as there may be rows
    for (const [index, cell] of row.entries()) {
      widths[index] = Math.max(widths[index] ?? 0, cell.length);
    }
  }
  const total = widths.reduce((sum, width) => sum + width + GAP.length);
  const excess = Math.max(0, total - columns);
  const fit = (cell: string, index: number) => {
    const width = widths[index] ?? 0;
    if (index !== flexible) return cell.padEnd(width);
    const shown = Math.max(width - excess, Math.min(width, MIN_WIDTH));
    return truncate(cell, shown).padEnd(shown);
  };
  print(cells.map((row) => row.map(fit).join(GAP).trimEnd()).join("\n"));
}

/** Control and format characters, surrogates and line separators. They could change what a terminal displays. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

function escapeChar(char: string): string {
  if (char < " ") return JSON.stringify(char).slice(1, -1);
  return char.split("").map(escapeCodeUnit).join("");
}

/** Replaces characters that a terminal interprets or does not display by escape sequences. */
export function escapeInvisible(text: string): string {
  return text.replace(INVISIBLE, escapeChar);
}

/** Formats a value as JSON, with such characters escaped. Parsing it returns the same value. */
export function terminalJson(value: unknown, indent = 0): string {
  const escape = (char: string) => char === "\n" ? char : escapeChar(char);
  return JSON.stringify(value, null, indent).replace(INVISIBLE, escape);
}

/** Truncates a text to a length, with an ellipsis, but not within a character. */
function truncate(text: string, length: number): string {
  if (text.length <= length) return text;
  return `${text.slice(0, length - 1).replace(/[\ud800-\udbff]$/, "")}…`;
}
