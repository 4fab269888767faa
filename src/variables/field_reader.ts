import { checkKeys, type Fields } from "./fields.ts";
import { describeKind, formatValue } from "./format_value.ts";

/**
 * Reads the fields of one declaration and collects the issues. A key is known if it is read, so there is no list of
 * keys that could differ from what is read.
 *
 * Issues name the values and the unknown keys of PUBLIC variables only, since a value may have ended up in the wrong field, or in
 * a key.
 */
export class FieldReader {
  readonly #fields: Fields;
  readonly #where: string;
  readonly #known: string[] = [];
  readonly #issues: string[] = [];

  /** @param where The place of the declaration in the manifest, such as `variables.API_URL`. */
  constructor(fields: Fields, where: string) {
    this.#fields = fields;
    this.#where = where;
  }

  /** Returns all issues so far, and one for each key that has not been read. */
  issues(): readonly string[] {
    const unknown: string[] = [];
    const options = { prefix: `${this.#where}.`, isSecret: !this.#isPublic };
    checkKeys(this.#fields, this.#known, (issue) => unknown.push(issue), options);
    return [...unknown, ...this.#issues];
  }

  /** Adds an issue about a field. */
  report(key: string, issue: string): void {
    this.#issues.push(`${this.#where}.${key}: ${issue}`);
  }

  /** Reads one of some words. */
  oneOf<T extends string>(key: string, allowed: readonly T[], defaultValue?: T): T | undefined {
    const value = this.#read(key);
    if (value === undefined && defaultValue !== undefined) return defaultValue;
    const found = allowed.find((word) => word === value);
    if (found === undefined) this.#reportValue(key, `one of ${allowed.join(", ")}`);
    return found;
  }

  /** Reads a boolean; `false` if it is absent. */
  boolean(key: string): boolean {
    const value = this.#read(key);
    if (value !== undefined && typeof value !== "boolean") this.#reportValue(key, "true or false");
    return value === true;
  }

  /** Reads a string. */
  string(key: string): string | undefined {
    const value = this.#read(key);
    if (value === undefined || typeof value === "string") return value;
    this.#reportValue(key, "a string (put it in quotes)");
    return undefined;
  }

  /** Reads a list of at least one string. */
  strings(key: string): readonly string[] | undefined {
    const value = this.#read(key);
    if (value === undefined) return undefined;
    if (Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === "string")) return value;
    this.#reportValue(key, "a list of at least one string (put it in quotes)");
    return undefined;
  }

  /** Reads a regular expression that has to match a whole value. */
  pattern(key: string): RegExp | undefined {
    const source = this.string(key);
    if (source === undefined) return undefined;
    const pattern = compilePattern(source, "u") ?? compilePattern(source, "");
    if (pattern === undefined) this.#reportValue(key, "a regular expression");
    return pattern;
  }

  get #isPublic(): boolean {
    return this.#fields.tier === "public";
  }

  #read(key: string): unknown {
    this.#known.push(key);
    return this.#fields[key];
  }

  #reportValue(key: string, expected: string): void {
    const value = this.#fields[key];
    const got = this.#isPublic ? formatValue(value) : describeKind(value);
    this.report(key, `expected ${expected}, got ${got}`);
  }
}

/** REP's own gateway matches whole values, too. Without the flag `u`, a pattern may escape any character. */
function compilePattern(source: string, flags: "u" | ""): RegExp | undefined {
  try {
    new RegExp(source, flags); // on its own, since an unbalanced `)` would close the group below
    return new RegExp(`^(?:${source})$`, flags);
  } catch {
    return undefined; // the caller reports it
  }
}
