import { messageOf } from "../../observe/log.ts";
import { UsageError } from "../options/read_options.ts";
import type { CommandIo, Run } from "./command_io.ts";
import { parseCommandArguments } from "./command_line.ts";
import type { CommandName } from "./command_names.ts";
import { commandHelp } from "./command_help.ts";
import { inject } from "./inject.ts";
import { lint } from "./lint.ts";
import { typegen } from "./typegen.ts";
import { validate } from "./validate.ts";
import { VARIABLE_COMMANDS } from "./variable_commands.ts";

/** What runs each command. It may return an exit code other than 0. */
const RUN: Readonly<Record<CommandName, Run>> = {
  ...VARIABLE_COMMANDS,
  typegen,
  inject,
  validate,
  lint,
};

/**
 * Runs a command.
 *
 * @param args What follows the name of the command.
 * @returns The exit code: 0; 1 if it was rejected, in conflict, found an issue, or the store is unavailable; 2 if the
 * usage is invalid.
 */
export async function runCommand(
  command: CommandName,
  args: readonly string[],
  io: CommandIo,
): Promise<number> {
  try {
    const line = parseCommandArguments(command, args, io.environment);
    if (line !== undefined) return await RUN[command](line, io) ?? 0;
    io.print(commandHelp(command));
    return 0;
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe) return 0; // for example after `| head -1`
    io.printError(messageOf(error));
    return error instanceof UsageError ? 2 : 1;
  }
}
