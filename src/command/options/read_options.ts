import { parseArgs } from "@std/cli/parse-args";
import { formatValue, formatWord } from "../../core/config/variables/quote.ts";
import type { ManifestSettings } from "../../core/config/variables/manifest.ts";
import {
  serviceLinkWarnings,
  withoutServiceLinks,
} from "../../core/config/variables/service_links.ts";
import { didYouMean } from "../../core/values/did_you_mean.ts";
import { isGranted } from "../../core/values/runtime.ts";
import { redactUrl } from "../../core/values/urls.ts";
import { COMMAND_NAMES, withoutDashes } from "../commands/command_table.ts";
import type { Option, OptionTable, OptionValues } from "./option_kinds.ts";
import {
  environmentVariable,
  OPTION_NAMES,
  type OptionName,
  OPTIONS,
  OTHER_OPTIONS,
  type StartOptions,
} from "./option_table.ts";

/** An unknown option, or an invalid value of an option. The process exits with code 2. */
export class UsageError extends Error {
  override name = "UsageError";
}

/** Where options are set, in order of precedence. */
export interface OptionSources {
  readonly flags: ReadonlyMap<string, string>;
  readonly environment: Readonly<Record<string, string>>;
  readonly manifest: ManifestSettings;
}

/**
 * Parses the command line of the gateway.
 *
 * @throws {UsageError} If an argument is not an option, or a flag is repeated that takes a single value.
 */
export function parseCommandLine(args: readonly string[]) {
  const options = withoutDashes(args);
  if (options[0]?.startsWith("-") === false) rejectWord(options[0]);
  const table = { ...OPTIONS, ...OTHER_OPTIONS };
  const { flags, words } = parseFlags(options, table);
  if (words[0] !== undefined) rejectWord(words[0]);
  return { flags, help: flags.has("help"), version: flags.has("version") };
}

/** Rejects a word that is no option. It may be a misspelled command, or one that is not the first word. */
function rejectWord(word: string): never {
  if (COMMAND_NAMES.some((name) => name === word)) {
    throw new UsageError(
      `Cannot ${word}: expected the command before all options`,
    );
  }
  const shown = formatValue(redactUrl(word));
  const names = [...COMMAND_NAMES, "--help", "--version"];
  const hint = isDirectory(word)
    ? `; did you mean --static-dir ${shown}?`
    : didYouMean(word, names) || "; see --help";
  throw new UsageError(
    `Cannot use ${shown}: expected a command or options${hint}`,
  );
}

/** Without what Deno would have to load for Node.js. */
function isDirectory(path: string): boolean {
  if (!isGranted({ name: "read", path })) return false;
  try {
    if (globalThis.Deno) return Deno.statSync(path).isDirectory;
    const { process } = globalThis as unknown as NodeGlobal;
    return process.getBuiltinModule("node:fs").statSync(path).isDirectory();
  } catch {
    return false; // there is no such file
  }
}

/** What Node.js has without an import. */
interface NodeGlobal {
  readonly process: {
    getBuiltinModule(name: "node:fs"): typeof import("node:fs");
  };
}

/** Other names of flags, most of them as in REP's own command-line tool. */
const ALIASES: Readonly<Record<string, string>> = {
  m: "manifest",
  o: "out",
  output: "out",
  d: "dir",
  h: "help",
};

/**
 * Parses the flags of a command line: `--name=value`, `--name value`, `--switch` and `--no-switch`. It also accepts flags
 * with one dash, as Go does. The text of a switch is `true` or `false`; that of a list joins the texts of all its flags.
 *
 * @returns The flags, and the other arguments.
 * @throws {UsageError} If a flag is unknown, or repeated although it takes a single value.
 */
export function parseFlags(args: readonly string[], table: OptionTable) {
  const end = args.includes("--") ? args.indexOf("--") : args.length;
  const normalized: string[] = [];
  const rest = args.slice(0, end);
  while (rest.length > 0) {
    const arg = normalize(rest.shift() ?? "", table);
    const needsValue = arg.startsWith("--") && !arg.includes("=");
    normalized.push(needsValue ? `${arg}=${takeValue(rest)}` : arg);
  }
  normalized.push(...args.slice(end));
  const names = Object.keys(table);
  const { _: words, ...texts } = parseArgs(normalized, {
    string: ["_", ...names],
    collect: names,
  });
  const flags = new Map<string, string>();
  for (const [name, option] of Object.entries(table)) {
    const all = texts[name] ?? [];
    if (all.length > 0) flags.set(name, combine(name, option, all));
  }
  return { flags, words: words.map(String) };
}

/** Takes the value of a flag from the arguments after it. As in Go, it may begin with a dash, or be empty. */
function takeValue(rest: string[]): string {
  return rest[0]?.startsWith("--") ? "" : rest.shift() ?? "";
}

/**
 * Returns a flag with two dashes, and a switch with its value. By itself, `parseArgs` splits `-port` into letters, reads
 * no value that begins with a dash, and takes any value of a switch for true.
 */
function normalize(arg: string, table: OptionTable): string {
  if (!arg.startsWith("-") || arg === "-") return arg;
  const [, negation, word = "", value] =
    /^--?(no-)?([a-z][a-z-]*)(=.*)?$/s.exec(arg) ?? [];
  const name = ALIASES[word] ?? word;
  const option = Object.hasOwn(table, name) ? table[name] : undefined;
  if (option === undefined) rejectFlag(arg, table);
  const isBareSwitch = option.type === "boolean" && value === undefined;
  if (isBareSwitch) return `--${name}=${negation === undefined}`;
  if (negation !== undefined) rejectFlag(arg, table);
  return `--${name}${value ?? ""}`;
}

/** Combines the texts of all flags of one name. */
function combine(
  name: string,
  { type }: Option<unknown>,
  texts: readonly string[],
): string {
  if (type === "list") return texts.join(",");
  if (type !== "boolean" && texts.length > 1) {
    throw new UsageError(`Cannot use --${name} twice: expected one value`);
  }
  return texts.at(-1) ?? ""; // of --strict and --no-strict, the last one counts
}

function rejectFlag(arg: string, table: OptionTable): never {
  const [flag = ""] = arg.split("="); // the value may be a secret
  const names = Object.keys(table).map((name) => `--${name}`);
  const hint = didYouMean(flag, names) || "; see --help";
  const shown = formatWord(flag);
  throw new UsageError(`Cannot use ${shown}: there is no such option${hint}`);
}

/**
 * Reads the options of the gateway.
 *
 * @throws {UsageError} If a value is invalid, or options conflict. The message has a line for each.
 */
export function readOptions(sources: OptionSources): StartOptions {
  const options = readValues(OPTIONS, sources);
  const { "tls-cert": cert, "tls-key": key } = options;
  if ((cert === undefined) !== (key === undefined)) {
    throw new UsageError(
      "Cannot use TLS: expected --tls-cert and --tls-key together",
    );
  }
  checkSites(options);
  return { ...options, ...selectContent(options) };
}

/** Rejects what only a gateway for one app can follow. */
function checkSites(
  { sites, releases, app, "allowed-origins": origins }: StartOptions,
): void {
  if (sites === undefined) {
    if (releases === undefined) return;
    throw new UsageError("Cannot use --releases: expected --sites as well");
  }
  if (app !== undefined) {
    throw new UsageError(
      "Cannot use --app with --sites: each site is an app with the name of its host",
    );
  }
  if (origins.length > 0) {
    throw new UsageError(
      "Cannot use --allowed-origins with --sites: expected allowed_origins in the settings of a site's manifest",
    );
  }
}

/** The defaults of the two modes (REP-RFC-0001 §7.1). */
const DEFAULT_STATIC_DIR = "/usr/share/nginx/html";
const DEFAULT_UPSTREAM = "http://localhost:80/";

/** Selects the directory or the upstream: by `--mode`, or, without it, by which of the two is set. */
function selectContent(
  { mode, "static-dir": staticDir, upstream }: StartOptions,
) {
  if (mode === "embedded") {
    return {
      "static-dir": staticDir ?? DEFAULT_STATIC_DIR,
      upstream: undefined,
    };
  }
  if (mode === "proxy") {
    return {
      "static-dir": undefined,
      upstream: upstream ?? new URL(DEFAULT_UPSTREAM),
    };
  }
  if (staticDir === undefined || upstream === undefined) return {};
  throw new UsageError(
    "Cannot serve both --static-dir and --upstream: expected one of them, or --mode to select one",
  );
}

/**
 * Reads the value of every option. Flags take precedence over the environment, and the environment over the manifest.
 *
 * @throws {UsageError} If a value is invalid. The message has a line for each.
 */
export function readValues<Table extends OptionTable>(
  table: Table,
  sources: OptionSources,
): OptionValues<Table> {
  const issues: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, option] of Object.entries(table)) {
    try {
      values[name] = readIfSet(name, option, sources) ?? option.default;
    } catch (error) {
      issues.push((error as UsageError).message);
    }
  }
  if (issues.length > 0) throw new UsageError(issues.join("\n"));
  return values as OptionValues<Table>;
}

/** Returns the value of an option; `undefined` if it is not set. */
function readIfSet(
  name: string,
  option: Option<unknown>,
  { flags, environment, manifest }: OptionSources,
): unknown {
  const flag = flags.get(name);
  if (flag !== undefined) return parse(`--${name}`, flag, option);
  const variable = variableOf(name, environment);
  if (variable !== undefined) {
    return parse(environmentVariable(name), variable, option);
  }
  return option.manifest && manifest[option.manifest];
}

/** Returns whether an option is set, even if to its default. */
export function isSet(name: OptionName, sources: OptionSources): boolean {
  return readIfSet(name, OPTIONS[name], sources) !== undefined;
}

function parse(
  source: string,
  text: string,
  { parse, type, expected }: Option<unknown>,
): unknown {
  const value = parse(text);
  if (value !== undefined) return value;
  const valid = type === "list" ? `${expected}, separated by commas` : expected;
  const got = formatValue(redactUrl(text));
  throw new UsageError(`Cannot read ${source}: expected ${valid}, got ${got}`);
}

/**
 * Returns the value of an option's variable. An empty variable counts as not set, as in Compose files, and so does
 * REP_GATEWAY_PORT=tcp://…, which Docker sets for a link to a container named rep-gateway.
 */
function variableOf(
  name: string,
  environment: OptionSources["environment"],
): string | undefined {
  const variable = environment[environmentVariable(name)] || undefined;
  return name === "port" && variable?.startsWith("tcp://")
    ? undefined
    : variable;
}

/**
 * Returns warnings if the environment cannot be read, or contains service links, or `REP_GATEWAY_…` variables that are no
 * options.
 */
export function environmentWarnings(
  environment: Readonly<Record<string, string>>,
): string[] {
  const warnings: string[] = [];
  if (!isGranted({ name: "env" })) {
    warnings.push(
      "without --allow-env, environment variables are not read: neither REP_* variables nor options",
    );
  }
  const known = new Set(OPTION_NAMES.map(environmentVariable))
    .add(MASTER_KEY_VARIABLE).add(`${MASTER_KEY_VARIABLE}_FILE`)
    .add(environmentVariable("by")); // only commands that write have this option
  for (const { name, detail } of serviceLinkWarnings(environment)) {
    warnings.push(`${name}: ${detail}`);
  }
  for (const name of Object.keys(withoutServiceLinks(environment))) {
    if (!name.startsWith("REP_GATEWAY_") || known.has(name)) continue;
    warnings.push(`${name} is not an option and is ignored`);
  }
  return warnings;
}

/** The variable of the master key. It has no flag, since all users of the machine can read command lines. */
export const MASTER_KEY_VARIABLE = "REP_GATEWAY_MASTER_KEY";
