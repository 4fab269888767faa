import { messageOf } from "../../observe/log.ts";
import { nameFlags } from "../options/name_flags.ts";
import { UsageError } from "../options/read_options.ts";
import type { CommandIo } from "./command_io.ts";
import { type CommandArguments, parseCommandArguments } from "./command_line.ts";
import { commandHelp } from "./help.ts";
import { inject } from "./inject.ts";
import { lint } from "./lint.ts";
import { typegen } from "./typegen.ts";
import { validate } from "./validate.ts";
import { VARIABLE_COMMANDS } from "./variable_commands.ts";

/** The commands that succeed or throw. */
const ACTIONS = { ...VARIABLE_COMMANDS, typegen, inject };
/** The commands that return an exit code. */
const CHECKS = { validate, lint };

/**
 * Runs a command.
 *
 * @param args The command line, beginning with the name of the command.
 * @returns The exit code: 0; 1 if it was rejected, in conflict, found an issue, or the store is unavailable; 2 if the
 * usage is invalid.
 */
export async function runCommand(args: readonly string[], io: CommandIo): Promise<number> {
  try {
    const line = parseCommandArguments(args, io.environment);
    if (!line.help) return await run(line, io);
    io.print(commandHelp(line.command));
    return 0;
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe) return 0; // for example after `| head -1`
    io.printError(nameFlags(messageOf(error)));
    return error instanceof UsageError ? 2 : 1;
  }
}

async function run(line: CommandArguments, io: CommandIo): Promise<number> {
  const { command } = line;
  if (command === "validate" || command === "lint") return await CHECKS[command](line, io);
  await ACTIONS[command](line, io);
  return 0;
}
