import { parse } from "@std/yaml/parse";
import { didYouMean } from "../../values/did_you_mean.ts";
import {
  describeKind,
  formatKey,
  formatValue,
  isMapping,
  isShortWord,
  leadingWord,
} from "./quote.ts";
import { type Tier, TIERS } from "./tiers.ts";

/** The types that a manifest can give a variable (REP-RFC-0001 §6.2). */
export const VARIABLE_TYPES = [
  "string",
  "url",
  "number",
  "boolean",
  "csv",
  "json",
  "enum",
] as const;

/** One of {@linkcode VARIABLE_TYPES}. */
export type VariableType = typeof VARIABLE_TYPES[number];

/** A manifest that has been parsed. Whoever has parsed one hands it on like this, so that nobody parses it again. */
export interface ParsedManifest {
  /** What it is called in messages, with its path if it has one. */
  readonly name: string;
  /** One sentence per issue. Only values of PUBLIC variables are named. A manifest with issues must not be used. */
  readonly issues: readonly string[];
}

/** A parsed `.rep.yaml` (REP's `rep-manifest.schema.json`). */
export interface Manifest extends ParsedManifest {
  /** The lines of the keys in block style, counted from 1, by their places, such as `variables.API_URL.tier`. */
  readonly lines: ReadonlyMap<string, number>;
  readonly variables: ReadonlyMap<string, Declaration>;
  /** The settings, as the {@linkcode SettingsReader} returned them. */
  readonly settings: ManifestSettings;
}

/** What a manifest declares about one variable. */
export interface Declaration {
  readonly tier: Tier;
  readonly type: VariableType;
  /** Whether the variable must be set. */
  readonly required: boolean;
  /** The value of the variable if it is not set. */
  readonly default: string | undefined;
  /** What the variable is for. */
  readonly description: string | undefined;
  /** What the whole value must match, in the syntax of Go. */
  readonly pattern: string | undefined;
  /** The values that an `enum` allows. */
  readonly values: readonly string[] | undefined;
  /** Whether the variable should no longer be set. */
  readonly deprecated: boolean;
  /** What to tell those who still set it. */
  readonly deprecatedMessage: string | undefined;
}

/** The values of a manifest's settings by their keys. */
export type ManifestSettings = Readonly<Record<string, unknown>>;

/** The fields of a YAML mapping. */
export type Fields = Readonly<Record<string, unknown>>;

/** Reports an issue with the manifest, such as `variables.A.tier: expected one of …`. */
export type Report = (issue: string) => void;

/** Reads the `settings` of a manifest. They are options of the command line, which therefore provides the reader. */
export type SettingsReader = (
  fields: Fields,
  report: Report,
) => ManifestSettings;

/** Options of {@linkcode parseManifest}. */
interface ManifestOptions {
  /** The path of its file, for messages. */
  readonly path?: string | undefined;
  /** Reads `settings`, which are ignored without it. */
  readonly readSettings?: SettingsReader;
}

const ROOT_KEYS = ["version", "variables", "settings"];

/**
 * Parses a manifest and finds all its issues, not only the first.
 *
 * @param text YAML.
 */
export function parseManifest(
  text: string,
  { path, readSettings }: ManifestOptions = {},
): Manifest {
  const name = path === undefined ? "the manifest" : `the manifest "${path}"`;
  const lines = linesOfKeys(text);
  const issues: string[] = [];
  const report: Report = (issue) => {
    const [place = ""] = issue.split(": ", 1);
    issues.push(`Cannot use ${nameAt(place, { name, lines })}: ${issue}`);
  };
  const reportLine = (issue: string, line: number | undefined) =>
    issues.push(`Cannot use ${nameInLine(name, line)}: ${issue}`);
  const root = parseYaml(text, reportLine);
  let texts: Fields | undefined;
  const readTexts = () => texts ??= parseTexts(text);
  const variables = readVariables(root, readTexts, report);
  const fields = readMapping(root, "settings", report) ?? {};
  const settings = readSettings?.(fields, report) ?? {};
  checkKeys(root, ROOT_KEYS, report);
  checkVersion(root.version, report);
  const tab = issues.length > 0 ? findTab(text) : undefined;
  if (tab !== undefined) {
    issues.splice(0); // they are about what the parser made of it
    const expected = `expected spaces at the beginning of line ${tab}`;
    reportLine(`${expected}, got a tab`, tab);
  }
  return { name, lines, variables, settings, issues };
}

/** A key may have any length, and one that is longer has the line of what is around it. */
const MAX_PLACE = 500;

/** Returns what a manifest is called in messages about a place: with the line, if it has a path. */
export function nameAt(
  place: string,
  { name, lines }: Pick<Manifest, "name" | "lines">,
): string {
  let key = place.slice(0, MAX_PLACE);
  while (key !== "" && !lines.has(key)) {
    key = key.slice(0, Math.max(0, key.lastIndexOf("."))); // the one around it
  }
  return nameInLine(name, lines.get(key));
}

function nameInLine(name: string, line: number | undefined): string {
  return line === undefined ? name : name.replace(/"$/, `:${line}"`);
}

/** Returns the first line that a tab indents. YAML 1.2.2 §6.1 forbids it, and the parser takes it for no indentation. */
function findTab(text: string): number | undefined {
  const lines = text.split("\n");
  const index = lines.findIndex((line) => /^ *\t\s*[^\s#]/.test(line));
  return index < 0 ? undefined : index + 1;
}

/** The parser of YAML does not tell where a value was. */
function linesOfKeys(text: string): Map<string, number> {
  const lines = new Map<string, number>();
  const parents: { indent: number; place: string }[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    const [, { length: indent } = "", key] =
      /^( *)["']?([\w.-]+)["']? *:(?:\s|$)/.exec(line) ?? [];
    if (key === undefined) continue;
    while ((parents.at(-1)?.indent ?? -1) >= indent) parents.pop();
    const parent = parents.at(-1);
    const place = parent === undefined ? key : `${parent.place}.${key}`;
    parents.push({ indent, place });
    if (!lines.has(place)) lines.set(place, index + 1);
  }
  return lines;
}

function parseYaml(
  text: string,
  report: (issue: string, line: number | undefined) => void,
): Fields {
  try {
    const root = parse(text);
    if (isMapping(root)) return root;
    const got = describeKind(root); // an env file is parsed as one string
    report(`expected a mapping at the top, got ${got}`, undefined);
  } catch (error) {
    const { position = "", line, reason = "" } = describeYamlError(error);
    report(`it is not valid YAML${position}${reason}`, line);
  }
  return { version: "0.0.0", variables: {} }; // without further issues
}

/**
 * The parser quotes names, and then the line, which may contain the default of a SENSITIVE variable: only what precedes
 * them is reported, and the position.
 */
function describeYamlError(
  error: unknown,
): { position?: string; line?: number; reason?: string } {
  const [, message = "", position, line] =
    /^YamlSyntaxError: (.*?)( at line (\d+), column \d+)/.exec(String(error)) ??
      [];
  if (position === undefined) return {};
  const reason = message
    .replace(/ *["!<].*$/, "")
    .replace(/^Cannot (?:resolve |[^:]*: )/, "");
  return { position, line: Number(line), reason: `: ${reason}` };
}

/**
 * Parses the same YAML without types: every scalar is the text that the manifest has. Values of variables are text, and
 * `default: 1.0` means `1.0`, where the parser of types says 1 and no longer knows how it was written. Only a manifest
 * with such a value is parsed a second time.
 */
function parseTexts(text: string): Fields {
  try {
    return mappingOrEmpty(parse(text, { schema: "failsafe" }));
  } catch {
    return {}; // YAML with types that this schema does not have
  }
}

function mappingOrEmpty(value: unknown): Fields {
  return isMapping(value) ? value : {};
}

/** Reads an optional mapping at the top of the manifest. */
function readMapping(
  root: Fields,
  key: string,
  report: Report,
): Fields | undefined {
  const value = root[key];
  if (value === undefined || isMapping(value)) return value;
  report(`${key}: expected a mapping, got ${describeKind(value)}`);
  return undefined;
}

function checkVersion(version: unknown, report: Report): void {
  if (typeof version === "string" && /^\d+\.\d+\.\d+$/.test(version)) return;
  const got = formatValue(version);
  report(`version: expected a quoted version such as "0.1.0", got ${got}`);
}

function readVariables(
  root: Fields,
  readTexts: () => Fields,
  report: Report,
): Map<string, Declaration> {
  const declarations = new Map<string, Declaration>();
  const fields = readMapping(root, "variables", report);
  if (root.variables === undefined) {
    report("variables: expected a mapping, got nothing");
  }
  for (const [name, value] of Object.entries(fields ?? {})) {
    if (name === "") report("variables: expected a name for every variable");
    const place = `variables.${formatKey(name)}`;
    if (!isMapping(value)) {
      const got = describeKind(value);
      report(`${place}: expected a mapping with a tier, got ${got}`);
      continue;
    }
    const readOwnTexts = () =>
      mappingOrEmpty(mappingOrEmpty(readTexts().variables)[name]);
    const reader = new FieldReader(value, readOwnTexts, place);
    const declaration = readDeclaration(reader);
    reader.issues().forEach(report);
    if (declaration !== undefined) declarations.set(name, declaration);
  }
  return declarations;
}

/** Returns `undefined` if the declaration has no valid tier. */
function readDeclaration(reader: FieldReader): Declaration | undefined {
  const tier = reader.word("tier", TIERS);
  const type = reader.word("type", VARIABLE_TYPES, "string") ?? "string";
  const required = reader.boolean("required");
  const defaultValue = reader.text("default");
  const description = reader.comment("description");
  reader.comment("example"); // for the readers of the manifest: validated, but not kept
  const pattern = reader.text("pattern");
  const values = reader.texts("values");
  const deprecated = reader.boolean("deprecated");
  const deprecatedMessage = reader.comment("deprecated_message");
  if (tier === undefined) return undefined;
  if (type === "enum" && values === undefined) {
    const expected = "expected the allowed values of the enum, got nothing";
    reader.report("values", expected);
  }
  if (required && defaultValue !== undefined) {
    reader.report("default", "expected no default for a required variable");
  }
  return {
    tier,
    type,
    required,
    default: defaultValue,
    description,
    pattern,
    values,
    deprecated,
    deprecatedMessage,
  };
}

/**
 * Reads the fields of one declaration and collects the issues. A key is known if it is read, so there is no list of
 * keys that could differ from what is read.
 *
 * Issues name the values and the unknown keys of PUBLIC variables only, and words that are short, since a value may have
 * ended up in the wrong field, or in a key.
 */
class FieldReader {
  readonly #fields: Fields;
  readonly #readTexts: () => Fields;
  readonly #place: string;
  readonly #known: string[] = [];
  readonly #issues: string[] = [];

  /**
   * @param readTexts Returns the fields with scalars as the manifest writes them, such as `1.0` where `fields` has 1.
   * @param place The place of the declaration in the manifest, such as `variables.API_URL`.
   */
  constructor(fields: Fields, readTexts: () => Fields, place: string) {
    this.#fields = fields;
    this.#readTexts = readTexts;
    this.#place = place;
  }

  /** Returns one issue for each key that has not been read, and all others so far. */
  issues(): readonly string[] {
    const issues: string[] = [];
    const report: Report = (issue) => issues.push(issue);
    checkKeys(this.#fields, this.#known, report, this.#place, !this.#isPublic);
    return [...issues, ...this.#issues];
  }

  /** Adds an issue about a field. */
  report(key: string, issue: string): void {
    this.#issues.push(`${this.#place}.${key}: ${issue}`);
  }

  /** Reads one of some words. A misspelled one is shown whatever the tier is, which may be the misspelled word. */
  word<T extends string>(
    key: string,
    allowed: readonly T[],
    defaultValue?: T,
  ): T | undefined {
    const value = this.#read(key);
    if (value === undefined && defaultValue !== undefined) return defaultValue;
    const found = allowed.find((word) => word === value);
    if (found !== undefined) return found;
    const expected = `one of ${allowed.join(", ")}`;
    if (isShortWord(value)) {
      const suggestion = didYouMean(value.toLowerCase(), allowed);
      const got = formatValue(value) + suggestion;
      this.report(key, `expected ${expected}, got ${got}`);
    } else this.#reject(key, expected);
    return undefined;
  }

  /** Reads a boolean; `false` if it is absent. */
  boolean(key: string): boolean {
    const value = this.#read(key);
    if (value !== undefined && typeof value !== "boolean") {
      this.#reject(key, "true or false");
    }
    return value === true;
  }

  /** Reads text: a string, or the text of any other scalar, so that `default: 10` needs no quotes. */
  text(key: string): string | undefined {
    const value = this.#read(key);
    if (value === undefined || typeof value === "string") return value;
    const text = scalarText(value, this.#readTexts()[key]);
    if (text === undefined) this.#reject(key, "text");
    return text;
  }

  /** Reads text for the readers of the manifest. A key without a value is the same as no key. */
  comment(key: string): string | undefined {
    const text = this.text(key);
    return this.#fields[key] === null ? undefined : text;
  }

  /** Reads a list of at least one text. */
  texts(key: string): readonly string[] | undefined {
    const value = this.#read(key);
    if (value === undefined) return undefined;
    const items = Array.isArray(value) ? value : [];
    const isText = items.every((item) => typeof item === "string");
    const sources = isText ? items : this.#readTexts()[key];
    const texts: string[] = [];
    for (const [index, item] of items.entries()) {
      const source = Array.isArray(sources) ? sources[index] : undefined;
      const text = scalarText(item, source);
      if (text !== undefined) texts.push(text);
    }
    if (items.length > 0 && texts.length === items.length) return texts;
    this.#reject(key, "a list of at least one text");
    return undefined;
  }

  get #isPublic(): boolean {
    return this.#fields.tier === "public";
  }

  #read(key: string): unknown {
    this.#known.push(key);
    return this.#fields[key];
  }

  #reject(key: string, expected: string): void {
    const value = this.#fields[key];
    const got = this.#isPublic ? formatValue(value) : describeKind(value);
    this.report(key, `expected ${expected}, got ${got}`);
  }
}

/**
 * Returns the text of a scalar; `undefined` if it is none, or the word `null` or `~` rather than nothing.
 *
 * @param source How the manifest writes it, if known. The text of a date is not known otherwise.
 */
function scalarText(value: unknown, source: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (value === null) return source === null ? "" : undefined;
  if (value instanceof Date) {
    return typeof source === "string" ? source : undefined;
  }
  if (typeof value !== "number" && typeof value !== "boolean") return undefined;
  return typeof source === "string" ? source : String(value);
}

/**
 * Reports the keys of a mapping that are unknown.
 *
 * @param place Where the mapping is; nothing at the top.
 * @param isSecret Whether a key may be a value that must not be shown, such as the default of a SENSITIVE variable,
 * unless it is a short word.
 */
export function checkKeys(
  fields: Fields,
  known: readonly string[],
  report: Report,
  place = "",
  isSecret = false,
): void {
  const prefix = place === "" ? "" : `${place}.`;
  const expected = `expected one of ${known.join(", ")}`;
  for (const key of Object.keys(fields)) {
    if (known.includes(key)) continue;
    const word = leadingWord(key);
    if (known.includes(word)) {
      report(
        `${prefix}${word}: expected a colon and a space between key and value`,
      );
    } else if (isSecret && !isShortWord(key)) {
      report(`${place}: ${expected}, got a key that is not shown`);
    } else {
      const suggestion = didYouMean(key, known);
      report(`${prefix}${formatKey(key)}: ${expected}${suggestion}`);
    }
  }
}
