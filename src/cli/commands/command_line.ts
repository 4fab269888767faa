import { parseArgs } from "@std/cli/parse-args";
import { closestString } from "@std/text/closest-string";
import { environmentVariable } from "../option_table.ts";
import { UsageError } from "../read_options.ts";
import type { Environment } from "../../variables/classify.ts";
import { formatValue } from "../../variables/format_value.ts";
import { MAX_HISTORY } from "../../variables/stored.ts";

/** The commands, each with what follows its name, and what its help says. */
export const COMMANDS = {
  set: { words: "KEY=VALUE ...", help: "Set PUBLIC variables" },
  unset: { words: "KEY ...", help: "Take variables out of the store" },
  list: { words: "", help: "Print the variables that the store holds" },
  history: { words: "", help: "Print the newest writes, the newest first" },
  watch: { words: "", help: "Print each write from now on, until SIGINT" },
} as const;

/** The name of a command. */
export type CommandName = keyof typeof COMMANDS;

/** The names of all commands, in the order of the help. */
export const COMMAND_NAMES = Object.keys(COMMANDS) as CommandName[];

interface Flag {
  /** How a value looks, for the help; a switch has none. */
  readonly value?: string;
  readonly help: string;
  /** The commands that take it. */
  readonly of: readonly CommandName[];
}

const DEFAULT_LIMIT = 20;

/** All flags but `--help`, which is everybody's. */
export const FLAGS = {
  "kv": {
    value: "PATH|URL",
    of: COMMAND_NAMES,
    help: "Deno KV database of the gateway; by default the one Deno keeps for this program",
  },
  "json": { of: COMMAND_NAMES, help: "Print JSON; watch prints one object a line" },
  "if-id": {
    value: "ID",
    of: ["set", "unset"],
    help: "Write only if the one variable has this id, or, with 0, is not there",
  },
  "force": { of: ["set"], help: "Set values although they look like secrets" },
  "manifest": { value: "FILE", of: ["set"], help: "Manifest (.rep.yaml) that the values must fit" },
  "limit": { value: "N", of: ["history"], help: `How many writes, 1 to ${MAX_HISTORY} (${DEFAULT_LIMIT})` },
} as const satisfies Record<string, Flag>;

type FlagName = keyof typeof FLAGS;

const FLAG_NAMES = Object.keys(FLAGS) as FlagName[];

/** What was given on the command line of one of the commands. */
export interface VariableCommandLine {
  readonly command: CommandName;
  /** What follows the command's name and is no flag. */
  readonly words: readonly string[];
  readonly help: boolean;
  readonly json: boolean;
  readonly force: boolean;
  readonly limit: number;
  readonly ifId: number | undefined;
  readonly kv: string | undefined;
  readonly manifest: string | undefined;
}

/** Whether a command line is one of the commands', and not the gateway's own. */
export function isVariableCommand(args: readonly string[]): boolean {
  return commandOf(args) !== undefined;
}

/**
 * Reads the command line of one of the commands.
 *
 * @param environment Where `REP_GATEWAY_KV` and `REP_GATEWAY_MANIFEST` count like the flags.
 * @throws {UsageError} If it is not as the help says.
 */
export function readVariableCommandLine(args: readonly string[], environment: Environment): VariableCommandLine {
  const command = commandOf(args);
  if (command === undefined) {
    throw new UsageError(`Cannot run ${formatValue(args[0])}: expected ${COMMAND_NAMES.join(", ")}`);
  }
  const { _: [, ...words], h, help, json, force, ...values } = parseArgs(withoutDashes(args), {
    string: ["_", "kv", "if-id", "manifest", "limit"],
    boolean: ["json", "force", "help", "h"],
    unknown: refuseUnknown,
  });
  const given = FLAG_NAMES.filter((name) => ({ ...values, json: json || undefined, force: force || undefined })[name]);
  refuseFlagsOfOthers(command, given);
  const line = {
    command,
    words: words.map(String),
    help: help || h,
    json,
    force,
    limit: integer("limit", values.limit, [1, MAX_HISTORY]) ?? DEFAULT_LIMIT,
    ifId: integer("if-id", values["if-id"], [0, Number.MAX_SAFE_INTEGER]),
    kv: text("kv", values.kv, environment),
    manifest: text("manifest", values.manifest, environment),
  };
  if (!line.help) checkWords(line);
  return line;
}

/** `deno serve` and `deno task` pass a `--` on. */
function withoutDashes(args: readonly string[]): string[] {
  return args[0] === "--" ? args.slice(1) : [...args];
}

function commandOf(args: readonly string[]): CommandName | undefined {
  const [first] = withoutDashes(args);
  return COMMAND_NAMES.find((name) => name === first);
}

function refuseUnknown(arg: string, key?: string): never | true {
  if (key === undefined) return true; // a word
  const closest = closestString(key, [...FLAG_NAMES, "help"]);
  throw new UsageError(`Cannot use ${arg.split("=")[0]}: there is no such option; did you mean --${closest}?`);
}

function refuseFlagsOfOthers(command: CommandName, given: readonly FlagName[]): void {
  for (const name of given) {
    const { of }: Flag = FLAGS[name];
    if (!of.includes(command)) {
      throw new UsageError(`Cannot ${command} with --${name}: it is an option of ${of.join(" and ")}`);
    }
  }
}

function checkWords({ command, words, ifId }: Pick<VariableCommandLine, "command" | "words" | "ifId">): void {
  const { words: expected } = COMMANDS[command];
  if (expected === "" && words.length > 0) {
    throw new UsageError(`Cannot ${command} ${formatValue(words[0])}: expected options only; see --help`);
  }
  if (expected !== "" && words.length === 0) {
    throw new UsageError(`Cannot ${command} nothing: expected ${command} ${expected}; see --help`);
  }
  if (ifId !== undefined && words.length > 1) {
    throw new UsageError(`Cannot ${command} with --if-id: expected one variable, got ${words.length}`);
  }
}

function integer(name: FlagName, value: string | undefined, [least, most]: [number, number]): number | undefined {
  if (value === undefined) return undefined;
  const number = /^\d{1,16}$/.test(value) ? Number(value) : NaN;
  if (number >= least && number <= most) return number;
  throw new UsageError(
    `Cannot read --${name}: expected an integer from ${least} to ${most}, got ${formatValue(value)}`,
  );
}

function text(name: FlagName, value: string | undefined, environment: Environment): string | undefined {
  if (value === "") throw new UsageError(`Cannot read --${name}: expected some text, got ""`);
  return value ?? (environment[environmentVariable(name)] || undefined); // empty is how compose files say "not set"
}
