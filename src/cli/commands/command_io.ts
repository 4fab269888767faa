import type { Environment } from "../../config/variables/tiers.ts";
import type { Store } from "../../store/store.ts";
import type { Clock } from "../../values/clock.ts";

/** Everything outside the process that a command uses. */
export interface CommandIo {
  /** The `REP_…` variables of the process. */
  environment: Environment;
  /** Opens the store at a path; the command closes it. */
  openStore: (path: string | undefined) => Promise<Store>;
  /** Width of the terminal in columns. */
  columns: number;
  /** Prints one or more lines to standard output. */
  print: (text: string) => void;
  /** Prints a message to standard error. */
  printError: (text: string) => void;
  /** Asks the user a question with the answers yes and no; `undefined` if there is no terminal to ask at. */
  confirm: (question: string) => Promise<boolean | undefined>;
  /** Resolves when the user stops `watch`. */
  stopped: () => Promise<void>;
  clock: Clock;
  /** Source of numbers in [0, 1), for backoff. */
  random: () => number;
}

/** Width of a table that is written to a file or a pipe. */
export const FILE_COLUMNS = 200;
