import { detectInCode, detectSecret } from "./guardrails.ts";

/**
 * Formats a value for a message: on one line, with strings in quotes and truncated after 60 characters. What looks like a
 * secret is not shown. Messages go to the log, to the status page and to terminals, so none of them quotes in another
 * way what a user has written.
 */
export function formatValue(value: unknown): string {
  if (typeof value === "number" || typeof value === "boolean") {
    return String(value);
  }
  if (typeof value !== "string") return describeKind(value);
  if (looksSecret(value)) return "a value that looks like a secret";
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

/** Formats a word for a message, such as one that a manifest allows: as it is, without quotes. */
export function formatWord(word: string): string {
  return looksSecret(word) ? "a word that looks like a secret" : word;
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

/** Returns whether a regular expression contains a secret; its entropy says nothing, as that of any code. */
export function hasSecret(pattern: string): boolean {
  return detectInCode(pattern) !== undefined;
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
