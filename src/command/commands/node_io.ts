import process from "node:process";
import { readEnvironment } from "../../files/read_environment.ts";
import { systemClock } from "../../core/values/clock.ts";
import { NODE_PROGRAM } from "../options/help.ts";
import type { CommandIo } from "./command_io.ts";

/** Returns what commands use on Node.js, where none of them opens a store. */
export function nodeIo(): CommandIo {
  process.stdout.on("error", () => process.exit(0)); // the reader stopped, for example after `| head -1`
  process.stderr.on("error", () => {}); // the exit code still tells the result
  return {
    program: NODE_PROGRAM,
    environment: readEnvironment(),
    directory: "",
    actor: () => undefined,
    openStore: needsDeno,
    storeExists: needsDeno,
    print: (text) => void process.stdout.write(`${text}\n`),
    printError: (text) => void process.stderr.write(`${text}\n`),
    clock: systemClock,
    random: Math.random,
  };
}

function needsDeno(): Promise<never> {
  return Promise.reject(new Error("Cannot use the store: expected Deno"));
}
