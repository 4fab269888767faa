import process from "node:process";
import { createInterface } from "node:readline/promises";
import { readEnvironment } from "../../core/config/files/read_environment.ts";
import { systemClock } from "../../core/values/clock.ts";
import { type CommandIo, FILE_COLUMNS } from "./command_io.ts";

/** Returns what commands use on Node.js, where none of them opens a store. */
export function nodeIo(): CommandIo {
  process.stdout.on("error", () => process.exit(0)); // the reader stopped, for example after `| head -1`
  process.stderr.on("error", () => {}); // the exit code still tells the result
  return {
    environment: readEnvironment(),
    openStore: needsDeno,
    storeExists: needsDeno,
    columns: process.stdout.columns || FILE_COLUMNS, // some terminals report 0
    print: (text) => void process.stdout.write(`${text}\n`),
    printError: (text) => void process.stderr.write(`${text}\n`),
    confirm: confirmAtTerminal,
    clock: systemClock,
    random: Math.random,
  };
}

function needsDeno(): Promise<never> {
  return Promise.reject(new Error("Cannot use the store: expected Deno"));
}

async function confirmAtTerminal(
  question: string,
): Promise<boolean | undefined> {
  if (!process.stdin.isTTY) return undefined;
  const terminal = createInterface(process.stdin, process.stderr);
  try {
    const answer = await terminal.question(`${question} [y/N] `);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}
