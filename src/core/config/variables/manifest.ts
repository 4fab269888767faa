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

/** A parsed manifest, in the form in which it is passed on so that it is parsed only once. */
export interface ParsedManifest {
  /** What messages call it, with its path if it has one. */
  readonly name: string;
  /** One sentence per issue, with values of PUBLIC variables only. A manifest with issues must not be used. */
  readonly issues: readonly string[];
}

/** A parsed `.rep.yaml` (REP's `rep-manifest.schema.json`). */
export interface Manifest extends ParsedManifest {
  /** The lines of keys, counted from 1, by their places, such as `variables.API_URL.tier`. Keys in `{ }` have none. */
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
  const report: Report = (place, problem) => {
    const where = nameAt(place, { name, lines });
    issues.push(`Cannot use ${where}: ${place}: ${problem}`);
  };
  const reportLine = (issue: string, line: number | undefined) =>
    issues.push(`Cannot use ${nameInLine(name, line)}: ${issue}`);
  const root = parseYaml(text, reportLine);
  const texts = mappingOrEmpty(parseTexts(text).variables);
  const variables = readVariables(root, texts, report);
  const fields = readMapping(root, "settings", report) ?? {};
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

/** Bounds the time of the search below, since a key may have any length. */
const MAX_PLACE = 500;

/** Returns what messages about a place call the manifest. With a path, that includes the line of the place. */
export function nameAt(
  place: string,
  { name, lines }: Pick<Manifest, "name" | "lines">,
): string {
  let key = place.slice(0, MAX_PLACE);
  while (key !== "" && !lines.has(key)) {
    key = key.slice(0, Math.max(0, key.lastIndexOf("."))); // the mapping that contains it
  }
  return nameInLine(name, lines.get(key));
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
 * Returns the beginning of the parser's message, and the position. The rest quotes names and the line, which may contain
 * the default of a SENSITIVE variable.
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

/** Reads an optional mapping at the top of the manifest. */
function readMapping(
  root: Fields,
  key: string,
  report: Report,
): Fields | undefined {
  const value = root[key];
  if (value === undefined || isMapping(value)) return value;
  report(key, `expected a mapping, got ${describeKind(value)}`);
  return undefined;
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
  if (root.variables === undefined) {
    report("variables", "expected a mapping, got nothing");
  }
  for (const [name, value] of Object.entries(fields ?? {})) {
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
      place,
    );
    const declaration = readDeclaration(reader);
    reader.reportTo(report);
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
  reader.comment("example"); // for readers of the manifest: validated, but not kept
  const pattern = reader.text("pattern");
  const values = reader.texts("values");
  const deprecated = reader.boolean("deprecated");
  const deprecatedMessage = reader.comment("deprecated_message");
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

/** Reads the fields of one declaration, and collects the problems. */
type FieldReader = ReturnType<typeof createFieldReader>;

/**
 * Creates a reader of the fields of one declaration. Every key that is read is known, so that no separate list of keys
 * can differ from what is read.
 *
 * A value may be in the wrong field, or in a key, by mistake. So unless the variable is PUBLIC, issues show no value and
 * no unknown key, except short words.
 *
 * @param texts The fields with scalars as they are written, such as `1.0` where `fields` contains 1.
 * @param place The place of the declaration in the manifest, such as `variables.API_URL`.
 */
function createFieldReader(fields: Fields, texts: Fields, place: string) {
  const isPublic = fields.tier === "public";
  const known: string[] = [];
  const problems: { place: string; problem: string }[] = [];

  function read(key: string): unknown {
    known.push(key);
    return fields[key];
  }

  function report(key: string, problem: string): void {
    problems.push({ place: `${place}.${key}`, problem });
  }

  function reject(key: string, expected: string): undefined {
    const value = fields[key];
    const got = isPublic ? formatValue(value) : describeKind(value);
    report(key, `expected ${expected}, got ${got}`);
  }

  function readText(key: string): string | undefined {
    const value = read(key);
    if (value === undefined || typeof value === "string") return value;
    return scalarText(value, texts[key]) ?? reject(key, "text");
  }

  return {
    /** Adds a problem with a field. */
    report,

    /** Reports all unknown keys, and then all other problems. */
    reportTo(report: Report): void {
      checkKeys(fields, known, report, place, !isPublic);
      for (const { place, problem } of problems) report(place, problem);
    },

    /** Reads one of several words. Issues show a misspelled one in any tier, since the tier itself may be misspelled. */
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
    text: readText,

    /** Reads text that is for readers of the manifest. A key without a value is the same as no key. */
    comment(key: string): string | undefined {
      const text = readText(key);
      return fields[key] === null ? undefined : text;
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
  if (typeof value === "string") return value;
  if (value === null) return source === null ? "" : undefined;
  const text = typeof source === "string" ? source : undefined;
  if (value instanceof Date) return text;
  if (typeof value !== "number" && typeof value !== "boolean") return undefined;
  return text ?? String(value);
}

/**
 * Reports the keys of a mapping that are unknown.
 *
 * @param place Where the mapping is; nothing at the top.
 * @param isSecret Whether an unknown key may be a value, such as the default of a SENSITIVE variable, so that only a
 * short word is shown.
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
      const problem = "expected a colon and a space between key and value";
      report(`${prefix}${word}`, problem);
    } else if (isSecret && !isShortWord(key)) {
      report(place, `${expected}, got a key that is not shown`);
    } else {
      const suggestion = didYouMean(key, known);
      report(`${prefix}${formatKey(key)}`, `${expected}${suggestion}`);
    }
  }
}
