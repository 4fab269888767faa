import { messageOf } from "../core/observe/log.ts";
import { VERSION } from "../core/values/version.ts";
import type { CommandIo } from "./commands/command_io.ts";
import {
  commandIn,
  needsDeno,
  withoutDashes,
} from "./commands/command_table.ts";
import { nodeIo } from "./commands/node_io.ts";
import { runCommand } from "./commands/run_command.ts";
import { DENO_PROGRAM, HOW_TO_START, nodeHelpText } from "./options/help.ts";
import { parseCommandLine, UsageError } from "./options/read_options.ts";

/**
 * Runs a command on Node.js: those that need neither a server nor the store.
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

/** Handles a command line without the name of a command: prints help or version, or rejects a start of the gateway. */
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
    `Cannot ${action} on Node.js, since that needs Deno: ${
      action === "serve" ? HOW_TO_START : `run ${DENO_PROGRAM} ${action}`
    }`,
  );
}
