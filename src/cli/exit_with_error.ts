import { messageOf } from "../log.ts";
import { UsageError } from "./read_options.ts";

/** Prints an error's message and ends the process: with code 2 if the command was called incorrectly, else with 1. */
export function exitWithError(error: unknown): never {
  // deno-lint-ignore no-console -- there may be no log yet
  console.error(messageOf(error));
  Deno.exit(error instanceof UsageError ? 2 : 1);
}
