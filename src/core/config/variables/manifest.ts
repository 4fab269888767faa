import { parse } from "@std/yaml/parse";
import { didYouMean } from "../../values/did_you_mean.ts";
import {
  describeKind,
  formatKey,
  formatValue,
  isMapping,
  isShortWord,
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

/** A parsed manifest, in the form in which it is passed on so that it is parsed only once. */
export interface ParsedManifest {
  /** What messages call it, with its path if it has one. */
  readonly name: string;
  /** One sentence per issue, with values of PUBLIC variables only. A manifest with issues must not be used. */
  readonly issues: readonly string[];
}

/** A parsed `.rep.yaml` (REP's `rep-manifest.schema.json`). */
export interface Manifest extends ParsedManifest {
  /** The first line of each key that begins a line, counted from 1. */
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
  /** The value of the variable if it is neither set nor required. */
  readonly default: string | undefined;
  /** What the variable is for. */
  readonly description: string | undefined;
  /** What the whole value must match, in the syntax of Go. */
  readonly pattern: string | undefined;
  /** The values that an `enum` allows. */
  readonly values: readonly string[] | undefined;
  /** Whether the variable should no longer be set. */
  readonly deprecated: boolean;
  /** What to do instead of setting it. */
  readonly deprecatedMessage: string | undefined;
}

/** The values of a manifest's settings by their keys. */
export type ManifestSettings = Readonly<Record<string, unknown>>;

/** The fields of a YAML mapping. */
export type Fields = Readonly<Record<string, unknown>>;

/** Reports a problem at a place in the manifest, such as `variables.A.tier`. */
export type Report = (place: string, problem: string) => void;

/** Reads the `settings` of a manifest. They are options of the command, which therefore provides this function. */
export type SettingsReader = (
  fields: Fields,
  report: Report,
) => ManifestSettings;

interface ManifestOptions {
  /** The path of its file, for messages. */
  readonly path?: string | undefined;
  /** Reads `settings`. @default {they are ignored} */
  readonly readSettings?: SettingsReader;
}

const ROOT_KEYS = ["version", "variables", "settings"];

/** Parses the YAML of a manifest and finds all its issues, not only the first. */
export function parseManifest(
  text: string,
  { path, readSettings }: ManifestOptions = {},
): Manifest {
  const name = path === undefined ? "the manifest" : `the manifest "${path}"`;
  const lines = linesOfKeys(text);
  const issues: string[] = [];
  const reportLine = (issue: string, line: number | undefined) =>
    issues.push(`Cannot use ${nameInLine(name, line)}: ${issue}`);
  const report: Report = (place, problem) => {
    const [section = "", key = ""] = place.split(".");
    const line = lines.get(key) ?? lines.get(section);
    reportLine(`${place}: ${problem}`, line);
  };
  const root = parseYaml(text, reportLine);
  const texts = mappingOrEmpty(parseTexts(text).variables);
  const variables = readVariables(root, texts, report);
  const hasSettings = root.settings !== undefined;
  const fields = hasSettings ? readMapping(root, "settings", report) : {};
  const settings = readSettings?.(fields, report) ?? {};
  checkKeys(root, ROOT_KEYS, report);
  checkVersion(root.version, report);
  const tab = issues.length > 0 ? findTab(text) : undefined;
  if (tab !== undefined) {
    issues.splice(0); // the other issues are consequences of the tab
    const expected = `expected spaces at the beginning of line ${tab}`;
    reportLine(`${expected}, got a tab`, tab);
  }
  return { name, lines, variables, settings, issues };
}

/** Returns what messages about a variable call the manifest. With a path, that includes the line of the variable. */
export function nameAt(variable: string, { name, lines }: Manifest): string {
  return nameInLine(name, lines.get(variable));
}

function nameInLine(name: string, line: number | undefined): string {
  return line === undefined ? name : name.replace(/"$/, `:${line}"`);
}

/** Returns the first line that a tab indents. YAML 1.2.2 §6.1 forbids that, but the parser takes it for no indentation. */
function findTab(text: string): number | undefined {
  const lines = text.split("\n");
  const index = lines.findIndex((line) => /^ *\t\s*[^\s#]/.test(line));
  return index < 0 ? undefined : index + 1;
}

/** Finds the lines of keys, which the YAML parser does not report. */
function linesOfKeys(text: string): Map<string, number> {
  const lines = new Map<string, number>();
  for (const [index, line] of text.split("\n").entries()) {
    const [, key] = /^ *["']?([\w.-]+)["']? *:(?:\s|$)/.exec(line) ?? [];
    if (key !== undefined && !lines.has(key)) lines.set(key, index + 1);
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
    const { detail, line } = describeYamlError(error);
    report(`it is not valid YAML${detail}`, line);
  }
  return { version: "0.0.0", variables: {} }; // without further issues
}

/**
 * Returns the beginning of the parser's message, and the position. The rest quotes names and the line, which may contain
 * the default of a SENSITIVE variable.
 */
function describeYamlError(error: unknown): { detail: string; line?: number } {
  const [, message = "", position, line] =
    /^YamlSyntaxError: (.*?)( at line (\d+), column \d+)/.exec(String(error)) ??
      [];
  if (position === undefined) return { detail: "" };
  const reason = message
    .replace(/ *["!<].*$/, "")
    .replace(/^Cannot (?:resolve |[^:]*: )/, "");
  return { detail: `${position}: ${reason}`, line: Number(line) };
}

/**
 * Parses the same YAML without types, so that every scalar is the text in the manifest. Values of variables are text:
 * `default: 1.0` means `1.0`, which the parser turns into the number 1 if it knows types.
 */
function parseTexts(text: string): Fields {
  try {
    return mappingOrEmpty(parse(text, { schema: "failsafe" }));
  } catch {
    return {}; // invalid, or with types that this schema does not know
  }
}

function mappingOrEmpty(value: unknown): Fields {
  return isMapping(value) ? value : {};
}

/** Reads a mapping at the top of the manifest. */
function readMapping(root: Fields, key: string, report: Report): Fields {
  const value = root[key];
  if (isMapping(value)) return value;
  report(key, `expected a mapping, got ${describeKind(value)}`);
  return {};
}

function checkVersion(version: unknown, report: Report): void {
  if (typeof version === "string" && /^\d+\.\d+\.\d+$/.test(version)) return;
  const got = formatValue(version);
  report("version", `expected a quoted version such as "0.1.0", got ${got}`);
}

function readVariables(
  root: Fields,
  texts: Fields,
  report: Report,
): Map<string, Declaration> {
  const declarations = new Map<string, Declaration>();
  const fields = readMapping(root, "variables", report);
  for (const [name, value] of Object.entries(fields)) {
    if (name === "") report("variables", "expected a name for every variable");
    const place = `variables.${formatKey(name)}`;
    if (!isMapping(value)) {
      const got = describeKind(value);
      report(place, `expected a mapping with a tier, got ${got}`);
      continue;
    }
    const reader = createFieldReader(
      value,
      mappingOrEmpty(texts[name]),
      (key, problem) => report(`${place}.${key}`, problem),
    );
    const declaration = readDeclaration(reader);
    checkKeys(value, reader.known, report, place);
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
  const description = reader.text("description");
  reader.text("example"); // for readers of the manifest: validated, but not kept
  const pattern = reader.text("pattern");
  const values = reader.texts("values");
  const deprecated = reader.boolean("deprecated");
  const deprecatedMessage = reader.text("deprecated_message");
  if (tier === undefined) return undefined;
  if (type === "enum" && values === undefined) {
    const expected = "expected the allowed values of the enum, got nothing";
    reader.report("values", expected);
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

/** Reads the fields of one declaration. */
type FieldReader = ReturnType<typeof createFieldReader>;

/**
 * Creates a reader of the fields of one declaration. Every key that is read is known, so that no separate list of keys
 * can differ from what is read. Issues show no value but short words: a value may be in the wrong field by mistake.
 *
 * @param texts The fields with scalars as they are written, such as `1.0` where `fields` contains 1.
 * @param report Reports a problem with a field.
 */
function createFieldReader(
  fields: Fields,
  texts: Fields,
  report: (key: string, problem: string) => void,
) {
  const known: string[] = [];

  function read(key: string): unknown {
    known.push(key);
    return fields[key];
  }

  function reject(key: string, expected: string): undefined {
    report(key, `expected ${expected}, got ${describeKind(fields[key])}`);
  }

  return {
    /** The keys that have been read. */
    known,
    report,

    /** Reads one of several words. */
    word<T extends string>(
      key: string,
      allowed: readonly T[],
      defaultValue?: T,
    ): T | undefined {
      const value = read(key);
      if (value === undefined && defaultValue !== undefined) {
        return defaultValue;
      }
      const found = allowed.find((word) => word === value);
      if (found !== undefined) return found;
      const expected = `one of ${allowed.join(", ")}`;
      if (!isShortWord(value)) return reject(key, expected);
      const suggestion = didYouMean(value.toLowerCase(), allowed);
      const got = formatValue(value) + suggestion;
      report(key, `expected ${expected}, got ${got}`);
      return undefined;
    },

    /** Reads a boolean; `false` if it is absent. */
    boolean(key: string): boolean {
      const value = read(key);
      if (value !== undefined && typeof value !== "boolean") {
        reject(key, "true or false");
      }
      return value === true;
    },

    /** Reads text: a string, or the text of any other scalar, so that `default: 10` needs no quotes. */
    text(key: string): string | undefined {
      const value = read(key);
      if (value === undefined) return undefined;
      return scalarText(value, texts[key]) ?? reject(key, "text");
    },

    /** Reads a list of at least one text. */
    texts(key: string): readonly string[] | undefined {
      const value = read(key);
      if (value === undefined) return undefined;
      const items = listOrEmpty(value);
      const sources = listOrEmpty(texts[key]);
      const all = items.map((item, index) => scalarText(item, sources[index]));
      const valid = all.filter((text) => text !== undefined);
      if (items.length > 0 && valid.length === items.length) return valid;
      return reject(key, "a list of at least one text");
    },
  };
}

function listOrEmpty(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/**
 * Returns the text of a scalar; `undefined` for anything else, and for the words `null` and `~`.
 *
 * @param source The value as it is written, if that is known. The text of a date is not known otherwise.
 */
function scalarText(value: unknown, source: unknown): string | undefined {
  if (value === null) return source === null ? "" : undefined;
  if (typeof source === "string") return source;
  return typeof value === "object" ? undefined : String(value);
}

/**
 * Reports the keys of a mapping that are unknown. A key that is no short word is not shown, since it may be a value.
 *
 * @param place Where the mapping is; nothing at the top.
 */
export function checkKeys(
  fields: Fields,
  known: readonly string[],
  report: Report,
  place = "",
): void {
  const prefix = place === "" ? "" : `${place}.`;
  const expected = `expected one of ${known.join(", ")}`;
  for (const key of Object.keys(fields)) {
    if (known.includes(key)) continue;
    if (isShortWord(key)) {
      report(prefix + key, expected + didYouMean(key, known));
    } else {
      report(`${prefix}…`, `${expected}, got a key that is not shown`);
    }
  }
}
