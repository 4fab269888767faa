import { parseArgs } from "@std/cli/parse-args";
import { closestString } from "@std/text/closest-string";
import type { ManifestSettings } from "../../config/manifest.ts";
import { didYouMean } from "../../values/did_you_mean.ts";
import { redactUrl } from "../../values/redact_url.ts";
import { COMMAND_NAMES } from "../commands/command_names.ts";
import {
  type CommandOptions,
  environmentVariable,
  InvalidValue,
  isList,
  isSwitch,
  type Option,
  OPTION_NAMES,
  type OptionName,
  OPTIONS,
} from "./option_table.ts";

/** An unknown option, or an invalid value of an option. The process exits with code 2. */
export class UsageError extends Error {
  override name = "UsageError";
}

/** A parsed command line. */
interface CommandLine {
  readonly flags: ReadonlyMap<OptionName, string>;
  readonly help: boolean;
  readonly version: boolean;
}

/** Where options are set, in order of precedence. */
export interface OptionSources {
  readonly flags: CommandLine["flags"];
  readonly environment: Readonly<Record<string, string>>;
  readonly manifest: ManifestSettings;
}

/**
 * Parses a command line.
 *
 * @throws {UsageError} If an argument is not an option, or a flag is repeated that takes a single value.
 */
export function parseCommandLine(args: readonly string[]): CommandLine {
  const options = args[0] === "--" ? args.slice(1) : args; // `deno serve` and `deno task` pass it on
  if (options[0]?.startsWith("-") === false) rejectFirstWord(options[0]);
  const { _: rest, h, help, version, ...flags } = parseArgs(normalize(options), {
    string: [...OPTION_NAMES],
    collect: [...OPTION_NAMES],
    boolean: ["help", "h", "version"],
    unknown: (arg: string, key?: string) => key === undefined || rejectFlag(arg), // other words are in `rest`
  });
  if (rest.length > 0) rejectWord(String(rest[0]));
  const given = OPTION_NAMES.filter((name) => flags[name].length > 0);
  return { flags: new Map(given.map((name) => [name, combine(name, flags[name])])), help: help || h, version };
}

/** The first word may be a misspelled command. */
function rejectFirstWord(word: string): never {
  if (word === "dev") throw new UsageError(`Cannot run "dev": expected --upstream URL or --static-dir DIR instead`);
  const suggestion = didYouMean(word, [...COMMAND_NAMES, "--help", "--version"]);
  if (suggestion === "") return rejectWord(word);
  throw new UsageError(`Cannot run "${redactUrl(word)}": there is no such command${suggestion}`);
}

function rejectWord(word: string): never {
  if (COMMAND_NAMES.some((name) => name === word)) {
    throw new UsageError(`Cannot ${word}: expected the command before all options`);
  }
  throw new UsageError(`Cannot use "${redactUrl(word)}": expected options only; see --help`);
}

/** Returns the value of a flag that may have been repeated. */
function combine(name: OptionName, values: readonly string[]): string {
  if (isSwitch(name)) return values.at(-1) ?? ""; // as usual for a pair such as --strict and --no-strict
  if (isList(name)) return values.join(",");
  return singleValue(name, values) ?? "";
}

/**
 * Returns the value of a flag that takes a single one.
 *
 * @throws {UsageError} If there are several.
 */
export function singleValue(name: string, values: readonly string[]): string | undefined {
  if (values.length <= 1) return values[0];
  throw new UsageError(`Cannot use --${name} twice: expected one value`);
}

/** Writes every option as `--name=value`, since `parseArgs` does not accept a next argument that begins with a dash. */
function normalize(args: readonly string[]): string[] {
  const normalized: string[] = [];
  const words = args.map(withTwoDashes);
  for (let index = 0; index < words.length; index++) {
    const word = words[index] ?? "";
    const next = words[index + 1];
    if (word === "--") return [...normalized, ...args.slice(index)];
    if (takesNext(word) && next !== undefined && !next.startsWith("--")) {
      normalized.push(`${word}=${next}`);
      index++;
    } else normalized.push(normalizeSwitch(rejectMissingList(word)));
  }
  return normalized;
}

/** Go accepts flags with one dash as well; these are often written so for REP's Go gateway. */
function withTwoDashes(arg: string): string {
  const [, name] = /^-([a-z][a-z-]+)(=.*)?$/s.exec(arg) ?? [];
  return FLAG_NAMES.some((flag) => flag === name) ? `-${arg}` : arg;
}

const FLAG_NAMES: readonly string[] = [...OPTION_NAMES, "help", "version"];

function takesNext(arg: string): boolean {
  return OPTION_NAMES.some((name) => arg === `--${name}` && !isSwitch(name));
}

/** A list may be empty, so a missing value would otherwise be accepted. */
function rejectMissingList(arg: string): string {
  const name = OPTION_NAMES.find((name) => arg === `--${name}` && isList(name));
  if (name === undefined) return arg;
  throw new UsageError(`Cannot read --${name}: expected ${OPTIONS[name].expected}, got nothing`);
}

/** Writes `--name` and `--no-name` as `--name=true` and `--name=false`. */
function normalizeSwitch(arg: string): string {
  const [, no, name = "", value] = /^--(no-)?([a-z-]+)(=.*)?$/s.exec(arg) ?? [];
  const isKnown = OPTION_NAMES.some((option) => option === name && isSwitch(option));
  if (value === undefined) return isKnown ? `--${name}=${no === undefined}` : arg;
  if (no === undefined) return arg;
  if (isKnown) throw new UsageError(`Cannot use --no-${name} with a value: expected --${name} or --no-${name}`);
  return rejectFlag(arg); // `parseArgs` would take it for the option without `no-`
}

function rejectFlag(arg: string): never {
  const [flag = ""] = arg.split("="); // the value may be a secret
  throw new UsageError(`Cannot use ${flag}: there is no such option; did you mean --${closestFlag(flag, FLAG_NAMES)}?`);
}

/** Returns the name of the flag that was probably meant: for a single letter, one that begins with it. */
export function closestFlag(flag: string, names: readonly string[]): string {
  const word = flag.replace(/^-+/, "");
  const ending = names.find((name) => word.endsWith(`-${name}`)); // the documents of REP have --hot-reload-poll-interval
  if (ending !== undefined) return ending;
  const initial = names.filter((name) => word.length === 1 && name.startsWith(word.toLowerCase()));
  return closestString(word, initial.length > 0 ? initial : names);
}

/**
 * Reads the value of every option. Flags take precedence over the environment, and the environment over the manifest.
 *
 * @throws {UsageError} If a value is invalid. The message has a line for each.
 */
export function readOptions(sources: OptionSources): CommandOptions {
  const issues: string[] = [];
  const values = OPTION_NAMES.map((name) => {
    try {
      return [name, readOption(name, sources)];
    } catch (error) {
      issues.push((error as UsageError).message);
      return [name, undefined];
    }
  });
  const options = Object.fromEntries(values) as CommandOptions;
  if (issues.length === 0 && (options["tls-cert"] === undefined) !== (options["tls-key"] === undefined)) {
    issues.push("Cannot use TLS: expected --tls-cert and --tls-key together");
  }
  if (issues.length > 0) throw new UsageError(issues.join("\n"));
  return options;
}

function readOption(name: OptionName, { flags, environment, manifest }: OptionSources): unknown {
  const option: Option<unknown> = OPTIONS[name];
  const flag = flags.get(name);
  if (flag !== undefined) return parse(`--${name}`, flag, option);
  const variable = variableOf(name, environment);
  if (variable !== undefined) return parse(environmentVariable(name), variable, option);
  const setting = option.manifest === undefined ? undefined : manifest[option.manifest];
  return setting ?? option.default;
}

/** Returns whether an option is set, even if to its default. */
export function isSet(name: OptionName, { flags, environment, manifest }: OptionSources): boolean {
  const { manifest: setting }: Option<unknown> = OPTIONS[name];
  if (flags.has(name) || variableOf(name, environment) !== undefined) return true;
  return setting !== undefined && manifest[setting] !== undefined;
}

function parse(source: string, text: string, { parse, type, expected }: Option<unknown>): unknown {
  try {
    return parse(text);
  } catch (cause) {
    const reason = cause instanceof InvalidValue ? cause.message : expected;
    const valid = type === "list" && reason === expected ? `${expected}, separated by commas` : reason;
    const got = JSON.stringify(redactUrl(text).slice(0, 200));
    throw new UsageError(`Cannot read ${source}: expected ${valid}, got ${got}`, { cause });
  }
}

/**
 * Returns the value of an option's variable. In Compose files, an empty variable means "not set", and Kubernetes sets
 * REP_GATEWAY_PORT=tcp://… in every pod if there is a Service named rep-gateway.
 */
function variableOf(name: OptionName, environment: OptionSources["environment"]): string | undefined {
  const variable = environment[environmentVariable(name)] || undefined;
  return name === "port" && variable?.startsWith("tcp://") ? undefined : variable;
}

/** Returns the names of `REP_GATEWAY_…` variables that are not options and so probably misspelled. */
export function unknownVariables(environment: Readonly<Record<string, string>>): string[] {
  const known = new Set([...OPTION_NAMES.map(environmentVariable), MASTER_KEY_VARIABLE, `${MASTER_KEY_VARIABLE}_FILE`]);
  return Object.keys(environment)
    .filter((name) => name.startsWith("REP_GATEWAY_") && !known.has(name))
    .filter((name) => !/^REP_GATEWAY_(SERVICE|PORT)_/.test(name)); // service links, as above
}

/** The only setting without a flag, since any user of the machine can read command lines. */
export const MASTER_KEY_VARIABLE = "REP_GATEWAY_MASTER_KEY";
