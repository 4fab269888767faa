import { runCommand } from "../../../src/cli/commands/run_command.ts";
import type { Environment } from "../../../src/variables/classify.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";

/** The exit code and the output of a command. */
export interface Outcome {
  code: number;
  out: string[];
  err: string[];
}

/** When the commands run, unless they are given another clock. */
export const START = Date.UTC(2026, 10, 21, 12);

/** Runs a command that needs no store in this process. */
export async function run(
  args: readonly string[],
  environment: Environment = {},
  clock = new FakeClock(START),
): Promise<Outcome> {
  const [out, err]: [string[], string[]] = [[], []];
  const code = await runCommand(args, {
    environment,
    openStore: () => Promise.reject(new Error("The store was opened")),
    columns: 80,
    print: (text) => out.push(...text.split("\n")),
    printError: (text) => err.push(text),
    stopped: () => Promise.reject(new Error("Only a watch can be stopped")),
    clock,
    random: () => 0,
  });
  return { code, out, err };
}
