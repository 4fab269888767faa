import {
  escapeInvisible,
  escapeLines,
} from "../../core/values/visible_text.ts";
import type { CommandIo } from "./command_io.ts";

const GAP = "  ";

/** Prints rows as a table. The first row is the heading. The last column is not padded, so values belong there. */
export function printTable(
  rows: readonly (readonly string[])[],
  { print }: Pick<CommandIo, "print">,
): void {
  const cells = rows.map((row) => row.map(escapeInvisible));
  const widths: number[] = [];
  for (const row of cells) { // Math.max() cannot have as many arguments as there may be rows
    for (const [index, cell] of row.slice(0, -1).entries()) {
      widths[index] = Math.max(widths[index] ?? 0, cell.length);
    }
  }
  const pad = (cell: string, index: number) => cell.padEnd(widths[index] ?? 0);
  print(cells.map((row) => row.map(pad).join(GAP).trimEnd()).join("\n"));
}

/** Formats a value as indented JSON, with such characters escaped. Parsing it returns the same value. */
export function terminalJson(value: unknown): string {
  return escapeLines(JSON.stringify(value, null, 2));
}
