import { filterKeys } from "@std/collections/filter-keys";
import { formatValue } from "../../core/config/variables/quote.ts";
import type { Environment } from "../../core/config/variables/tiers.ts";
import { messageOf } from "../../core/observe/log.ts";
import { redactUrl } from "../../core/values/urls.ts";
import {
  DOCUMENTATION,
  formatRows,
  HELP_ROW,
  optionRows,
  wrap,
} from "../options/help.ts";
import type { OptionTable } from "../options/option_kinds.ts";
import { environmentVariable, OTHER_OPTIONS } from "../options/option_table.ts";
import { parseFlags, readValues, UsageError } from "../options/read_options.ts";
import type { CommandIo } from "./command_io.ts";
import {
  COMMAND_OPTIONS,
  type CommandArguments,
  type CommandName,
  COMMANDS,
} from "./command_table.ts";
import { init } from "./init.ts";
import { inject } from "./inject.ts";
import { lint } from "./lint.ts";
import { typegen } from "./manifest_commands.ts";
import { escapeLines } from "../../core/values/visible_text.ts";
import { validate } from "./validate.ts";
import {
  apps,
  forget,
  history,
  list,
  set,
  undo,
  unset,
} from "./variable_commands.ts";

/** Runs a command. It may return an exit code other than 0. */
type Run = (line: CommandArguments, io: CommandIo) => Promise<number | void>;

const RUN: Readonly<Record<CommandName, Run>> = {
  init,
  validate,
  typegen,
  lint,
  inject,
  set,
  unset,
  undo,
  list,
  apps,
  forget,
  history,
};

/**
 * Runs a command.
 *
 * @param args The arguments after the name of the command.
 * @returns The exit code: 0 for success; 1 if the command was rejected, conflicted with another write or found an issue,
 * or the store is unavailable; 2 if the usage is invalid; 3 if no running gateway has taken a write.
 */
export async function runCommand(
  command: CommandName,
  args: readonly string[],
  io: CommandIo,
): Promise<number> {
  /** Messages contain names of files and directories, such as those of sites, which may be anybody's. */
  function printError(text: string): void {
    io.printError(escapeLines(text));
  }
  try {
    const line = parseArguments(command, args, io.environment);
    if (line !== undefined) {
      return await RUN[command](line, { ...io, printError }) ?? 0;
    }
    io.print(commandHelp(command, io.program));
    return 0;
  } catch (error) {
    if ((error as Error).name === "BrokenPipe") return 0; // for example after `| head -1`
    printError(messageOf(error));
    return error instanceof UsageError ? 2 : 1;
  }
}

/** The options that are also read from the environment here. `readSources()` reads `strict` from there. */
const FROM_ENVIRONMENT = [
  "kv",
  "app",
  "port",
  "manifest",
  "env-file",
  "static-dir",
  "immutable",
  "keep-builds",
  "by",
];

/**
 * Parses the arguments after the name of a command.
 *
 * @returns `undefined` for `--help`.
 * @throws {UsageError} If it is invalid.
 */
function parseArguments(
  command: CommandName,
  args: readonly string[],
  environment: Environment,
): CommandArguments | undefined {
  const table = { ...optionsOf(command), help: OTHER_OPTIONS.help };
  const { flags, words } = parseFlags(args, table);
  if (flags.has("help")) return undefined;
  const own: Record<string, string> = {}; // without other options, whose values may be invalid
  for (const name of FROM_ENVIRONMENT) {
    const variable = environmentVariable(name);
    if (hasOption(command, name)) own[variable] = environment[variable] ?? "";
  }
  const sources = { flags, environment: own, manifest: {} };
  const values = readValues(COMMAND_OPTIONS, sources);
  const line = { ...values, command, args: [...words, ...values.dir] };
  checkArgs(line);
  return line;
}

function hasOption(command: CommandName, option: string): boolean {
  return COMMANDS[command].options.some((name) => name === option);
}

function checkArgs(line: CommandArguments): void {
  const { command, args } = line;
  const expected = COMMANDS[command].args;
  if (expected === "" && args.length > 0) {
    const got = formatValue(redactUrl(args[0] ?? ""));
    throw new UsageError(
      `Cannot use ${got} with ${command}: expected options only; see --help`,
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

/** Returns the text of `--help` after a command. */
export function commandHelp(command: CommandName, program: string): string {
  const { args, help, notes, fails } = COMMANDS[command];
  const usage = [program, command, args, "[OPTION ...]"];
  const exitCodes = `Exit codes: 0 success; 1 if ${fails}; 2 invalid usage.`;
  return [
    `${help}.`,
    "",
    `Usage: ${usage.filter((word) => word !== "").join(" ")}`,
    "",
    ...formatRows([...optionRows(optionsOf(command)), HELP_ROW]),
    "",
    ...[...notes, exitCodes].flatMap((note) => wrap(note)),
    "",
    DOCUMENTATION,
  ].join("\n");
}

/** Returns the options of a command, in the order of `COMMAND_OPTIONS`. */
function optionsOf(command: CommandName): OptionTable {
  return filterKeys(
    COMMAND_OPTIONS,
    (name: string) => hasOption(command, name),
  );
}
