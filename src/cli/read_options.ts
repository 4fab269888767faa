import { parseArgs } from "@std/cli/parse-args";
import { closestString } from "@std/text/closest-string";
import { redactUrl } from "../redact_url.ts";
import type { ManifestSettings } from "../variables/manifest.ts";
import {
  type CommandOptions,
  environmentVariable,
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
  const { _: rest, h, help, version, ...flags } = parseArgs(normalize(options), {
    string: [...OPTION_NAMES],
    collect: [...OPTION_NAMES],
    boolean: ["help", "h", "version"],
    unknown: (arg: string, key?: string) => key === undefined || rejectFlag(arg), // other words are in `rest`
  });
  if (rest.length > 0) {
    throw new UsageError(`Cannot use "${redactUrl(String(rest[0]))}": expected options only; see --help`);
  }
  const given = OPTION_NAMES.filter((name) => flags[name].length > 0);
  return { flags: new Map(given.map((name) => [name, combine(name, flags[name])])), help: help || h, version };
}

/** Returns the value of a flag that may have been repeated. */
function combine(name: OptionName, values: readonly string[]): string {
  if (isSwitch(name)) return values.at(-1) ?? ""; // as usual for a pair such as --strict and --no-strict
  if (isList(name)) return values.includes("") ? "" : values.join(","); // an empty value is invalid, not ignored
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
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] ?? "";
    const next = args[index + 1];
    if (arg === "--") return [...normalized, ...args.slice(index)];
    if (takesNext(arg) && next !== undefined && !next.startsWith("--")) {
      normalized.push(`${arg}=${next}`);
      index++;
    } else normalized.push(normalizeSwitch(arg));
  }
  return normalized;
}

function takesNext(arg: string): boolean {
  return OPTION_NAMES.some((name) => arg === `--${name}` && !isSwitch(name));
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
  const closest = closestString(flag.replace(/^-+/, ""), [...OPTION_NAMES, "help", "version"]);
  throw new UsageError(`Cannot use ${flag}: there is no such option; did you mean --${closest}?`);
}

/**
 * Reads the value of every option. Flags take precedence over the environment, and the environment over the manifest.
 *
 * @throws {UsageError} If a value is invalid.
 */
export function readOptions(sources: OptionSources): CommandOptions {
  const options = Object.fromEntries(OPTION_NAMES.map((name) => [name, readOption(name, sources)])) as CommandOptions;
  if ((options["tls-cert"] === undefined) !== (options["tls-key"] === undefined)) {
    throw new UsageError("Cannot use TLS: expected --tls-cert and --tls-key together");
  }
  return options;
}

function readOption(name: OptionName, { flags, environment, manifest }: OptionSources): unknown {
  const option: Option<unknown> = OPTIONS[name];
  const flag = flags.get(name);
  if (flag !== undefined) return parse(`--${name}`, flag, option);
  const variable = environment[environmentVariable(name)]; // in Compose files, an empty variable means "not set"
  if (variable && !isServiceLink(name, variable)) return parse(environmentVariable(name), variable, option);
  const setting = option.manifest === undefined ? undefined : manifest[option.manifest];
  return setting ?? option.default;
}

function parse(source: string, text: string, { parse, type, expected }: Option<unknown>): unknown {
  try {
    return parse(text);
  } catch (cause) {
    const valid = type === "list" ? `${expected}, separated by commas` : expected;
    const got = JSON.stringify(redactUrl(text).slice(0, 200));
    throw new UsageError(`Cannot read ${source}: expected ${valid}, got ${got}`, { cause });
  }
}

/** Kubernetes sets REP_GATEWAY_PORT=tcp://… in every pod if there is a Service named rep-gateway. */
function isServiceLink(name: OptionName, value: string): boolean {
  return name === "port" && value.startsWith("tcp://");
}

/** Returns the names of `REP_GATEWAY_…` variables that are not options and so probably misspelled. */
export function unknownVariables(environment: Readonly<Record<string, string>>): string[] {
  const known = new Set([...OPTION_NAMES.map(environmentVariable), MASTER_KEY_VARIABLE]);
  return Object.keys(environment)
    .filter((name) => name.startsWith("REP_GATEWAY_") && !known.has(name))
    .filter((name) => !/^REP_GATEWAY_(SERVICE|PORT)_/.test(name)); // service links, as above
}

/** The only setting without a flag, since any user of the machine can read command lines. */
export const MASTER_KEY_VARIABLE = "REP_GATEWAY_MASTER_KEY";
