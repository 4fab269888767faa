import { parseArgs } from "@std/cli/parse-args";
import { closestString } from "@std/text/closest-string";
import { formatValue, formatWord } from "../../config/format_value.ts";
import type { ManifestSettings } from "../../config/manifest.ts";
import { didYouMean } from "../../values/did_you_mean.ts";
import { isGranted } from "../../values/permissions.ts";
import { redactUrl } from "../../values/redact_url.ts";
import { COMMAND_NAMES, withoutDashes } from "../commands/command_names.ts";
import {
  environmentVariable,
  type Option,
  OPTION_NAMES,
  type OptionName,
  OPTIONS,
  type OptionTable,
  type OptionValues,
  type StartOptions,
  toggle,
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

/** The flags of a command line, and its other words. */
interface ParsedFlags {
  readonly flags: OptionSources["flags"];
  readonly words: readonly string[];
}

/** Options by name, as far as a command line depends on them. */
type FlagTable = Readonly<
  Record<string, Pick<Option<unknown>, "type" | "expected">>
>;

/**
 * Parses the command line of the gateway.
 *
 * @throws {UsageError} If an argument is not an option, or a flag is repeated that takes a single value.
 */
export function parseCommandLine(args: readonly string[]) {
  const options = withoutDashes(args);
  if (options[0]?.startsWith("-") === false) rejectFirstWord(options[0]);
  const { flags, words } = parseFlags(options, {
    ...OPTIONS,
    help: toggle(),
    version: toggle(),
  }, { h: "help" });
  if (words[0] !== undefined) rejectWord(words[0]);
  return { flags, help: flags.has("help"), version: flags.has("version") };
}

/** The first word may be a misspelled command. */
function rejectFirstWord(word: string): never {
  if (word === "dev") {
    throw new UsageError(
      `Cannot run "dev": expected --upstream URL or --static-dir DIR instead`,
    );
  }
  const suggestion = didYouMean(word, [
    ...COMMAND_NAMES,
    "--help",
    "--version",
  ]);
  if (suggestion === "") return rejectWord(word);
  throw new UsageError(
    `Cannot run ${
      formatValue(redactUrl(word))
    }: there is no such command${suggestion}`,
  );
}

function rejectWord(word: string): never {
  if (COMMAND_NAMES.some((name) => name === word)) {
    throw new UsageError(
      `Cannot ${word}: expected the command before all options`,
    );
  }
  throw new UsageError(
    `Cannot use ${
      formatValue(redactUrl(word))
    }: expected options only; see --help`,
  );
}

/**
 * Parses the flags of a command line. A switch has the text `true` or `false`, and a list the texts of all its flags.
 *
 * @param aliases Other names of flags.
 * @throws {UsageError} If a flag is unknown, or repeated although it takes a single value.
 */
export function parseFlags(
  args: readonly string[],
  table: FlagTable,
  aliases: Readonly<Record<string, string>>,
): ParsedFlags {
  const names = Object.keys(table);
  const { _: words, ...values } = parseArgs(normalize(args, table, aliases), {
    string: ["_", ...names],
    collect: names,
    unknown: (arg: string, key?: string) =>
      key === undefined || rejectFlag(arg, names), // other words are in `_`
  });
  const given = Object.entries(table).map(([name, { type }]) =>
    [name, type, values[name] ?? []] as const
  )
    .filter(([, , texts]) => texts.length > 0);
  return {
    flags: new Map(
      given.map(([name, type, texts]) => [name, combine(name, type, texts)]),
    ),
    words: words.map(String),
  };
}

/** Returns the value of a flag that may have been repeated. */
function combine(
  name: string,
  type: Option<unknown>["type"],
  values: readonly string[],
): string {
  if (type === "list") return values.join(",");
  if (type !== "boolean" && values.length > 1) {
    throw new UsageError(`Cannot use --${name} twice: expected one value`);
  }
  return values.at(-1) ?? ""; // the last one is usual for a pair such as --strict and --no-strict
}

/** Writes every flag as `--name=value`, since `parseArgs` does not accept a next argument that begins with a dash. */
function normalize(
  args: readonly string[],
  table: FlagTable,
  aliases: Readonly<Record<string, string>>,
): string[] {
  const normalized: string[] = [];
  const words = args.map((arg) => withTwoDashes(arg, table, aliases));
  for (let index = 0; index < words.length; index++) {
    const word = words[index] ?? "";
    const next = words[index + 1];
    if (word === "--") return [...normalized, ...args.slice(index)];
    const name = Object.keys(table).find((name) => word === `--${name}`);
    if (name === undefined) normalized.push(checkNegation(word, table));
    else if (table[name]?.type === "boolean") normalized.push(`${word}=true`);
    else if (next !== undefined && !next.startsWith("--")) {
      normalized.push(`${word}=${next}`);
      index++;
    } else normalized.push(rejectMissingList(word, table[name]));
  }
  return normalized;
}

/** Go accepts flags with one dash as well; these are often written so for REP's Go gateway. */
function withTwoDashes(
  arg: string,
  table: FlagTable,
  aliases: Readonly<Record<string, string>>,
): string {
  const [, word = "", value = ""] = /^--?([a-z][a-z-]*)(=.*)?$/s.exec(arg) ??
    [];
  const name = aliases[word] ?? word;
  return Object.hasOwn(table, name) ? `--${name}${value}` : arg;
}

/** A list may be empty, so a missing value would otherwise be accepted. */
function rejectMissingList(
  word: string,
  option: FlagTable[string] | undefined,
): string {
  if (option?.type !== "list") return word;
  throw new UsageError(
    `Cannot read ${word}: expected ${option.expected}, got nothing`,
  );
}

/** Writes `--no-name` as `--name=false`. */
function checkNegation(word: string, table: FlagTable): string {
  const [, name = "", value] = /^--no-([a-z-]+)(=.*)?$/s.exec(word) ?? [];
  if (name === "") return word;
  if (!Object.hasOwn(table, name) || table[name]?.type !== "boolean") {
    return rejectFlag(word, Object.keys(table));
  }
  if (value === undefined) return `--${name}=false`;
  throw new UsageError(
    `Cannot use --no-${name} with a value: expected --${name} or --no-${name}`,
  );
}

function rejectFlag(arg: string, names: readonly string[]): never {
  const [flag = ""] = arg.split("="); // the value may be a secret
  throw new UsageError(
    `Cannot use ${formatWord(flag)}: there is no such option; did you mean --${
      closestFlag(flag, names)
    }?`,
  );
}

/** Returns the name of the flag that was probably meant: for a single letter, one that begins with it. */
function closestFlag(flag: string, names: readonly string[]): string {
  const word = flag.replace(/^-+/, "");
  const ending = names.find((name) => word.endsWith(`-${name}`)); // the documents of REP have --hot-reload-poll-interval
  if (ending !== undefined) return ending;
  const initial = names.filter((name) =>
    word.length === 1 && name.startsWith(word.toLowerCase())
  );
  return closestString(word, initial.length > 0 ? initial : names);
}

/**
 * Reads the options of the gateway.
 *
 * @throws {UsageError} If a value is invalid, or options are in conflict. The message has a line for each.
 */
export function readOptions(sources: OptionSources): StartOptions {
  const options = readValues(OPTIONS, sources);
  if (
    (options["tls-cert"] === undefined) !== (options["tls-key"] === undefined)
  ) {
    throw new UsageError(
      "Cannot use TLS: expected --tls-cert and --tls-key together",
    );
  }
  return { ...options, ...selectContent(options) };
}

/** The defaults of the two modes (REP-RFC-0001 §7.1). */
const DEFAULT_STATIC_DIR = "/usr/share/nginx/html";
const DEFAULT_UPSTREAM = "http://localhost:80/";

/** `--mode` selects what is served besides the endpoints; without it, that is what is set. */
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
  const values = Object.entries(table).map(([name, option]) => {
    try {
      return [name, readOption(name, option, sources)];
    } catch (error) {
      issues.push((error as UsageError).message);
      return [name, undefined];
    }
  });
  if (issues.length > 0) throw new UsageError(issues.join("\n"));
  return Object.fromEntries(values);
}

function readOption(
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
  const setting = option.manifest === undefined
    ? undefined
    : manifest[option.manifest];
  return setting ?? option.default;
}

/** Returns whether an option is set, even if to its default. */
export function isSet(
  name: OptionName,
  { flags, environment, manifest }: OptionSources,
): boolean {
  const { manifest: setting }: Option<unknown> = OPTIONS[name];
  if (flags.has(name) || variableOf(name, environment) !== undefined) {
    return true;
  }
  return setting !== undefined && manifest[setting] !== undefined;
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
 * Returns the value of an option's variable. In Compose files, an empty variable means "not set", and Kubernetes sets
 * REP_GATEWAY_PORT=tcp://… in every pod if there is a Service named rep-gateway.
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

/** Returns what is not read from the environment: all of it, or `REP_GATEWAY_…` variables that are probably misspelled. */
export function environmentWarnings(
  environment: Readonly<Record<string, string>>,
): string[] {
  const noEnvironment =
    "without --allow-env, environment variables are not read: neither REP_* variables nor options";
  const known = new Set([
    ...OPTION_NAMES.map(environmentVariable),
    MASTER_KEY_VARIABLE,
    `${MASTER_KEY_VARIABLE}_FILE`,
  ]);
  const unknown = Object.keys(environment)
    .filter((name) => name.startsWith("REP_GATEWAY_") && !known.has(name))
    .filter((name) => !/^REP_GATEWAY_(SERVICE|PORT)_/.test(name)); // service links, as above
  return [
    ...(isGranted({ name: "env" }) ? [] : [noEnvironment]),
    ...unknown.map((name) => `${name} is not an option and is ignored`),
  ];
}

/** The only setting without a flag, since any user of the machine can read command lines. */
export const MASTER_KEY_VARIABLE = "REP_GATEWAY_MASTER_KEY";
