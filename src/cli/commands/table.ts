/** Settings of {@linkcode formatTable}. */
export interface TableOptions {
  /** How many columns of characters a line may take. */
  width: number;
  /** The place of the column that is cut so that a line fits. */
  flexible: number;
}

const GAP = "  ";
/** What is left of a column in a terminal that has no room for it. */
const MIN_COLUMNS = 10;

/** Lays rows out in columns, one line each, whatever is in them. The first row is the heading. */
export function formatTable(rows: readonly (readonly string[])[], { width, flexible }: TableOptions): string[] {
  const cells = rows.map((row) => row.map(visible));
  const widths = (rows[0] ?? []).map((_, place) => Math.max(...cells.map((row) => columnsOf(row[place] ?? ""))));
  const others = widths.reduce((sum, one, place) => place === flexible ? sum : sum + one + GAP.length, 0);
  widths[flexible] = Math.min(widths[flexible] ?? 0, Math.max(MIN_COLUMNS, width - others));
  const fit = (cell: string, place: number) => pad(cut(cell, widths[place] ?? 0), widths[place] ?? 0);
  return cells.map((row) => row.map(fit).join(GAP).trimEnd());
}

/** What would move the cursor, change colours, turn the writing's direction or end the line: controls, formats, separators. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Writes what a terminal would obey, or not show, as an escape. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, (one) => SHORT[one] ?? `\\u{${one.codePointAt(0)?.toString(16)}}`);
}

/** JSON of which a terminal obeys nothing either: it is the same to whoever parses it. */
export function terminalJson(value: unknown, indent = 0): string {
  const escaped = (one: string) =>
    one === "\n" ? one : Array.from({ length: one.length }, (_, at) => hex(one, at)).join("");
  return JSON.stringify(value, null, indent).replace(INVISIBLE, escaped);
}

function hex(text: string, at: number): string {
  return `\\u${text.charCodeAt(at).toString(16).padStart(4, "0")}`;
}

/** Cuts a text that is made visible. */
export function cut(text: string, columns: number): string {
  if (columnsOf(text) <= columns) return text;
  let kept = "";
  let used = 0;
  for (const one of text) {
    used += columnsOf(one);
    if (used > columns - 1) break;
    kept += one;
  }
  return `${kept}…`;
}

function pad(text: string, columns: number): string {
  return text + " ".repeat(Math.max(0, columns - columnsOf(text)));
}

/** Characters that most terminals draw two columns wide. */
const WIDE =
  /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uff60]/gu;

/** How many columns a text takes: marks stand over the letter before them. */
function columnsOf(text: string): number {
  const letters = text.replace(/\p{M}/gu, "");
  return [...letters].length + (letters.match(WIDE)?.length ?? 0);
}
