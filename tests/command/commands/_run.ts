import type { CommandIo } from "../../../src/command/commands/command_io.ts";
import type { CommandName } from "../../../src/command/commands/command_table.ts";
import { runCommand } from "../../../src/command/commands/run_command.ts";
import { PROGRAM } from "../../../src/command/options/help.ts";
import type { Environment } from "../../../src/core/config/variables/tiers.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";

/** The exit code and the output of a command. */
export interface Outcome {
  code: number;
  out: string[];
  err: string[];
}

/** What a command returns that succeeds. */
export function done(out: string[], err: string[] = []): Outcome {
  return { code: 0, out, err };
}

/** What a command returns that found an issue, was rejected, or could not use the store. */
export function failed(...err: string[]): Outcome {
  return { code: 1, out: [], err };
}

/** When the commands run, unless they are given another clock. */
export const START = Date.UTC(2026, 10, 21, 12);

/** Runs a command that needs no store in this process. */
export function run(
  args: readonly string[],
  environment: Environment = {},
  clock = new FakeClock(START),
): Promise<Outcome> {
  return runWith(args, { environment, clock });
}

/** Runs a command in this process with parts of its outside world. Without `openStore`, opening the store fails. */
export async function runWith(
  args: readonly string[],
  io: Partial<CommandIo>,
): Promise<Outcome> {
  const [out, err]: [string[], string[]] = [[], []];
  const [command, ...rest] = args;
  const outside = { ...ioOf(out, err), ...io };
  const code = await runCommand(command as CommandName, rest, outside);
  return { code, out, err };
}

/** Returns the outside world of a command, which collects the lines that it prints. */
export function ioOf(out: string[], err: string[]): CommandIo {
  return {
    program: PROGRAM,
    environment: {},
    directory: "no/", // not the current one, which other tests change while this one runs
    actor: () => undefined,
    openStore: () => Promise.reject(new Error("The store was opened")),
    storeExists: () => Promise.resolve(true),
    print: (text) => void out.push(...text.split("\n")),
    printError: (text) => void err.push(text),
    clock: new FakeClock(START),
    random: () => 0,
  };
}
