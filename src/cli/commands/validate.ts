import { classify } from "../../config/classify.ts";
import type { Declaration } from "../../config/declaration.ts";
import { scanForSecrets } from "../../config/guardrails.ts";
import type { ManifestSettings } from "../../config/manifest.ts";
import { buildSnapshot, ConfigurationError } from "../../config/snapshot.ts";
import { environmentName, type Tier, TIERS, type Variable } from "../../config/tier.ts";
import { parseCommandManifest } from "../options/manifest_settings.ts";
import { type OptionSources, readOptions, unknownVariables, UsageError } from "../options/read_options.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandLine } from "./command_line.ts";
import { type CommandSources, readSources } from "./read_sources.ts";
import { formatTable, terminalJson } from "./table.ts";

/** A variable with the value that a gateway would use. */
interface EffectiveVariable {
  readonly name: string;
  readonly tier: Tier;
  /** Where it is set; `null` if it is not. */
  readonly source: string | null;
  /** `null` if it is not set, or hidden. */
  readonly value: string | null;
  /** Why the value is not printed. */
  readonly hidden?: string;
}

/** The declarations of a manifest. */
type Declarations = ReadonlyMap<string, Declaration>;

/** Checks everything that a gateway would check at startup, and prints the effective values. */
export async function validate(line: CommandLine, io: CommandIo): Promise<number> {
  const sources = await readSources(line, io.environment);
  const { manifest, issues: manifestIssues } = parseManifest(sources);
  const options = checkOptions({
    flags: new Map(line.strict ? [["strict", "true"]] : []),
    environment: io.environment,
    manifest: manifest.settings,
  });
  const snapshotIssues = await checkSnapshot(sources, options.strict);
  const all = [...sources.issues, ...manifestIssues, ...options.issues, ...snapshotIssues];
  const issues = [...new Set(all)]; // both the command and the gateway check the manifest
  const variables = describeVariables(sources, manifest.variables);
  const warnings = findWarnings(sources, manifest.variables, options.strict);
  if (line.json) io.print(terminalJson({ valid: issues.length === 0, issues, warnings, variables }, 2));
  else printReport({ issues, warnings, variables }, io);
  return issues.length === 0 ? 0 : 1;
}

function parseManifest({ manifest: text, manifestPath }: CommandSources) {
  if (text !== undefined) return parseCommandManifest(text, manifestPath);
  const settings: ManifestSettings = {};
  return { manifest: { variables: new Map<string, Declaration>(), settings }, issues: [] };
}

function checkOptions(sources: OptionSources): { strict: boolean; issues: readonly string[] } {
  try {
    return { strict: readOptions(sources).strict, issues: [] };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { strict: false, issues: error.message.split("\n") };
  }
}

async function checkSnapshot(sources: CommandSources, strict: boolean): Promise<readonly string[]> {
  try {
    const requiredTiers = isManifestAlone(sources) ? [] : TIERS;
    await buildSnapshot({ ...sources, requiredTiers, strict, loadPatternLibrary: undefined });
    return [];
  } catch (error) {
    if (error instanceof ConfigurationError) return error.issues;
    throw error;
  }
}

/** Returns whether there is a manifest, but no variable: a step of CI checks the manifest where it is not deployed. */
function isManifestAlone({ manifest, environment }: CommandSources): boolean {
  return manifest !== undefined && classify(environment).variables.length === 0;
}

/** Returns the variables that are set, and the defaults of the others. */
function resolveVariables({ environment }: CommandSources, declarations: Declarations): readonly Variable[] {
  const { variables } = classify(environment);
  const names = new Set(variables.map(({ name }) => name));
  const defaults = [...declarations].flatMap(([name, { tier, default: value }]) =>
    value === undefined || names.has(name) ? [] : [{ name, tier, value }]
  );
  return [...variables, ...defaults];
}

function describeVariables(sources: CommandSources, declarations: Declarations): EffectiveVariable[] {
  const variables = resolveVariables(sources, declarations);
  const secrets = new Set(scanForSecrets(variables).map(({ name }) => name));
  const described = variables.map((variable) => {
    const source = sources.setIn.get(environmentName(variable)) ?? "default";
    return describe(variable, source, secrets.has(variable.name));
  });
  const names = new Set(variables.map(({ name }) => name));
  const unset = [...declarations].filter(([name]) => !names.has(name));
  return [...described, ...unset.map(([name, { tier }]) => ({ name, tier, source: null, value: null }))]
    .sort((a, b) => a.name < b.name ? -1 : 1);
}

function describe({ name, tier, value }: Variable, source: string, looksSecret: boolean): EffectiveVariable {
  if (tier !== "public") return { name, tier, source, value: null, hidden: tier };
  return looksSecret ? { name, tier, source, value: null, hidden: LOOKS_SECRET } : { name, tier, source, value };
}

const LOOKS_SECRET = "looks like a secret";

function findWarnings(sources: CommandSources, declarations: Declarations, strict: boolean): string[] {
  const { variables } = classify(sources.environment);
  const secrets = strict ? [] : scanForSecrets(resolveVariables(sources, declarations));
  const deprecated = variables.filter(({ name }) => declarations.get(name)?.deprecated);
  return [
    ...sources.warnings,
    ...(isManifestAlone(sources) ? ["no variable is set: only the manifest is checked"] : []),
    ...secrets.map(({ name, detail }) => `${environmentName({ name, tier: "public" })}: ${detail}`),
    ...deprecated.map((variable) => {
      const message = declarations.get(variable.name)?.deprecatedMessage;
      return `${environmentName(variable)} is deprecated${message === undefined ? "" : `: ${message}`}`;
    }),
    ...unknownVariables(sources.environment).map((name) => `${name} is not an option and is ignored`),
  ];
}

/** What {@linkcode validate} found. */
interface Report {
  readonly issues: readonly string[];
  readonly warnings: readonly string[];
  readonly variables: readonly EffectiveVariable[];
}

function printReport({ issues, warnings, variables }: Report, io: CommandIo): void {
  const rows = variables.map((variable) => {
    const { name, tier, source, value, hidden } = variable;
    return [name, tier, source ?? "(not set)", hidden === undefined ? value ?? "" : `(${describeHidden(variable)})`];
  });
  if (rows.length > 0) {
    io.print(
      formatTable([["NAME", "TIER", "SOURCE", "VALUE"], ...rows], { width: io.columns, flexible: 3 }).join("\n"),
    );
  }
  for (const issue of issues) io.printError(issue);
  for (const warning of warnings) io.printError(`Warning: ${warning}`);
  const [count, noun] = [issues.length, issues.length === 1 ? "issue" : "issues"];
  io.printError(count === 0 ? `Valid: ${variables.length} variables` : `Invalid: ${count} ${noun}`);
}

function describeHidden({ hidden, tier }: EffectiveVariable): string {
  return hidden === tier ? "hidden" : `hidden: ${hidden}`;
}
