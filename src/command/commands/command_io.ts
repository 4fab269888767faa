import type { Environment } from "../../core/config/variables/tiers.ts";
import type { Store } from "../../core/store/store.ts";
import type { Clock } from "../../core/values/clock.ts";

/** Everything outside of a command that it uses. */
export interface CommandIo {
  /** What users type to run the program. */
  program: string;
  /** The `REP_…` variables of the process. */
  environment: Environment;
  /** The beginning of the path of the manifest that is read by default; empty for the current directory. */
  directory: string;
  /** Returns who runs the command, as `user@host`; `undefined` if Deno would ask for the permission to read that. */
  actor: () => string | undefined;
  /** Opens the store at a path. The command closes it. */
  openStore: (path: string | undefined) => Promise<Store>;
  /** Returns whether there is a store at a path, which opening it would create. */
  storeExists: (path: string) => Promise<boolean>;
  /** Prints one or more lines to standard output. */
  print: (text: string) => void;
  /** Prints a message to standard error. */
  printError: (text: string) => void;
  clock: Clock;
  /** Returns a number in [0, 1), for backoff. */
  random: () => number;
}
