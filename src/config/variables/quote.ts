/**
 * How messages quote what users have written. Messages go to the log, to the status page and to terminals, so none of
 * them quotes in another way: what looks like a secret is never shown.
 */
import { detectInCode, detectSecret } from "./guardrails.ts";

/** Quotes a value: on one line, with strings in quotes and truncated after 60 characters. */
export function formatValue(value: unknown): string {
  if (typeof value === "number" || typeof value === "boolean") {
    return String(value);
  }
  if (typeof value !== "string") return describeKind(value);
  if (looksSecret(value)) return "a value that looks like a secret";
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

/** Quotes a word, such as one that a manifest allows: as it is, without quotes. */
export function formatWord(word: string): string {
  return looksSecret(word) ? "a word that looks like a secret" : word;
}

/** Quotes a key of a mapping. In `{ A:value }`, the key is `A:value`: only the word at its beginning is shown. */
export function formatKey(key: string): string {
  const word = leadingWord(key);
  return word === key || looksSecret(key) ? formatWord(key) : `${word}…`;
}

/** Returns the word at the beginning of a key, which ends where a colon or an equals sign may have been meant. */
export function leadingWord(key: string): string {
  return /^[\w.-]*/.exec(key)?.[0] ?? "";
}

/**
 * Returns whether it is letters and `_`, as the words of a manifest are, and not longer than they are. Hardly any secret
 * is, so that it may be shown where it is most likely a misspelled word.
 */
export function isShortWord(value: unknown): value is string {
  return typeof value === "string" && /^[a-z_]{1,20}$/i.test(value);
}

/** Returns whether a regular expression contains a secret; its entropy says nothing, as that of any code. */
export function hasSecret(pattern: string): boolean {
  return detectInCode(pattern) !== undefined;
}

/** Returns whether a value must not be shown. */
function looksSecret(value: string): boolean {
  return detectSecret(value) !== undefined || mayHaveCredentials(value);
}

/**
 * Returns whether a value may be a URL with credentials. In one that is malformed, a password may have any character.
 * `redactUrl()` writes an ellipsis in their place.
 */
function mayHaveCredentials(value: string): boolean {
  if (!/:\/\/(?!…@).+@/s.test(value)) return false;
  const url = URL.parse(value);
  return url === null || url.username !== "" || url.password !== "";
}

/** Describes what kind of value it is, where a message must not contain the value itself. */
export function describeKind(value: unknown): string {
  if (value === undefined || value === null) return "nothing";
  if (Array.isArray(value)) {
    return value.length === 0 ? "an empty list" : "a list";
  }
  if (value instanceof Date) return "a date";
  return typeof value === "object" ? "a mapping" : `a ${typeof value}`;
}

/** Returns whether a value is a mapping, such as one of YAML. */
export function isMapping(
  value: unknown,
): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
