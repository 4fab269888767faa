import { messageOf } from "../observe/log.ts";
import { VERSION } from "../values/version.ts";
import type { CommandIo } from "./commands/command_io.ts";
import {
  commandIn,
  needsDeno,
  withoutDashes,
} from "./commands/command_table.ts";
import { nodeIo } from "./commands/node_io.ts";
import { runCommand } from "./commands/run_command.ts";
import { HOW_TO_START, nodeHelpText } from "./options/help.ts";
import { parseCommandLine, UsageError } from "./options/read_options.ts";

/**
 * Runs the command on Node.js from its arguments to its end: what needs neither a server nor the store.
 *
 * @returns The exit code.
 */
export async function main(
  args: readonly string[],
  io: CommandIo = nodeIo(),
): Promise<number> {
  const command = commandIn(args);
  try {
    if (command === undefined) return runAlone(args, io);
    if (needsDeno(command)) rejectOnNode(command);
  } catch (error) {
    io.printError(messageOf(error));
    return 2;
  }
  return await runCommand(command, withoutDashes(args).slice(1), io);
}

/** Runs the command without a command's name: as the gateway, which needs Deno, or for its help. */
function runAlone(args: readonly string[], io: CommandIo): number {
  const words = withoutDashes(args);
  if (words[0] === "serve") rejectOnNode("serve");
  const { flags, help, version } = parseCommandLine(words);
  if (flags.size > 0 && !help && !version) rejectOnNode("serve");
  io.print(version ? VERSION : nodeHelpText());
  return 0;
}

function rejectOnNode(action: string): never {
  throw new UsageError(
    `Cannot ${action} on Node.js, since that needs Deno: ${HOW_TO_START}`,
  );
}
