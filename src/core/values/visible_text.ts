/** Control and format characters, surrogates and line separators. They could change what a terminal displays. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Returns the escape sequence of JSON for a unit of UTF-16. */
export function escapeCodeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

function escapeChar(char: string): string {
  if (char < " ") return JSON.stringify(char).slice(1, -1);
  return char.split("").map(escapeCodeUnit).join("");
}

/** Replaces characters that a terminal interprets or does not display by escape sequences. */
export function escapeInvisible(text: string): string {
  return text.replace(INVISIBLE, escapeChar);
}

/** Replaces such characters in each line of a text. */
export function escapeLines(text: string): string {
  return text.split("\n").map(escapeInvisible).join("\n");
}

/** Serializes a value as JSON, with such characters escaped. Parsing it returns the same value. */
export function visibleJson(value: unknown): string {
  return escapeInvisible(JSON.stringify(value));
}
