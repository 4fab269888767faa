import { parse } from "@std/yaml/parse";
import { type Tier, TIERS } from "./tier.ts";

/** The types a manifest can give a variable (REP-RFC-0001 §6.2). */
export type VariableType = "string" | "url" | "number" | "boolean" | "csv" | "json" | "enum";

/** What a manifest says of one variable. */
export interface Declaration {
  readonly tier: Tier;
  readonly type: VariableType;
  readonly required: boolean;
  readonly default?: string;
  /** What the whole value has to match. */
  readonly pattern?: RegExp;
  readonly values?: readonly string[];
  readonly deprecated: boolean;
  readonly deprecatedMessage?: string;
}

/** The values of a manifest's settings, as a {@linkcode SettingsReader} returned them. */
export type ManifestSettings = Readonly<Record<string, unknown>>;

/** A `.rep.yaml` that was read (REP's `rep-manifest.schema.json`). */
export interface Manifest {
  readonly variables: ReadonlyMap<string, Declaration>;
  readonly settings: ManifestSettings;
}

/** A manifest, or all that is wrong with it. */
export interface ManifestResult {
  readonly manifest: Manifest;
  readonly issues: readonly string[];
}

const TYPES: readonly VariableType[] = ["string", "url", "number", "boolean", "csv", "json", "enum"];
/** A YAML mapping. */
export type Fields = Readonly<Record<string, unknown>>;
/** Takes one issue with the manifest. */
export type Report = (issue: string) => void;
/** Reads the manifest's `settings`. They are options of the command, which therefore brings the reader. */
export type SettingsReader = (fields: Fields, report: Report) => ManifestSettings;

const ignoreSettings: SettingsReader = () => ({});

/**
 * Reads a manifest and reports every issue, not only the first.
 *
 * @param readSettings Reads `settings`. By default they are ignored.
 */
export function parseManifest(text: string, readSettings: SettingsReader = ignoreSettings): ManifestResult {
  const issues: string[] = [];
  const report: Report = (fault) => issues.push(`Cannot use the manifest: ${fault}`);
  const root = readYaml(text, report);
  const variables = new Map<string, Declaration>();
  for (const [name, fields] of Object.entries(objectAt(root, "variables", report, true))) {
    const declaration = readDeclaration(name, fields, report);
    if (declaration) variables.set(name, declaration);
  }
  const settings = readSettings(objectAt(root, "settings", report, false), report);
  checkKeys(root, ["version", "variables", "settings"], "", report);
  checkVersion(root, report);
  return { manifest: { variables, settings }, issues };
}

function readYaml(text: string, report: Report): Fields {
  try {
    const root = parse(text);
    if (isObject(root)) return root;
    report(`expected a mapping at the top, got ${kindOf(root)}`); // a text may be a whole env file
  } catch (error) {
    // The parser quotes the offending line, which may hold the default of a SENSITIVE variable: only its place is told.
    const place = /at line \d+, column \d+/.exec(String(error))?.[0] ?? "";
    report(`it is not valid YAML ${place}`.trimEnd());
  }
  return { version: "0.0.0", variables: {} }; // one fault is enough for a text that is no manifest at all
}

function checkVersion(root: Fields, report: Report): void {
  const { version } = root;
  if (typeof version === "string" && /^\d+\.\d+\.\d+$/.test(version)) return;
  report(`version: expected a quoted version such as "0.1.0", got ${formatValue(version)}`);
}

function readDeclaration(name: string, value: unknown, report: Report): Declaration | undefined {
  const where = `variables.${name}`;
  if (name === "") report("variables: expected a name for every variable");
  if (!isObject(value)) return void report(`${where}: expected a mapping with a tier, got ${kindOf(value)}`);
  checkKeys(value, DECLARATION_KEYS, `${where}.`, report);
  const fields = new FieldReader(value, where, report);
  const tier = fields.oneOf("tier", TIERS);
  fields.string("description");
  fields.string("example");
  const declaration = {
    type: fields.oneOf("type", TYPES, "string") ?? "string",
    required: fields.boolean("required"),
    deprecated: fields.boolean("deprecated"),
    ...optionalField("default", fields.string("default")),
    ...optionalField("pattern", fields.pattern()),
    ...optionalField("values", fields.values()),
    ...optionalField("deprecatedMessage", fields.string("deprecated_message")),
  };
  if (tier === undefined) return undefined;
  checkConsistency(where, declaration, report);
  return { tier, ...declaration };
}

const DECLARATION_KEYS: readonly string[] = [
  "tier",
  "type",
  "required",
  "default",
  "description",
  "example",
  "pattern",
  "values",
  "deprecated",
  "deprecated_message",
];

function checkConsistency(where: string, declaration: Omit<Declaration, "tier">, report: Report): void {
  const { type, values, required, default: byDefault } = declaration;
  if (type === "enum" && values === undefined) {
    report(`${where}.values: expected the allowed values of the enum, got nothing`);
  }
  if (required && byDefault !== undefined) report(`${where}.default: expected no default for a required variable`);
}

/**
 * Reads the fields of a declaration, and reports those of another type than they must have. What stands in them is only
 * told of PUBLIC variables: a value that slipped into the wrong field is still one.
 */
class FieldReader {
  readonly #fields: Fields;
  readonly #where: string;
  readonly #report: Report;

  constructor(fields: Fields, where: string, report: Report) {
    this.#fields = fields;
    this.#where = where;
    this.#report = report;
  }

  oneOf<T extends string>(key: string, allowed: readonly T[], byDefault?: T): T | undefined {
    const value = this.#fields[key];
    if (value === undefined && byDefault !== undefined) return byDefault;
    const found = allowed.find((one) => one === value);
    if (found === undefined) this.#wrong(key, `one of ${allowed.join(", ")}`, formatValue(value));
    return found;
  }

  boolean(key: string): boolean {
    const value = this.#fields[key];
    if (value !== undefined && typeof value !== "boolean") this.#wrong(key, "true or false");
    return value === true;
  }

  string(key: string): string | undefined {
    const value = this.#fields[key];
    if (value === undefined || typeof value === "string") return value;
    this.#wrong(key, "a string (put it in quotes)");
    return undefined;
  }

  pattern(): RegExp | undefined {
    const source = this.string("pattern");
    if (source === undefined) return undefined;
    const pattern = wholeMatch(source, "u") ?? wholeMatch(source, "");
    if (pattern === undefined) this.#wrong("pattern", "a regular expression");
    return pattern;
  }

  values(): readonly string[] | undefined {
    const value = this.#fields.values;
    if (value === undefined) return undefined;
    if (Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === "string")) return value;
    this.#wrong("values", "a list of at least one string (put it in quotes)");
    return undefined;
  }

  #wrong(key: string, wanted: string, got = this.#got(key)): void {
    this.#report(`${this.#where}.${key}: expected ${wanted}, got ${got}`);
  }

  #got(key: string): string {
    return this.#fields.tier === "public" ? formatValue(this.#fields[key]) : kindOf(this.#fields[key]);
  }
}

/** A value matches as a whole, as in REP's own gateway; without `u`, a pattern may escape what needs no escape. */
function wholeMatch(source: string, flags: "u" | ""): RegExp | undefined {
  try {
    new RegExp(source, flags); // alone, since a lone `)` would end the group
    return new RegExp(`^(?:${source})$`, flags);
  } catch {
    return undefined; // the caller says so
  }
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function objectAt(root: Fields, key: string, report: Report, isRequired: boolean): Fields {
  const value = root[key];
  if (isObject(value)) return value;
  if (value !== undefined || isRequired) report(`${key}: expected a mapping, got ${kindOf(value)}`);
  return {};
}

/** Reports the keys of a mapping that are not known. */
export function checkKeys(fields: Fields, known: readonly string[], where: string, report: Report): void {
  for (const key of Object.keys(fields)) {
    if (!known.includes(key)) report(`${where}${key}: expected one of ${known.join(", ")}`);
  }
}

/** A field that is left out where there is no value: `exactOptionalPropertyTypes` knows no `undefined`. */
function optionalField<K extends string, V>(key: K, value: V | undefined): { [key in K]?: V } {
  return value === undefined ? {} : { [key]: value } as { [key in K]: V };
}

/** A value for a message: short, and on one line. */
export function formatValue(value: unknown): string {
  if (typeof value === "number") return String(value);
  if (typeof value !== "string") return typeof value === "boolean" ? String(value) : kindOf(value);
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

/** What kind of value it is, where the value must not be told. */
function kindOf(value: unknown): string {
  if (value === undefined || value === null) return "nothing";
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  if (value instanceof Date) return "a date";
  return isObject(value) ? "a mapping" : `a ${typeof value}`;
}
