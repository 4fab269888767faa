import { parseArgs } from "@std/cli/parse-args";
import { closestString } from "@std/text/closest-string";
import type { ManifestSettings } from "../variables/manifest.ts";
import {
  environmentVariable,
  isSwitch,
  type Option,
  OPTION_NAMES,
  type OptionName,
  OPTIONS,
  type Settings,
} from "./option_table.ts";

/** An option that is not there, or has a value that it cannot have: the command ends with code 2. */
export class UsageError extends Error {
  override name = "UsageError";
}

/** What was given on the command line. */
export interface CommandLine {
  readonly flags: ReadonlyMap<OptionName, string>;
  readonly help: boolean;
  readonly version: boolean;
}

/** Where settings come from; earlier ones win. */
export interface SettingSources {
  readonly flags: CommandLine["flags"];
  readonly environment: Readonly<Record<string, string>>;
  readonly manifest: ManifestSettings;
}

/**
 * Reads a command line.
 *
 * @throws {UsageError} If there is anything on it that is not an option.
 */
export function readCommandLine(args: readonly string[]): CommandLine {
  const given = args[0] === "--" ? args.slice(1) : args; // `deno serve` and `deno task` pass it on
  const { _: rest, h, help, version, ...flags } = parseArgs(spelledOut(given), {
    string: [...OPTION_NAMES],
    boolean: ["help", "h", "version"],
    unknown: (arg: string, key?: string) => key === undefined || refuseFlag(arg), // words are refused with the rest
  });
  if (rest.length > 0) throw new UsageError(`Cannot use "${rest[0]}": expected options only; see --help`);
  const known = OPTION_NAMES.filter((name) => flags[name] !== undefined);
  return { flags: new Map(known.map((name) => [name, String(flags[name])])), help: help || h, version };
}

/** Writes every option as `--name=value`: what `parseArgs` would look for in the next argument must not begin with a dash. */
function spelledOut(args: readonly string[]): string[] {
  const all: string[] = [];
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] ?? "";
    const next = args[index + 1];
    if (arg === "--") return [...all, ...args.slice(index)];
    if (takesNext(arg) && next !== undefined && !next.startsWith("--")) {
      all.push(`${arg}=${next}`);
      index++;
    } else all.push(switchSpelledOut(arg));
  }
  return all;
}

function takesNext(arg: string): boolean {
  return OPTION_NAMES.some((name) => arg === `--${name}` && !isSwitch(name));
}

/** A switch is on by its name alone, and off by `--no-` and its name. */
function switchSpelledOut(arg: string): string {
  const [, no, name = "", value] = /^--(no-)?([a-z-]+)(=.*)?$/s.exec(arg) ?? [];
  const isKnown = OPTION_NAMES.some((option) => option === name && isSwitch(option));
  if (value === undefined) return isKnown ? `--${name}=${no === undefined}` : arg;
  if (no === undefined) return arg;
  if (isKnown) throw new UsageError(`Cannot use --no-${name} with a value: expected --${name} or --no-${name}`);
  return refuseFlag(arg); // `parseArgs` would take it for the option without `no-`
}

function refuseFlag(arg: string): never {
  const [flag = ""] = arg.split("="); // what follows may be a secret
  const closest = closestString(flag.replace(/^-+/, ""), [...OPTION_NAMES, "help", "version"]);
  throw new UsageError(`Cannot use ${flag}: there is no such option; did you mean --${closest}?`);
}

/**
 * Puts the settings together: flags win over the environment, the environment over the manifest.
 *
 * @throws {UsageError} If a value is not what its option takes.
 */
export function readSettings(sources: SettingSources): Settings {
  const settings = Object.fromEntries(OPTION_NAMES.map((name) => [name, readSetting(name, sources)])) as Settings;
  if ((settings["tls-cert"] === undefined) !== (settings["tls-key"] === undefined)) {
    throw new UsageError("Cannot use TLS: expected --tls-cert and --tls-key together");
  }
  return settings;
}

function readSetting(name: OptionName, { flags, environment, manifest }: SettingSources): unknown {
  const option: Option<unknown> = OPTIONS[name];
  const flag = flags.get(name);
  if (flag !== undefined) return read(`--${name}`, flag, option);
  const variable = environment[environmentVariable(name)]; // empty is how compose files say "not set"
  if (variable && !isServiceLink(name, variable)) return read(environmentVariable(name), variable, option);
  const setting = option.manifest === undefined ? undefined : manifest[option.manifest];
  return setting ?? option.default;
}

function read(where: string, text: string, { read, yaml, expected }: Option<unknown>): unknown {
  try {
    return read(text);
  } catch (cause) {
    const right = yaml === "list" ? `${expected}, with commas between them` : expected;
    throw new UsageError(`Cannot read ${where}: expected ${right}, got ${JSON.stringify(text.slice(0, 200))}`, {
      cause,
    });
  }
}

/** Kubernetes sets REP_GATEWAY_PORT=tcp://… in every pod beside a Service that is called rep-gateway. */
function isServiceLink(name: OptionName, value: string): boolean {
  return name === "port" && value.startsWith("tcp://");
}

/** The names of `REP_GATEWAY_…` variables that are no option, and so most likely misspelt. */
export function unknownVariables(environment: Readonly<Record<string, string>>): string[] {
  const known = new Set([...OPTION_NAMES.map(environmentVariable), MASTER_KEY_VARIABLE]);
  return Object.keys(environment)
    .filter((name) => name.startsWith("REP_GATEWAY_") && !known.has(name))
    .filter((name) => !/^REP_GATEWAY_(SERVICE|PORT)_/.test(name)); // service links again
}

/** The one setting that has no flag: command lines can be read by everybody on the machine. */
export const MASTER_KEY_VARIABLE = "REP_GATEWAY_MASTER_KEY";
