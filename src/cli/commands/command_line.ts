import { parseArgs } from "@std/cli/parse-args";
import { closestString } from "@std/text/closest-string";
import type { Environment } from "../../variables/classify.ts";
import { formatValue } from "../../variables/format_value.ts";
import { MAX_HISTORY } from "../../variables/stored.ts";
import { environmentVariable } from "../option_table.ts";
import { singleValue, UsageError } from "../read_options.ts";

/** The commands, with their arguments and their descriptions for `--help`. */
export const COMMANDS = {
  set: { args: "KEY=VALUE ...", help: "Set PUBLIC variables" },
  unset: { args: "KEY ...", help: "Delete variables from the store" },
  list: { args: "", help: "Print the variables in the store" },
  history: { args: "", help: "Print the latest writes, newest first" },
  watch: { args: "", help: "Print every new write, until SIGINT" },
} as const;

/** The name of a command. */
export type CommandName = keyof typeof COMMANDS;

/** The names of all commands, in the order of `--help`. */
export const COMMAND_NAMES = Object.keys(COMMANDS) as CommandName[];

interface Flag {
  /** Placeholder of the value in `--help`; a switch has none. */
  readonly value?: string;
  readonly help: string;
  /** The commands that have this flag. */
  readonly commands: readonly CommandName[];
}

const DEFAULT_LIMIT = 20;

/** All flags except `--help`, which every command has. */
export const FLAGS = {
  "kv": {
    value: "PATH|URL",
    commands: COMMAND_NAMES,
    help: "Database of the gateway; by default Deno's own for this program",
  },
  "json": { commands: COMMAND_NAMES, help: "Print JSON; watch prints one object per line" },
  "if-id": {
    value: "ID",
    commands: ["set", "unset"],
    help: "Write only if the variable has this id, or, with 0, does not exist",
  },
  "force": { commands: ["set"], help: "Set values that look like secrets" },
  "manifest": { value: "FILE", commands: ["set"], help: "Manifest (.rep.yaml) to validate the values" },
  "limit": { value: "N", commands: ["history"], help: `Number of writes, 1 to ${MAX_HISTORY} (${DEFAULT_LIMIT})` },
} as const satisfies Record<string, Flag>;

type FlagName = keyof typeof FLAGS;

const FLAG_NAMES = Object.keys(FLAGS) as FlagName[];

/** The flags that have a value. */
const VALUE_FLAGS = ["kv", "if-id", "manifest", "limit"] as const satisfies FlagName[];

/** A parsed command line. */
export interface VariableCommandLine {
  readonly command: CommandName;
  /** The arguments after the command that are not flags. */
  readonly args: readonly string[];
  readonly help: boolean;
  readonly json: boolean;
  readonly force: boolean;
  readonly limit: number;
  readonly ifId: number | undefined;
  readonly kv: string | undefined;
  readonly manifest: string | undefined;
}

/** Whether a command line begins with one of the commands, so that it is not for the gateway itself. */
export function isVariableCommand(args: readonly string[]): boolean {
  return commandIn(args) !== undefined;
}

/**
 * Parses the command line of a command.
 *
 * @param environment Variables; `REP_GATEWAY_KV` and `REP_GATEWAY_MANIFEST` are used if the flags are not set.
 * @throws {UsageError} If it is invalid.
 */
export function parseVariableCommandLine(args: readonly string[], environment: Environment): VariableCommandLine {
  const command = commandIn(args);
  if (command === undefined) {
    throw new UsageError(`Cannot run ${formatValue(args[0])}: expected ${COMMAND_NAMES.join(", ")}`);
  }
  const { _: [, ...rest], h, help, ...flags } = parseArgs(withoutDashes(args), {
    string: ["_", ...VALUE_FLAGS],
    collect: [...VALUE_FLAGS],
    boolean: ["json", "force", "help", "h"],
    unknown: rejectUnknown,
  });
  rejectOtherFlags(command, FLAG_NAMES.filter((name) => isGiven(flags[name])));
  const line = {
    command,
    args: rest.map(String),
    help: help || h,
    json: flags.json,
    force: flags.force,
    limit: integer("limit", flags.limit, [1, MAX_HISTORY]) ?? DEFAULT_LIMIT,
    ifId: integer("if-id", flags["if-id"], [0, Number.MAX_SAFE_INTEGER]),
    kv: text("kv", flags.kv, environment),
    manifest: text("manifest", flags.manifest, environment),
  };
  if (!line.help) checkArgs(line);
  return line;
}

/** `deno serve` and `deno task` pass a leading `--` on. */
function withoutDashes(args: readonly string[]): string[] {
  return args[0] === "--" ? args.slice(1) : [...args];
}

function commandIn(args: readonly string[]): CommandName | undefined {
  const [first] = withoutDashes(args);
  return COMMAND_NAMES.find((name) => name === first);
}

function rejectUnknown(arg: string, key?: string): never | true {
  if (key === undefined) return true; // not a flag
  const closest = closestString(key, [...FLAG_NAMES, "help"]);
  throw new UsageError(`Cannot use ${arg.split("=")[0]}: there is no such option; did you mean --${closest}?`);
}

function isGiven(flag: boolean | readonly string[]): boolean {
  return typeof flag === "boolean" ? flag : flag.length > 0;
}

function rejectOtherFlags(command: CommandName, given: readonly FlagName[]): void {
  for (const name of given) {
    const { commands }: Flag = FLAGS[name];
    if (!commands.includes(command)) {
      throw new UsageError(`Cannot ${command} with --${name}: it is an option of ${commands.join(" and ")}`);
    }
  }
}

function checkArgs({ command, args, ifId }: Pick<VariableCommandLine, "command" | "args" | "ifId">): void {
  const { args: expected } = COMMANDS[command];
  if (expected === "" && args.length > 0) {
    throw new UsageError(`Cannot ${command} ${formatValue(args[0])}: expected options only; see --help`);
  }
  if (expected !== "" && args.length === 0) {
    throw new UsageError(`Cannot ${command}: expected ${expected}; see --help`);
  }
  if (ifId !== undefined && args.length > 1) {
    throw new UsageError(`Cannot ${command} with --if-id: expected one variable, got ${args.length}`);
  }
}

function integer(name: FlagName, values: readonly string[], [min, max]: [number, number]): number | undefined {
  const value = singleValue(name, values);
  if (value === undefined) return undefined;
  const number = /^\d{1,16}$/.test(value) ? Number(value) : NaN;
  if (number >= min && number <= max) return number;
  throw new UsageError(`Cannot read --${name}: expected an integer from ${min} to ${max}, got ${formatValue(value)}`);
}

function text(name: FlagName, values: readonly string[], environment: Environment): string | undefined {
  const value = singleValue(name, values);
  if (value === "") throw new UsageError(`Cannot read --${name}: expected a non-empty value, got ""`);
  return value ?? (environment[environmentVariable(name)] || undefined); // in Compose files, empty means "not set"
}
