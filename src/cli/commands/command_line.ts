import type { Environment } from "../../config/variables/tiers.ts";
import { formatValue } from "../../config/variables/quote.ts";
import { MAX_HISTORY } from "../../config/stored/stored_variables.ts";
import {
  app,
  environmentVariable,
  integer,
  type Option,
  type OptionValues,
  paths,
  port,
  text,
  toggle,
} from "../options/option_table.ts";
import { parseFlags, readValues, UsageError } from "../options/read_options.ts";
import { type CommandName, COMMANDS, STORE_COMMANDS } from "./command_names.ts";

/** An option of commands. */
interface CommandOption extends Option<unknown> {
  /** The commands that have it. */
  readonly commands: readonly CommandName[];
}

/** All options of commands except `--help`, which every command has. */
export const COMMAND_OPTIONS = {
  "kv": {
    ...text("PATH|URL"),
    commands: STORE_COMMANDS,
    help: "Database of the gateway; by default Deno's own for this program",
  },
  "app": {
    ...app(),
    commands: STORE_COMMANDS,
    help: "Name of the app, if the gateway has one",
  },
  "port": {
    ...port(),
    commands: STORE_COMMANDS,
    help: "Port of the gateway, if it has neither --kv nor --app",
  },
  "manifest": {
    ...text("FILE"),
    commands: ["set", "validate", "typegen", "inject"],
    help: "Manifest; .rep.yaml by default, except for set",
  },
  "env-file": {
    ...paths("PATH"),
    commands: ["validate", "inject"],
    help: "Env file; of several, the later takes precedence",
  },
  "strict": {
    ...toggle(),
    commands: ["validate", "inject", "lint"],
    help: "Fail if PUBLIC values look like secrets",
  },
  "out": { ...text("FILE"), commands: ["typegen"], help: "Write to this file" },
  "config-js": {
    ...text("FILE"),
    commands: ["inject"],
    help: "Also write a script for pages to load",
  },
  "dir": {
    ...paths("DIR"),
    commands: ["lint"],
    help: "Same as the argument DIR (dist)",
  },
  "pattern": {
    ...paths("GLOB"),
    commands: ["lint"],
    help: "Check these files only",
  },
  "exclude": {
    ...paths("GLOB,…"),
    commands: ["lint"],
    help: "Skip these files",
  },
  "json": {
    ...toggle(),
    commands: [...STORE_COMMANDS, "validate", "lint"],
    help: "Print JSON",
  },
  "if-id": {
    ...integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
    value: "ID",
    commands: ["set", "unset"],
    help: "Write only if the variable has this id; 0: does not exist",
  },
  "force": {
    ...toggle(),
    commands: ["set"],
    help: "Set values that look like secrets",
  },
  "limit": {
    ...integer({ min: 1, max: MAX_HISTORY, default: 20 }),
    commands: ["history"],
    help: `Number of writes, 1 to ${MAX_HISTORY}`,
  },
} as const satisfies Readonly<Record<string, CommandOption>>;

/** Other names of flags, as REP's own command-line tool has them. */
const ALIASES = { m: "manifest", o: "out", output: "out", d: "dir", h: "help" };

/** The options that are also read from the environment. For `strict`, a command also looks into the manifest. */
const FROM_ENVIRONMENT = [
  "kv",
  "app",
  "port",
  "manifest",
  "env-file",
] as const satisfies (keyof typeof COMMAND_OPTIONS)[];

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
  const { flags, words } = parseFlags(args, {
    ...COMMAND_OPTIONS,
    help: toggle(),
  }, ALIASES);
  rejectOtherOptions(command, flags);
  if (flags.has("help")) return undefined;
  const shared = readEnvironmentOf(command, environment);
  const values = readValues(COMMAND_OPTIONS, {
    flags,
    environment: shared,
    manifest: {},
  });
  const line = { ...values, command, args: [...words, ...values.dir] };
  checkArgs(line);
  return line;
}

/** Returns the variables of the options that a command has: those of others may be invalid. */
function readEnvironmentOf(
  command: CommandName,
  environment: Environment,
): Record<string, string> {
  const own = FROM_ENVIRONMENT.filter((name) => {
    const commands: readonly CommandName[] = COMMAND_OPTIONS[name].commands;
    return commands.includes(command);
  });
  const names = own.map(environmentVariable);
  return Object.fromEntries(
    names.map((name) => [name, environment[name] ?? ""]),
  );
}

function rejectOtherOptions(
  command: CommandName,
  flags: ReadonlyMap<string, string>,
): void {
  for (
    const [name, { commands }] of Object.entries<CommandOption>(COMMAND_OPTIONS)
  ) {
    if (!flags.has(name) || commands.includes(command)) continue;
    const names = commands.join(", ").replace(/, ([^,]*)$/, " and $1");
    throw new UsageError(
      `Cannot ${command} with --${name}: it is an option of ${names}`,
    );
  }
}

function checkArgs(
  { command, args, "if-id": ifId, "config-js": configJs }: CommandArguments,
): void {
  const { args: expected } = COMMANDS[command];
  const isOptional = expected.startsWith("[") || configJs !== undefined;
  if (expected === "" && args.length > 0) {
    throw new UsageError(
      `Cannot ${command} ${
        formatValue(args[0])
      }: expected options only; see --help`,
    );
  }
  if (expected !== "" && args.length === 0 && !isOptional) {
    throw new UsageError(`Cannot ${command}: expected ${expected}; see --help`);
  }
  if (ifId !== undefined && args.length > 1) {
    throw new UsageError(
      `Cannot ${command} with --if-id: expected one variable, got ${args.length}`,
    );
  }
}
