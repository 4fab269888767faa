import {
  ConfigurationError,
  evaluate,
  type Evaluation,
  NO_MANIFEST,
  type StoredEnvironment,
} from "../../core/config/variables/snapshot.ts";
import { withoutServiceLinks } from "../../core/config/variables/service_links.ts";
import {
  type Environment,
  environmentName,
  hasTier,
  type Tier,
  TIERS,
  type Variable,
} from "../../core/config/variables/tiers.ts";
import {
  allFindings,
  describeFinding,
  type Findings,
} from "../../core/config/variables/finding.ts";
import type { Manifest } from "../../core/config/variables/manifest.ts";
import { storedEnvironment } from "../../core/config/stored/stored_variables.ts";
import { messageOf } from "../../core/observe/log.ts";
import { checkKeepBuilds } from "../../content/builds/check_directory.ts";
import { localFiles } from "../../files/local_files.ts";
import { readTextFile } from "../../files/read_named.ts";
import { startErrorMessage } from "../start/start_log.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandArguments } from "./command_table.ts";
import { printTable } from "./terminal_text.ts";
import { writeFile } from "./write_file.ts";
import {
  DEFAULT_MANIFEST,
  findDefaultManifest,
  readEnvPath,
  readManifest,
  VITE_PREFIX,
  viteNames,
} from "../sources/variable_sources.ts";
import { withStore } from "./variable_commands.ts";
import { generateTypes, hasTypes } from "../../client/generate_types.ts";
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

/** What is found in the variables of one gateway. */
export interface Report {
  readonly valid: boolean;
  readonly issues: readonly string[];
  readonly warnings: readonly string[];
  readonly variables: readonly EffectiveVariable[];
}

/** What a site has of its own. */
interface SiteSources {
  /** Its variables lie over all others. */
  readonly envFile: string | undefined;
}

/**
 * Checks one gateway.
 *
 * @param site Set for a site, which has no manifest by default.
 */
export async function validateOne(
  line: CommandArguments,
  io: CommandIo,
  site?: SiteSources,
): Promise<Report> {
  const sources = await readSources(line, io, site);
  sources.issues.push(...await buildsIssues(line));
  return await check(sources, await readStored(line, io, sources));
}

/** Returns what is wrong with the directory of kept builds. */
async function buildsIssues(line: CommandArguments): Promise<string[]> {
  const { "keep-builds": path, "static-dir": staticDir, immutable } = line;
  const files = await localFiles();
  const served = [staticDir, line.sites, line.releases];
  try {
    await checkKeepBuilds(path, immutable, served, files);
  } catch (error) {
    return [startErrorMessage(error)];
  }
  const found = path &&
    await files.stat(path).catch((error) =>
      error instanceof Deno.errors.NotFound ? undefined : { isDirectory: false }
    ); // a gateway creates one that is missing
  if (!found || found.isDirectory) return [];
  return [`Cannot use --keep-builds "${path}": expected a directory`];
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
    const stored = await withStore(
      line,
      io,
      (store) => storedEnvironment(store),
    );
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
    rejectsSuspiciousValues: strict,
    acceptPublic,
    requiredTiers: isManifestAlone ? [] : TIERS,
  });
  const alone = isManifestAlone
    ? ["no variable is set: missing variables are not reported"]
    : [];
  const texts = found.issues.map(({ text }) => text);
  const issues = [...sources.issues, ...texts];
  return {
    valid: issues.length === 0,
    issues,
    warnings: [
      ...sources.warnings,
      ...alone,
      ...describeFindings(found, sources),
    ],
    variables: describeAll(found, sources),
  };
}

/** Returns warnings about variables. In strict mode, what looks like a secret is an issue. */
export function describeFindings(
  findings: Findings,
  { strict, manifest }: Pick<CommandSources, "strict" | "manifest">,
): string[] {
  return allFindings(findings)
    .filter(({ detection }) => !strict || detection === undefined)
    .map(({ event, name, detail }) =>
      describeFinding(event, name, detail, manifest)
    );
}

/** Returns the tier of a name that is SENSITIVE or SERVER in the manifest or a source, even if another source says PUBLIC. */
function hiddenTier(
  name: string,
  variables: readonly Variable[],
  manifest: Manifest,
): Tier | undefined {
  const set = variables.filter((variable) => variable.name === name);
  const tiers = [...set, manifest.variables.get(name)].map((it) => it?.tier);
  return tiers.find((tier) => tier !== undefined && tier !== "public");
}

/** Describes all variables that are set or declared, sorted by name. */
function describeAll(
  { variables, warnings }: Pick<Evaluation, "variables" | "warnings">,
  { setIn, manifest }: CommandSources,
): EffectiveVariable[] {
  const described: EffectiveVariable[] = [];
  const secrets = new Set(warnings.map(({ name }) => name));
  for (const variable of variables) {
    const { name, tier } = variable;
    const source = setIn.get(environmentName(variable)) ?? "default";
    const secret = secrets.has(name) ? "looks like a secret" : undefined;
    const hidden = hiddenTier(name, variables, manifest) ?? secret;
    const value = hidden === undefined ? variable.value : null;
    described.push({ name, tier, source, value, hidden });
  }
  for (const [name, { tier }] of manifest.variables) {
    if (variables.some((variable) => variable.name === name)) continue;
    const unset = { source: null, value: null, hidden: undefined };
    described.push({ name, tier, ...unset });
  }
  return described.sort((a, b) => a.name < b.name ? -1 : 1);
}

/** Prints a report for people. */
export function printReport(
  { valid, issues, warnings, variables }: Report,
  io: CommandIo,
): void {
  const rows = [["NAME", "TIER", "SOURCE", "VALUE"]];
  for (const variable of variables) {
    const { name, tier, source } = variable;
    rows.push([name, tier, source ?? "(not set)", shownValue(variable)]);
  }
  if (rows.length > 1) printTable(rows, io);
  for (const issue of issues) io.printError(issue);
  for (const warning of warnings) io.printError(`Warning: ${warning}`);
  const result = valid
    ? `Valid: ${variables.length} variables`
    : `Invalid: ${issues.length} issues`;
  io.printError(result);
}

function shownValue({ value, hidden, tier }: EffectiveVariable): string {
  if (hidden === undefined) return value ?? "";
  return hidden === tier ? "(hidden)" : `(hidden: ${hidden})`;
}

/**
 * Prints TypeScript types for the variables in the manifest, writes them to a file, or compares them with it.
 *
 * @throws {ConfigurationError} If the file has other types.
 */
export async function typegen(
  line: CommandArguments,
  io: CommandIo,
): Promise<void> {
  const path = line.manifest ?? io.directory + DEFAULT_MANIFEST;
  const { variables } = await readManifest(path);
  const types = generateTypes(variables);
  const { out, check } = line;
  if (check) {
    if (out === undefined) {
      throw new UsageError("Cannot check types: expected --out FILE");
    }
    if (hasTypes(await readTextFile(out, "--out"), types)) return;
    throw new ConfigurationError([
      `Cannot confirm "${out}": expected the types of "${path}", as typegen --out writes them`,
    ]);
  }
  if (out === undefined) io.print(types.trimEnd());
  else {
    await writeFile("--out", out, types);
    io.printError(`Wrote ${out}`);
  }
}

/** The result of {@linkcode readSources}. */
type CommandSources = Awaited<ReturnType<typeof readSources>>;

/**
 * Reads all sources of the variables except the store, as a gateway would. It continues if one of them cannot be read or
 * is invalid.
 */
export async function readSources(
  line: CommandArguments,
  { environment: processEnvironment, directory }: CommandIo,
  site?: SiteSources,
) {
  const issues: string[] = [];
  const warnings: string[] = [];
  const manifestPath = line.manifest ??
    (site === undefined ? await findDefaultManifest(directory) : undefined);
  const text = manifestPath &&
    await orIssues(() => readTextFile(manifestPath, "--manifest"), issues);
  const environment: Record<string, string> = {};
  const setIn = new Map<string, string>();
  function add(source: string, variables: Environment): void {
    Object.assign(environment, variables);
    for (const name of Object.keys(variables)) setIn.set(name, source);
  }
  async function addFile(path: string): Promise<void> {
    const read = () => readEnvPath(path);
    const file = await orIssues(read, issues);
    if (file === undefined) return;
    add(path, file.variables);
    const names = viteNames([file]);
    if (names !== "") warnings.push(`${names}: ${VITE_PREFIX}`);
  }
  for (const path of line["env-file"]) await addFile(path);
  const own = withoutServiceLinks(processEnvironment);
  add("environment", own);
  if (site?.envFile !== undefined) await addFile(site.envFile);

  const manifest = text === undefined
    ? NO_MANIFEST
    : parseCommandManifest(text, manifestPath);
  const readAll = () =>
    readOptions({
      flags: new Map(),
      environment: own,
      manifest: manifest.settings,
    });
  const options = await orIssues(readAll, issues);
  const isManifestRead = line.manifest !== undefined ||
    isGranted({ name: "read", path: directory + DEFAULT_MANIFEST });
  const unread = isManifestRead
    ? []
    : [`without --allow-read, ${DEFAULT_MANIFEST} is not read`];
  const accepted = line["accept-public"];
  return {
    /** The valid parts of the manifest; `NO_MANIFEST` if there is none. */
    manifest,
    /** The variables of all sources. */
    environment,
    /** Where each variable is set: the path of an env file, or `environment`. */
    setIn,
    strict: line.strict || options?.strict === true,
    acceptPublic: accepted.length > 0
      ? accepted
      : options?.["accept-public"] ?? [],
    /** Why sources cannot be read, or options are invalid. */
    issues,
    /** Why sources or variables are ignored. */
    warnings: [
      ...warnings,
      ...environmentWarnings({
        ...withoutServiceLinks(environment), // the evaluation warns of those in env files
        ...processEnvironment,
      }),
      ...unread,
    ],
  };
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
    for (const issue of error.message.split("\n")) issues.push(issue); // a call cannot have as many arguments
    return undefined;
  }
}
