import type { Environment } from "../../config/variables/tiers.ts";
import { formatValue } from "../../config/variables/quote.ts";
import { MAX_HISTORY } from "../../config/stored/stored_variables.ts";
import {
  app,
  environmentVariable,
  integer,
  type Option,
  type OptionTable,
  type OptionValues,
  OTHER_OPTIONS,
  paths,
  port,
  text,
  toggle,
} from "../options/option_table.ts";
import { parseFlags, readValues, UsageError } from "../options/read_options.ts";
import { COMMAND_NAMES, type CommandName, COMMANDS } from "./command_names.ts";

/** All options of commands except `--help`, which every command has. */
export const COMMAND_OPTIONS = {
  "kv": text(
    "PATH|URL",
    "Database of the gateway; by default Deno's own for this program",
  ),
  "app": app("Name of the app, if the gateway has one"),
  "port": port("Port of the gateway, if it has neither --kv nor --app"),
  "manifest": text(
    "FILE",
    "Manifest; .rep.yaml by default, except for set",
  ),
  "env-file": paths("PATH", "Env file; of several, the later takes precedence"),
  "strict": toggle("Fail if PUBLIC values look like secrets"),
  "out": text("FILE", "Write to this file"),
  "config-js": text("FILE", "Also write a script for pages to load"),
  "dir": paths("DIR", "Same as the argument DIR (dist)"),
  "pattern": paths("GLOB", "Check these files only"),
  "exclude": paths("GLOB,…", "Skip these files"),
  "json": toggle("Print JSON"),
  "if-id": integer(
    { min: 0, max: Number.MAX_SAFE_INTEGER },
    "Write only if the variable has this id; 0: does not exist",
    "ID",
  ),
  "force": toggle("Set values that look like secrets"),
  "limit": integer(
    { min: 1, max: MAX_HISTORY, default: 20 },
    `Number of writes, 1 to ${MAX_HISTORY}`,
  ),
};

type CommandOption = keyof typeof COMMAND_OPTIONS;

const STORE_OPTIONS = ["kv", "app", "port", "json"] as const;

/** The options of each command. */
const OPTIONS_OF: Readonly<Record<CommandName, readonly CommandOption[]>> = {
  validate: ["manifest", "env-file", "strict", "json"],
  typegen: ["manifest", "out"],
  lint: ["strict", "dir", "pattern", "exclude", "json"],
  inject: ["manifest", "env-file", "strict", "config-js"],
  set: [...STORE_OPTIONS, "manifest", "if-id", "force"],
  unset: [...STORE_OPTIONS, "if-id"],
  list: STORE_OPTIONS,
  history: [...STORE_OPTIONS, "limit"],
  watch: STORE_OPTIONS,
};

/** Returns the options of a command, in the order of its `--help`. */
export function optionsOf(command: CommandName): OptionTable {
  const options = Object.entries<Option<unknown>>(COMMAND_OPTIONS);
  const own = options.filter(([name]) => hasOption(command, name));
  return Object.fromEntries(own);
}

function hasOption(command: CommandName, option: string): boolean {
  return OPTIONS_OF[command].some((name) => name === option);
}

/** Other names of flags, as REP's own command-line tool has them. */
const ALIASES = { m: "manifest", o: "out", output: "out", d: "dir", h: "help" };

/** The options that are also read from the environment. For `strict`, a command also looks into the manifest. */
const FROM_ENVIRONMENT = ["kv", "app", "port", "manifest", "env-file"];

/** A parsed command line. */
export interface CommandArguments extends OptionValues<typeof COMMAND_OPTIONS> {
  readonly command: CommandName;
  /** The arguments after the command that are not flags. */
  readonly args: readonly string[];
}

/**
 * Parses what follows a command.
 *
 * @param environment Variables; `REP_GATEWAY_KV`, `_APP`, `_PORT`, `_MANIFEST` and `_ENV_FILE` are used if the flags are
 * not set.
 * @returns `undefined` for `--help`.
 * @throws {UsageError} If it is invalid.
 */
export function parseCommandArguments(
  command: CommandName,
  args: readonly string[],
  environment: Environment,
): CommandArguments | undefined {
  const table = { ...COMMAND_OPTIONS, help: OTHER_OPTIONS.help };
  const { flags, words } = parseFlags(args, table, ALIASES);
  rejectOtherOptions(command, flags);
  if (flags.has("help")) return undefined;
  const values = readValues(COMMAND_OPTIONS, {
    flags,
    environment: environmentOf(command, environment),
    manifest: {},
  });
  const line = { ...values, command, args: [...words, ...values.dir] };
  checkArgs(line);
  return line;
}

/** Returns the variables of the options that a command has: those of others may be invalid. */
function environmentOf(
  command: CommandName,
  environment: Environment,
): Record<string, string> {
  const own: Record<string, string> = {};
  for (const name of FROM_ENVIRONMENT) {
    const variable = environmentVariable(name);
    if (hasOption(command, name)) own[variable] = environment[variable] ?? "";
  }
  return own;
}

function rejectOtherOptions(
  command: CommandName,
  flags: ReadonlyMap<string, string>,
): void {
  for (const flag of flags.keys()) {
    if (flag === "help" || hasOption(command, flag)) continue;
    const commands = COMMAND_NAMES.filter((name) => hasOption(name, flag));
    const names = commands.join(", ").replace(/, ([^,]*)$/, " and $1");
    throw new UsageError(
      `Cannot ${command} with --${flag}: it is an option of ${names}`,
    );
  }
}

function checkArgs(line: CommandArguments): void {
  const { command, args } = line;
  const expected = COMMANDS[command].args;
  if (expected === "" && args.length > 0) {
    const got = formatValue(args[0]);
    throw new UsageError(
      `Cannot ${command} ${got}: expected options only; see --help`,
    );
  }
  const needsArgs = expected !== "" && !expected.startsWith("[");
  if (needsArgs && args.length === 0 && line["config-js"] === undefined) {
    throw new UsageError(`Cannot ${command}: expected ${expected}; see --help`);
  }
  if (line["if-id"] !== undefined && args.length > 1) {
    throw new UsageError(
      `Cannot ${command} with --if-id: expected one variable, got ${args.length}`,
    );
  }
}
