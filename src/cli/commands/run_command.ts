import { messageOf } from "../../observe/log.ts";
import {
  formatRows,
  HELP_ROW,
  type HelpRow,
  optionRows,
  wrap,
} from "../options/help.ts";
import { UsageError } from "../options/read_options.ts";
import { inject, lint } from "./build_commands.ts";
import type { CommandIo, Run } from "./command_io.ts";
import { optionsOf, parseCommandArguments } from "./command_line.ts";
import { type CommandName, COMMANDS } from "./command_names.ts";
import { typegen, validate } from "./manifest_commands.ts";
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

const STORE_NOTES: readonly string[] = [
  "KEY is a name with or without the prefix REP_PUBLIC_. Flags that take a value may not be repeated.",
  "REP_GATEWAY_KV, REP_GATEWAY_APP, REP_GATEWAY_PORT and REP_GATEWAY_MANIFEST are used if the flags are not set.",
  exitCodes("it is rejected, in conflict, or the store is unavailable"),
];

/** Remarks on the commands. */
const NOTES: Readonly<Record<CommandName, readonly string[]>> = {
  validate: [
    "Prints every variable with its effective value and its source. Values of SENSITIVE and SERVER variables, and those " +
    "that look like secrets, are not printed.",
    exitCodes("there is an issue"),
  ],
  typegen: [
    "The types are for @rep/gateway/client and @rep-protocol/sdk. Include the file in the types of your project.",
    exitCodes("the manifest is invalid"),
  ],
  lint: [
    "Without DIR, checks dist. Values that look like secrets are not printed.",
    exitCodes("there is a finding"),
  ],
  inject: [
    "For builds that are served without a gateway, such as from a CDN. Injecting again replaces the values. Pages load " +
    'the script of --config-js with <script src="/config.js"></script> before their own scripts; DIR is then optional.',
    exitCodes("the configuration is invalid, or there is no page"),
  ],
  set: STORE_NOTES,
  unset: STORE_NOTES,
  list: STORE_NOTES,
  history: STORE_NOTES,
  watch: STORE_NOTES,
};

function exitCodes(failure: string): string {
  return `Exit codes: 0 success; 1 if ${failure}; 2 invalid usage.`;
}

/** Returns the text of `--help` after a command. */
export function commandHelp(command: CommandName): string {
  const { args, help } = COMMANDS[command];
  const needsStore = Object.hasOwn(VARIABLE_COMMANDS, command);
  const flags = needsStore ? "-A --unstable-kv" : "-A";
  const words = [command, args, "[OPTION ...]"].filter((word) => word !== "");
  const rows: HelpRow[] = [...optionRows(optionsOf(command)), HELP_ROW];
  return [
    `${help}.`,
    "",
    `Usage: deno run ${flags} jsr:@rep/gateway ${words.join(" ")}`,
    "",
    ...formatRows(rows),
    "",
    ...NOTES[command].flatMap((note) => wrap(note)),
  ].join("\n");
}
