/** Formats a value for a message: on one line, with strings in quotes and truncated after 60 characters. */
export function formatValue(value: unknown): string {
  if (typeof value === "number" || typeof value === "boolean") {
    return String(value);
  }
  if (typeof value !== "string") return describeKind(value);
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
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
