import { parse } from "@std/yaml/parse";
import { type Declaration, readDeclaration } from "./declaration.ts";
import { checkKeys, type Fields, type Report } from "./fields.ts";
import { describeKind, formatValue, isMapping } from "./format_value.ts";

/** The values of a manifest's settings, as a {@linkcode SettingsReader} returned them. */
export type ManifestSettings = Readonly<Record<string, unknown>>;

/** A parsed `.rep.yaml` (REP's `rep-manifest.schema.json`). */
export interface Manifest {
  /** What it is called in messages, with its path if it has one. */
  readonly name: string;
  readonly variables: ReadonlyMap<string, Declaration>;
  readonly settings: ManifestSettings;
}

/** The result of {@linkcode parseManifest}. */
export interface ManifestResult {
  /** The valid parts of the manifest. It must not be used if there are issues. */
  readonly manifest: Manifest;
  /** One sentence per issue. Only values of PUBLIC variables are named. */
  readonly issues: readonly string[];
}

/** Reads the `settings` of a manifest. They are options of the command line, which therefore provides the reader. */
export type SettingsReader = (
  fields: Fields,
  report: Report,
) => ManifestSettings;

/** Options of {@linkcode parseManifest}. */
interface ManifestOptions {
  /** The path of its file, for messages. */
  readonly path: string | undefined;
  /** Reads `settings`, which are ignored without it. */
  readonly readSettings: SettingsReader | undefined;
}

const ROOT_KEYS = ["version", "variables", "settings"];

/**
 * Parses a manifest and reports all its issues, not only the first.
 *
 * @param text YAML.
 */
export function parseManifest(
  text: string,
  options: ManifestOptions,
): ManifestResult {
  const { path, readSettings = () => ({}) } = options;
  const name = path === undefined ? "the manifest" : `the manifest "${path}"`;
  const issues: string[] = [];
  const report: Report = (issue) => issues.push(`Cannot use ${name}: ${issue}`);
  const root = parseYaml(text, report);
  const variables = readVariables(root, readTexts(text), report);
  const settings = readSettings(
    readMapping(root, "settings", report) ?? {},
    report,
  );
  checkKeys(root, ROOT_KEYS, report, { prefix: "", isSecret: false });
  checkVersion(root, report);
  return { manifest: { name, variables, settings }, issues };
}

function parseYaml(text: string, report: Report): Fields {
  try {
    const root = parse(text);
    if (isMapping(root)) return root;
    report(`expected a mapping at the top, got ${describeKind(root)}`); // an env file is parsed as one string
  } catch (error) {
    // The parser quotes the line, which may contain the default of a SENSITIVE variable: only its position is reported.
    const position = /at line \d+, column \d+/.exec(String(error))?.[0] ?? "";
    report(`it is not valid YAML ${position}`.trimEnd());
  }
  return { version: "0.0.0", variables: {} }; // without further issues
}

/** Reads the same YAML without types: every scalar is the text that the manifest has. */
function readTexts(text: string): Fields {
  try {
    return mappingOrEmpty(parse(text, { schema: "failsafe" }));
  } catch {
    return {}; // YAML with types that this schema does not have
  }
}

function mappingOrEmpty(value: unknown): Fields {
  return isMapping(value) ? value : {};
}

function readVariables(
  root: Fields,
  texts: Fields,
  report: Report,
): Map<string, Declaration> {
  const fields = readMapping(root, "variables", report);
  if (fields === undefined && root.variables === undefined) {
    report("variables: expected a mapping, got nothing");
  }
  const allTexts = mappingOrEmpty(texts.variables);
  const declarations = Object.entries(fields ?? {}).flatMap(([name, value]) => {
    const declaration = readDeclaration(name, {
      value,
      texts: mappingOrEmpty(allTexts[name]),
    }, report);
    return declaration ? [[name, declaration] as const] : [];
  });
  return new Map(declarations);
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

function checkVersion({ version }: Fields, report: Report): void {
  if (typeof version === "string" && /^\d+\.\d+\.\d+$/.test(version)) return;
  report(
    `version: expected a quoted version such as "0.1.0", got ${
      formatValue(version)
    }`,
  );
}
