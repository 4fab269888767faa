import { VERSION } from "../version.ts";
import { messageOf } from "../core/observe/log.ts";
import type { CommandIo } from "./commands/command_io.ts";
import {
  commandIn,
  needsDeno,
  withoutDashes,
} from "./commands/command_table.ts";
import { nodeIo } from "./commands/node_io.ts";
import { runCommand } from "./commands/run_command.ts";
import { helpText, NODE_PROGRAM } from "./options/help.ts";
import { parseCommandLine } from "./options/read_options.ts";

/** Returns whether a command line needs what only Deno has: it starts the gateway, or opens the store. */
export function startsOnDeno(args: readonly string[]): boolean {
  const command = commandIn(args);
  if (command !== undefined) return needsDeno(command);
  try {
    const { help, version } = parseCommandLine(args);
    return !help && !version;
  } catch {
    return false; // Node.js says what is wrong
  }
}

/**
 * Runs a command line that does not need Deno.
 *
 * @returns The exit code.
 */
export async function main(
  args: readonly string[],
  io: CommandIo = nodeIo(),
): Promise<number> {
  const command = commandIn(args);
  if (command !== undefined) {
    return await runCommand(command, withoutDashes(args).slice(1), io);
  }
  try {
    const { version } = parseCommandLine(args);
    io.print(version ? VERSION : helpText(NODE_PROGRAM));
    return 0;
  } catch (error) {
    io.printError(messageOf(error));
    return 2;
  }
}
