import {
  ConfigurationError,
  EMPTY_VALUE,
  evaluate,
  NO_MANIFEST,
  type StoredEnvironment,
} from "../../core/config/variables/snapshot.ts";
import {
  type Environment,
  environmentName,
  hasTier,
  type Tier,
  TIERS,
  type Variable,
} from "../../core/config/variables/tiers.ts";
import {
  describeWarning,
  type GuardrailWarning,
} from "../../core/config/variables/guardrails.ts";
import type { Manifest } from "../../core/config/variables/manifest.ts";
import { storedEnvironment } from "../../core/config/stored/stored_variables.ts";
import { messageOf } from "../../core/observe/log.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandArguments } from "./command_table.ts";
import { printTable, terminalJson } from "./terminal_text.ts";
import { writeFile } from "./write_file.ts";
import {
  DEFAULT_MANIFEST,
  findDefaultManifest,
  readEnvPath,
  readManifest,
  readTextFile,
} from "../sources/variable_sources.ts";
import { withStore } from "./variable_commands.ts";
import { generateTypes } from "../../core/config/variables/generate_types.ts";
import { isGranted } from "../../core/values/runtime.ts";
import { parseCommandManifest } from "../options/manifest_settings.ts";
import {
  environmentWarnings,
  readOptions,
  UsageError,
} from "../options/read_options.ts";

/** A variable with the value that a gateway would use. */
interface EffectiveVariable {
  readonly name: string;
  readonly tier: Tier;
  /** Where it is set; `null` if it is not set. */
  readonly source: string | null;
  /** `null` if it is not set, or hidden. */
  readonly value: string | null;
  /** Why the value is not printed; `undefined` if it is printed. */
  readonly hidden: string | undefined;
}

/** The output of {@linkcode validate}. */
interface Report {
  readonly issues: readonly string[];
  readonly warnings: readonly string[];
  readonly variables: readonly EffectiveVariable[];
}

/** Checks everything that a gateway would check at startup, and prints the effective values. */
export async function validate(
  line: CommandArguments,
  io: CommandIo,
): Promise<number> {
  const sources = await readSources(line, io.environment);
  const report = await check(sources, await readStored(line, io, sources));
  const isValid = report.issues.length === 0;
  if (line.json) io.print(terminalJson({ valid: isValid, ...report }, 2));
  else printReport(report, io);
  return isValid ? 0 : 1;
}

/** Reads the variables in the store that is named. If that fails, it adds the reason to the issues. */
async function readStored(
  line: CommandArguments,
  io: CommandIo,
  { setIn, issues, warnings }: CommandSources,
): Promise<StoredEnvironment | undefined> {
  const { kv } = line;
  if (kv === undefined || kv === ":memory:") return undefined;
  try {
    if (!await io.storeExists(kv)) { // opening it would create it
      warnings.push("the store does not exist yet: a gateway creates it");
      return undefined;
    }
    const stored = await withStore(line, io, storedEnvironment);
    for (const name of Object.keys(stored.environment)) {
      setIn.set(name, "store");
    }
    return stored;
  } catch (error) {
    issues.push(messageOf(error));
    return undefined;
  }
}

async function check(
  sources: CommandSources,
  stored: StoredEnvironment | undefined,
): Promise<Report> {
  const { environment, manifest, strict, acceptPublic } = sources;
  // CI may check the manifest where nothing is deployed.
  const names = Object.keys({ ...environment, ...stored?.environment });
  const isManifestAlone = manifest !== NO_MANIFEST && !names.some(hasTier);
  const found = await evaluate({
    environment,
    stored,
    manifest,
    strict,
    acceptPublic,
    requiredTiers: isManifestAlone ? [] : TIERS,
  });
  const secrets = new Set(found.warnings.map(({ name }) => name));
  const warnings = [...sources.warnings];
  if (isManifestAlone) {
    warnings.push("no variable is set: missing variables are not reported");
  }
  if (!strict) { // in strict mode, they are issues
    for (const warning of found.warnings) {
      warnings.push(warningText(warning));
    }
  }
  for (const { name, detail } of found.suspicious) {
    warnings.push(`${name}: ${detail}`);
  }
  for (const name of found.empty) warnings.push(`${name}: ${EMPTY_VALUE}`);
  for (const { name, message } of found.deprecated) {
    const tier = manifest.variables.get(name)?.tier ?? "public";
    const reason = message === undefined ? "" : `: ${message}`;
    warnings.push(`${environmentName({ name, tier })} is deprecated${reason}`);
  }
  return {
    issues: [...new Set([...sources.issues, ...found.issues])], // both include those of the manifest
    warnings,
    variables: describeAll(found.variables, secrets, sources),
  };
}

/** Returns what a command prints about a value that looks like a secret. */
export function warningText(warning: GuardrailWarning): string {
  const { name } = warning;
  const key = environmentName({ name, tier: "public" });
  return `${key}: ${describeWarning(warning)}`;
}

/** Returns the names that are SENSITIVE or SERVER in the manifest or in a source, even if another source says PUBLIC. */
function hiddenTiers(
  variables: readonly Variable[],
  manifest: Manifest,
): ReadonlyMap<string, Tier> {
  const tiers = new Map<string, Tier>();
  for (const { name, tier } of variables) {
    if (tier !== "public") tiers.set(name, tier);
  }
  for (const [name, { tier }] of manifest.variables) {
    if (tier !== "public") tiers.set(name, tier);
  }
  return tiers;
}

/** Describes all variables that are set or declared, sorted by name. */
function describeAll(
  variables: readonly Variable[],
  secrets: ReadonlySet<string>,
  { setIn, manifest }: CommandSources,
): EffectiveVariable[] {
  const described: EffectiveVariable[] = [];
  const intended = hiddenTiers(variables, manifest);
  for (const variable of variables) {
    const { name, tier } = variable;
    const source = setIn.get(environmentName(variable)) ?? "default";
    const secret = secrets.has(name) ? "looks like a secret" : undefined;
    const hidden = tier === "public" ? intended.get(name) ?? secret : tier;
    const value = hidden === undefined ? variable.value : null;
    described.push({ name, tier, source, value, hidden });
  }
  const names = new Set(variables.map(({ name }) => name));
  for (const [name, { tier }] of manifest.variables) {
    if (names.has(name)) continue;
    described.push({
      name,
      tier,
      source: null,
      value: null,
      hidden: undefined,
    });
  }
  return described.sort((a, b) => a.name < b.name ? -1 : 1);
}

function printReport(
  { issues, warnings, variables }: Report,
  io: CommandIo,
): void {
  const rows = [["NAME", "TIER", "SOURCE", "VALUE"]];
  for (const variable of variables) {
    const { name, tier, source } = variable;
    rows.push([name, tier, source ?? "(not set)", shownValue(variable)]);
  }
  if (rows.length > 1) printTable(rows, 3, io);
  for (const issue of issues) io.printError(issue);
  for (const warning of warnings) io.printError(`Warning: ${warning}`);
  const noun = issues.length === 1 ? "issue" : "issues";
  const result = issues.length === 0
    ? `Valid: ${variables.length} variables`
    : `Invalid: ${issues.length} ${noun}`;
  io.printError(result);
}

function shownValue({ value, hidden, tier }: EffectiveVariable): string {
  if (hidden === undefined) return value ?? "";
  return hidden === tier ? "(hidden)" : `(hidden: ${hidden})`;
}

/** Prints TypeScript types for the variables in the manifest, or writes them to a file. */
export async function typegen(
  line: CommandArguments,
  io: CommandIo,
): Promise<void> {
  const path = line.manifest ?? await findDefaultManifest();
  if (path === undefined) {
    throw new ConfigurationError([
      "Cannot find the manifest: expected --manifest, or .rep.yaml in this directory",
    ]);
  }
  const { variables } = await readManifest(path);
  const types = generateTypes(variables);
  if (line.out === undefined) io.print(types.trimEnd());
  else if (await writeFile("--out", line.out, types)) {
    io.printError(`Wrote ${line.out}`);
  } else io.printError(`${line.out} is up to date`);
}

/** The result of {@linkcode readSources}. */
type CommandSources = Awaited<ReturnType<typeof readSources>>;

/**
 * Reads all sources of the variables except the store, as a gateway would. It continues if one of them cannot be read or
 * is invalid.
 */
export async function readSources(
  line: CommandArguments,
  processEnvironment: Environment,
) {
  const issues: string[] = [];
  const manifestPath = line.manifest ?? await findDefaultManifest();
  const text = manifestPath &&
    await orIssues(() => readTextFile(manifestPath, "--manifest"), issues);
  const environment: Record<string, string> = {};
  const setIn = new Map<string, string>();
  function add(source: string, variables: Environment): void {
    Object.assign(environment, variables);
    for (const name of Object.keys(variables)) setIn.set(name, source);
  }
  for (const path of line["env-file"]) {
    const read = () => readEnvPath(path, "--env-file");
    add(path, await orIssues(read, issues) ?? {});
  }
  add("environment", processEnvironment);

  const manifest = text === undefined
    ? NO_MANIFEST
    : parseCommandManifest(text, manifestPath);
  for (const issue of manifest.issues) issues.push(issue);
  const flags = new Map<string, string>();
  if (line.strict) flags.set("strict", "true");
  const accepted = line["accept-public"].join(",");
  if (accepted !== "") flags.set("accept-public", accepted);
  const readAll = () =>
    readOptions({
      flags,
      environment: processEnvironment,
      manifest: manifest.settings,
    });
  const options = await orIssues(readAll, issues);
  return {
    /** The valid parts of the manifest; `NO_MANIFEST` if there is none. */
    manifest,
    /** The variables of all sources. */
    environment,
    /** Where each variable is set: the path of an env file, or `environment`. */
    setIn,
    strict: options?.strict ?? false,
    acceptPublic: options?.["accept-public"] ?? [],
    /** Why sources cannot be read or are invalid. */
    issues,
    /** Why sources or variables are ignored. */
    warnings: [...environmentWarnings(environment), ...manifestWarnings(line)],
  };
}

function manifestWarnings({ manifest }: CommandArguments): string[] {
  if (
    manifest !== undefined ||
    isGranted({ name: "read", path: DEFAULT_MANIFEST })
  ) return [];
  return [`without --allow-read, ${DEFAULT_MANIFEST} is not read`];
}

/** Returns a result; if the configuration or an option is invalid, `undefined`, and adds the issues to a list. */
async function orIssues<T>(
  read: () => T | Promise<T>,
  issues: string[],
): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    const isExpected = error instanceof ConfigurationError ||
      error instanceof UsageError;
    if (!isExpected) throw error;
    for (const issue of issuesOf(error)) issues.push(issue); // a call cannot have as many arguments
    return undefined;
  }
}

function issuesOf(error: ConfigurationError | UsageError): readonly string[] {
  return error instanceof ConfigurationError
    ? error.issues
    : error.message.split("\n");
}
