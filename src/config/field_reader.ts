import { didYouMean } from "../values/did_you_mean.ts";
import { checkKeys, type Fields, isShortWord } from "./fields.ts";
import { describeKind, formatValue } from "./format_value.ts";

/**
 * Reads the fields of one declaration and collects the issues. A key is known if it is read, so there is no list of
 * keys that could differ from what is read.
 *
 * Issues name the values and the unknown keys of PUBLIC variables only, and words that are short, since a value may have
 * ended up in the wrong field, or in a key.
 */
export class FieldReader {
  readonly #fields: Fields;
  readonly #texts: Fields;
  readonly #where: string;
  readonly #known: string[] = [];
  readonly #issues: string[] = [];

  /**
   * @param texts The fields with scalars as the manifest writes them, such as `1.0` where `fields` has the number 1.
   * @param where The place of the declaration in the manifest, such as `variables.API_URL`.
   */
  constructor(fields: Fields, texts: Fields, where: string) {
    this.#fields = fields;
    this.#texts = texts;
    this.#where = where;
  }

  /** Returns all issues so far, and one for each key that has not been read. */
  issues(): readonly string[] {
    const unknown: string[] = [];
    const options = { prefix: `${this.#where}.`, isSecret: !this.#isPublic };
    checkKeys(
      this.#fields,
      this.#known,
      (issue) => unknown.push(issue),
      options,
    );
    return [...unknown, ...this.#issues];
  }

  /** Adds an issue about a field. */
  report(key: string, issue: string): void {
    this.#issues.push(`${this.#where}.${key}: ${issue}`);
  }

  /** Reads one of some words. */
  oneOf<T extends string>(
    key: string,
    allowed: readonly T[],
    defaultValue?: T,
  ): T | undefined {
    const value = this.#read(key);
    if (value === undefined && defaultValue !== undefined) return defaultValue;
    const found = allowed.find((word) => word === value);
    if (found === undefined) this.#reportWord(key, allowed);
    return found;
  }

  /** Reads a boolean; `false` if it is absent. */
  boolean(key: string): boolean {
    const value = this.#read(key);
    if (value !== undefined && typeof value !== "boolean") {
      this.#reportValue(key, "true or false");
    }
    return value === true;
  }

  /** Reads text: a string, or the text of any other scalar, so that `default: 10` needs no quotes. */
  string(key: string): string | undefined {
    const value = this.#read(key);
    if (value === undefined) return undefined;
    const text = scalarText(value, this.#texts[key]);
    if (text === undefined) this.#reportValue(key, "text");
    return text;
  }

  /** Reads text for the readers of the manifest. A key without a value is the same as no key. */
  comment(key: string): string | undefined {
    const isEmpty = this.#fields[key] === null && this.#texts[key] === null;
    return isEmpty ? void this.#known.push(key) : this.string(key);
  }

  /** Reads a list of at least one text. */
  strings(key: string): readonly string[] | undefined {
    const value = this.#read(key);
    if (value === undefined) return undefined;
    const sources = this.#texts[key];
    const texts = Array.isArray(value)
      ? value.map((item, index) =>
        scalarText(item, Array.isArray(sources) ? sources[index] : undefined)
      )
      : [];
    if (texts.length > 0 && !texts.includes(undefined)) {
      return texts.filter((text) => text !== undefined);
    }
    this.#reportValue(key, "a list of at least one text");
    return undefined;
  }

  get #isPublic(): boolean {
    return this.#fields.tier === "public";
  }

  #read(key: string): unknown {
    this.#known.push(key);
    return this.#fields[key];
  }

  /** Shows a misspelled word whatever the tier is, which may be the misspelled word. */
  #reportWord(key: string, allowed: readonly string[]): void {
    const value = this.#fields[key];
    if (!isShortWord(value)) {
      return this.#reportValue(key, `one of ${allowed.join(", ")}`);
    }
    const suggestion = didYouMean(value.toLowerCase(), allowed);
    this.report(
      key,
      `expected one of ${allowed.join(", ")}, got ${
        formatValue(value)
      }${suggestion}`,
    );
  }

  #reportValue(key: string, expected: string): void {
    const value = this.#fields[key];
    const got = this.#isPublic ? formatValue(value) : describeKind(value);
    this.report(key, `expected ${expected}, got ${got}`);
  }
}

/**
 * Returns the text of a scalar.
 *
 * @param source How the manifest writes it, if known. The text of a date is not known otherwise.
 */
function scalarText(value: unknown, source: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (value === null) return source === null ? "" : undefined; // nothing, rather than a word such as `null` or `~`
  const isScalar = typeof value === "number" || typeof value === "boolean" ||
    value instanceof Date;
  if (isScalar && typeof source === "string") return source;
  return isScalar && !(value instanceof Date) ? String(value) : undefined;
}
