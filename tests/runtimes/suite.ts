/**
 * What the module does in every runtime, where the runtime takes part: requests and bodies, streams, timers, codings,
 * cryptography, the environment and files. What is logic alone is tested on Deno. It imports the package by its name, so
 * that it runs wherever that is installed.
 */
import { type Check, CHECKS } from "./check.ts";
import "./request_checks.ts";
import "./page_checks.ts";
import "./change_checks.ts";
import "./host_checks.ts";
import "./client_checks.ts";

/** All checks. */
export const SUITE: readonly Check[] = CHECKS;

/** Those that hold in workers as well. */
export const WORKER_SUITE: readonly Check[] = CHECKS.filter((check) =>
  check.notInWorkers === ""
);
