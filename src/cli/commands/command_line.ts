import { parseArgs } from "@std/cli/parse-args";
import type { Environment } from "../../config/classify.ts";
import { formatValue } from "../../config/format_value.ts";
import { MAX_HISTORY } from "../../config/stored_variables.ts";
import { environmentVariable } from "../options/option_table.ts";
import { closestFlag, singleValue, UsageError } from "../options/read_options.ts";
import {
  COMMAND_NAMES,
  commandIn,
  type CommandName,
  COMMANDS,
  STORE_COMMANDS,
  withoutDashes,
} from "./command_names.ts";

interface Flag {
  /** Placeholder of the value in `--help`; a switch has none. */
  readonly value?: string;
  readonly help: string;
  /** The commands that have this flag. */
  readonly commands: readonly CommandName[];
  /** Whether the flag may be repeated. */
  readonly isRepeatable?: boolean;
}

const DEFAULT_LIMIT = 20;

/** All flags except `--help`, which every command has. */
export const FLAGS = {
  "kv": {
    value: "PATH|URL",
    commands: STORE_COMMANDS,
    help: "Database of the gateway; by default Deno's own for this program",
  },
  "manifest": {
    value: "FILE",
    commands: ["set", "validate", "typegen", "inject"],
    help: "Manifest; .rep.yaml by default, except for set",
  },
  "env-file": {
    value: "PATH",
    commands: ["validate", "inject"],
    isRepeatable: true,
    help: "Env file; of several, the later takes precedence",
  },
  "strict": { commands: ["validate", "inject", "lint"], help: "Fail if PUBLIC values look like secrets" },
  "out": { value: "FILE", commands: ["typegen"], help: "Write to this file" },
  "config-js": { value: "FILE", commands: ["inject"], help: "Also write a script for pages to load" },
  "dir": { value: "DIR", commands: ["lint"], isRepeatable: true, help: "Same as the argument DIR (dist)" },
  "pattern": { value: "GLOB", commands: ["lint"], isRepeatable: true, help: "Check these files only" },
  "exclude": { value: "GLOB,…", commands: ["lint"], isRepeatable: true, help: "Skip these files" },
  "json": { commands: [...STORE_COMMANDS, "validate", "lint"], help: "Print JSON" },
  "if-id": {
    value: "ID",
    commands: ["set", "unset"],
    help: "Write only if the variable has this id; 0: does not exist",
  },
  "force": { commands: ["set"], help: "Set values that look like secrets" },
  "limit": { value: "N", commands: ["history"], help: `Number of writes, 1 to ${MAX_HISTORY} (${DEFAULT_LIMIT})` },
} as const satisfies Record<string, Flag>;

type FlagName = keyof typeof FLAGS;

const FLAG_NAMES = Object.keys(FLAGS) as FlagName[];

/** The name of a flag that has a value. */
type ValueFlag = { [N in FlagName]: (typeof FLAGS)[N] extends { value: string } ? N : never }[FlagName];

const VALUE_FLAGS = FLAG_NAMES.filter((name) => "value" in FLAGS[name]) as ValueFlag[];

/** Other names of flags, as REP's own command-line tool has them. */
const ALIASES = { manifest: "m", out: ["o", "output"], dir: "d" };

/** A parsed command line. */
export interface CommandArguments {
  readonly command: CommandName;
  /** The arguments after the command that are not flags. */
  readonly args: readonly string[];
  readonly help: boolean;
  readonly json: boolean;
  readonly force: boolean;
  readonly strict: boolean;
  readonly limit: number;
  readonly ifId: number | undefined;
  readonly kv: string | undefined;
  readonly manifest: string | undefined;
  /** In ascending order of precedence. */
  readonly envFiles: readonly string[];
  readonly out: string | undefined;
  readonly configJs: string | undefined;
  readonly pattern: readonly string[];
  readonly exclude: readonly string[];
}

/**
 * Parses the command line of a command.
 *
 * @param environment Variables; `REP_GATEWAY_KV`, `_MANIFEST` and `_ENV_FILE` are used if the flags are not set.
 * @throws {UsageError} If it is invalid.
 */
export function parseCommandArguments(args: readonly string[], environment: Environment): CommandArguments {
  const command = commandIn(args);
  if (command === undefined) {
    throw new UsageError(`Cannot run ${formatValue(args[0])}: expected ${COMMAND_NAMES.join(", ")}`);
  }
  const { _: [, ...rest], h, help, ...flags } = parseArgs(withoutDashes(args), {
    string: ["_", ...VALUE_FLAGS],
    collect: [...VALUE_FLAGS],
    boolean: ["json", "force", "strict", "help", "h"],
    alias: ALIASES,
    unknown: rejectUnknown,
  });
  const globs: readonly string[] = flags.exclude;
  rejectOtherFlags(command, FLAG_NAMES.filter((name) => isGiven(flags[name])));
  const line = {
    command,
    args: [...rest.map(String), ...flags.dir],
    help: help || h,
    json: flags.json,
    force: flags.force,
    strict: flags.strict,
    limit: integer("limit", flags.limit, [1, MAX_HISTORY]) ?? DEFAULT_LIMIT,
    ifId: integer("if-id", flags["if-id"], [0, Number.MAX_SAFE_INTEGER]),
    kv: text("kv", flags.kv, environment),
    manifest: text("manifest", flags.manifest, environment),
    envFiles: texts("env-file", flags["env-file"], environment),
    out: text("out", flags.out ?? [], {}),
    configJs: text("config-js", flags["config-js"], {}),
    pattern: flags.pattern,
    exclude: globs.flatMap((list) => list.split(",")).map((glob) => glob.trim()),
  };
  if (!line.help) checkArgs(line);
  return line;
}

function rejectUnknown(arg: string, key?: string): never | true {
  if (key === undefined) return true; // not a flag
  const closest = closestFlag(key, [...FLAG_NAMES, "help"]);
  throw new UsageError(`Cannot use ${arg.split("=")[0]}: there is no such option; did you mean --${closest}?`);
}

function isGiven(flag: boolean | readonly string[] = false): boolean {
  return typeof flag === "boolean" ? flag : flag.length > 0;
}

function rejectOtherFlags(command: CommandName, given: readonly FlagName[]): void {
  for (const name of given) {
    const { commands }: Flag = FLAGS[name];
    if (!commands.includes(command)) {
      throw new UsageError(
        `Cannot ${command} with --${name}: it is an option of ${commands.join(", ").replace(/, ([^,]*)$/, " and $1")}`,
      );
    }
  }
}

function checkArgs({ command, args, ifId, configJs }: CommandArguments): void {
  const { args: expected } = COMMANDS[command];
  const isOptional = expected.startsWith("[") || configJs !== undefined;
  if (expected === "" && args.length > 0) {
    throw new UsageError(`Cannot ${command} ${formatValue(args[0])}: expected options only; see --help`);
  }
  if (expected !== "" && args.length === 0 && !isOptional) {
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

function texts(name: FlagName, values: readonly string[], environment: Environment): readonly string[] {
  if (values.includes("")) throw new UsageError(`Cannot read --${name}: expected a non-empty value, got ""`);
  const variable = environment[environmentVariable(name)];
  return values.length > 0 || !variable ? values : [variable];
}
