import { parseArgs } from "@std/cli/parse-args";
import { closestString } from "@std/text/closest-string";
import { formatValue, formatWord } from "../../core/config/variables/quote.ts";
import type { ManifestSettings } from "../../core/config/variables/manifest.ts";
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

/** The flags of a command line, and the other arguments. */
interface ParsedFlags {
  readonly flags: OptionSources["flags"];
  readonly words: readonly string[];
}

/**
 * Parses the command line of the gateway.
 *
 * @throws {UsageError} If an argument is not an option, or a flag is repeated that takes a single value.
 */
export function parseCommandLine(args: readonly string[]) {
  const options = withoutDashes(args);
  if (options[0]?.startsWith("-") === false) rejectFirstWord(options[0]);
  const table = { ...OPTIONS, ...OTHER_OPTIONS };
  const { flags, words } = parseFlags(options, table, { h: "help" });
  if (words[0] !== undefined) rejectWord(words[0]);
  return { flags, help: flags.has("help"), version: flags.has("version") };
}

/** Rejects the first word of a command line, which may be a misspelled command. */
function rejectFirstWord(word: string): never {
  if (word === "dev") {
    throw new UsageError(
      `Cannot run "dev": expected --upstream URL or --static-dir DIR instead`,
    );
  }
  const names = [...COMMAND_NAMES, "--help", "--version"];
  const suggestion = didYouMean(word, names);
  if (suggestion === "") rejectWord(word);
  const shown = formatValue(redactUrl(word));
  throw new UsageError(
    `Cannot run ${shown}: there is no such command${suggestion}`,
  );
}

function rejectWord(word: string): never {
  if (COMMAND_NAMES.some((name) => name === word)) {
    throw new UsageError(
      `Cannot ${word}: expected the command before all options`,
    );
  }
  const shown = formatValue(redactUrl(word));
  throw new UsageError(
    `Cannot use ${shown}: expected options only, and no value after a switch, which --no-NAME turns off; see --help`,
  );
}

/**
 * Parses the flags of a command line: `--name=value`, `--name value`, `--switch` and `--no-switch`. It also accepts flags
 * with one dash, as Go does. The text of a switch is `true` or `false`; that of a list joins the texts of all its flags.
 *
 * @param aliases Other names of flags.
 * @throws {UsageError} If a flag is unknown, or repeated although it takes a single value.
 */
export function parseFlags(
  args: readonly string[],
  table: OptionTable,
  aliases: Readonly<Record<string, string>>,
): ParsedFlags {
  const names = Object.keys(table);
  const { _: words, ...texts } = parseArgs(rewrite(args, table, aliases), {
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

/**
 * Writes every flag as `--name=value`. By itself, `parseArgs` splits `-port` into letters, reads `-1` after `--port` as
 * a flag, and takes any value of a switch for true.
 */
function rewrite(
  args: readonly string[],
  table: OptionTable,
  aliases: Readonly<Record<string, string>>,
): string[] {
  const rewritten: string[] = [];
  const end = args.includes("--") ? args.indexOf("--") : args.length;
  for (let index = 0; index < end; index++) {
    const arg = args[index] ?? "";
    const flag = parseFlag(arg, table, aliases) ?? parseNegation(arg, table);
    if (flag === undefined) {
      const isUnknown = arg.startsWith("-") && arg !== "-";
      if (isUnknown) rejectFlag(arg, Object.keys(table));
      rewritten.push(arg);
      continue;
    }
    if (flag.text === undefined && index + 1 < end) {
      const next = args[index + 1] ?? "";
      const isFlag = next.startsWith("--") ||
        parseFlag(next, table, aliases) !== undefined;
      if (!isFlag) {
        flag.text = next;
        index++;
      }
    }
    rewritten.push(`--${flag.name}=${textOf(flag)}`);
  }
  return [...rewritten, ...args.slice(end)];
}

/** A flag of a command line. */
interface Flag {
  readonly name: string;
  readonly option: Option<unknown>;
  /** Its value; `undefined` if it may follow as the next argument. */
  text: string | undefined;
}

/** Returns `undefined` if the argument is not a flag of the table. */
function parseFlag(
  arg: string,
  table: OptionTable,
  aliases: Readonly<Record<string, string>>,
): Flag | undefined {
  const [, word = "", text] = /^--?([a-z][a-z-]*)(?:=(.*))?$/s.exec(arg) ?? [];
  const name = aliases[word] ?? word;
  const option = Object.hasOwn(table, name) ? table[name] : undefined;
  if (option === undefined) return undefined;
  const isSwitch = option.type === "boolean";
  return { name, option, text: isSwitch ? text ?? "true" : text };
}

/** Parses `--no-name` as `--name=false`. */
function parseNegation(arg: string, table: OptionTable): Flag | undefined {
  const [, name = "", value] = /^--no-([a-z-]+)(=.*)?$/s.exec(arg) ?? [];
  const option = Object.hasOwn(table, name) ? table[name] : undefined;
  if (option?.type !== "boolean") return undefined;
  if (value === undefined) return { name, option, text: "false" };
  throw new UsageError(
    `Cannot use --no-${name} with a value: expected --${name} or --no-${name}`,
  );
}

/** Returns an empty text for a flag without a value, unless that may be a valid list. */
function textOf({ name, option, text }: Flag): string {
  if (option.type !== "list" || text !== undefined) return text ?? "";
  throw new UsageError(
    `Cannot read --${name}: expected ${option.expected}, got nothing`,
  );
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

function rejectFlag(arg: string, names: readonly string[]): never {
  const [flag = ""] = arg.split("="); // the value may be a secret
  const shown = formatWord(flag);
  const closest = closestFlag(flag, names);
  throw new UsageError(
    `Cannot use ${shown}: there is no such option; did you mean --${closest}?`,
  );
}

/** Returns the name of the flag that was probably meant. For a single letter, it is one that begins with the letter. */
function closestFlag(flag: string, names: readonly string[]): string {
  const word = flag.replace(/^-+/, "");
  const ending = names.find((name) => word.endsWith(`-${name}`)); // REP's documents name --hot-reload-poll-interval
  if (ending !== undefined) return ending;
  const initial = names.filter((name) => name.startsWith(word.toLowerCase()));
  const isLetter = word.length === 1 && initial.length > 0;
  return closestString(word, isLetter ? initial : names);
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
  return { ...options, ...selectContent(options) };
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
 * REP_GATEWAY_PORT=tcp://…, which Kubernetes sets in every pod if a Service has the name rep-gateway.
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

/** Returns warnings if the environment cannot be read, or contains `REP_GATEWAY_…` variables that are no options. */
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
    .add(MASTER_KEY_VARIABLE).add(`${MASTER_KEY_VARIABLE}_FILE`);
  for (const name of Object.keys(environment)) {
    if (!name.startsWith("REP_GATEWAY_") || known.has(name)) continue;
    if (/^REP_GATEWAY_(SERVICE|PORT)_/.test(name)) continue; // Kubernetes sets these as well
    warnings.push(`${name} is not an option and is ignored`);
  }
  return warnings;
}

/** The variable of the master key. It has no flag, since all users of the machine can read command lines. */
export const MASTER_KEY_VARIABLE = "REP_GATEWAY_MASTER_KEY";
