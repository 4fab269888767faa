/**
 * How messages quote what users wrote. Messages appear in the log, on the status page and in terminals, so all of them
 * use these functions, which never show what looks like a secret.
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

/** Returns a word without quotes, such as one that a manifest allows, unless it looks like a secret. */
export function formatWord(word: string): string {
  return looksSecret(word) ? "a word that looks like a secret" : word;
}

/** Returns the word at the beginning of a key of a mapping: in `{ A:value }`, the key is `A:value`. */
export function formatKey(key: string): string {
  const [word = ""] = /^[\w.-]*/.exec(key) ?? [];
  return word === key || looksSecret(key) ? formatWord(key) : `${word}…`;
}

/**
 * Returns whether a value consists of letters and `_` and is as short as the words of a manifest. Such a value is most
 * likely a misspelled word and hardly ever a secret, so messages may show it.
 */
export function isShortWord(value: unknown): value is string {
  return typeof value === "string" && /^[a-z_]{1,30}$/i.test(value) &&
    !looksSecret(value);
}

/** Returns whether a regular expression contains a secret of a known format. In any code, the entropy is high. */
export function hasSecret(pattern: string): boolean {
  return detectInCode(pattern) !== undefined;
}

/** Returns whether a value must not be shown. */
function looksSecret(value: string): boolean {
  return detectSecret(value) !== undefined || mayHaveCredentials(value);
}

/**
 * Returns whether a value may be a URL with credentials. In a malformed URL, the password may contain any character.
 * An ellipsis stands for credentials that `redactUrl()` replaced.
 */
function mayHaveCredentials(value: string): boolean {
  if (!/:\/\/(?!…@).+@/s.test(value)) return false;
  const url = URL.parse(value);
  return url === null || url.username !== "" || url.password !== "";
}

/** Returns the kind of a value, for messages that must not contain the value. */
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
