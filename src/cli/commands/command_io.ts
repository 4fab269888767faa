import type { Environment } from "../../config/variables/tiers.ts";
import { readEnvironment } from "../../config/files/read_environment.ts";
import { silentLog } from "../../observe/log.ts";
import { openStore, STORE_IN_MEMORY } from "../../store/open.ts";
import type { Store } from "../../store/store.ts";
import { type Clock, systemClock } from "../../values/clock.ts";
import { loadKvToken } from "../sources/secret_files.ts";
import { STOP_SIGNALS } from "../start/signals.ts";

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
  /** Resolves when the user stops `watch`. */
  stopped: () => Promise<void>;
  clock: Clock;
  /** Source of numbers in [0, 1), for backoff. */
  random: () => number;
}

/** Width of a table that is written to a file or a pipe. */
const FILE_COLUMNS = 200;

/** Returns the implementation for a command that runs as a process. */
export function systemIo(): CommandIo {
  return {
    environment: readEnvironment(),
    openStore: openPersistentStore,
    columns: terminalColumns(),
    print,
    printError,
    stopped,
    clock: systemClock,
    random: Math.random,
  };
}

/**
 * Opens the store that `--kv` names, like the gateway does, but only if it outlives the command.
 *
 * @throws {TypeError} If it does not, or cannot be opened.
 */
export async function openPersistentStore(
  path: string | undefined,
): Promise<Store> {
  const warnings = path === ":memory:"
    ? [
      "it is deleted when this command ends; expected --kv with a file or a URL",
    ]
    : [];
  await loadKvToken();
  const store = await openStore(path, {
    ...silentLog,
    // A server that is unreachable fails the first operation.
    warn: (event, fields) =>
      event === STORE_IN_MEMORY && warnings.push(String(fields?.detail)),
  });
  if (warnings.length === 0) return store;
  store.close();
  throw new TypeError(
    `Cannot keep variables in memory, where no gateway would see them: ${
      warnings.join("; ")
    }`,
  );
}

function terminalColumns(): number {
  const columns = Deno.stdout.isTerminal() ? Deno.consoleSize().columns : 0;
  return columns > 0 ? columns : FILE_COLUMNS; // some terminals report 0
}

const encoder = new TextEncoder();

/** Writes without `console.log`, which ignores a broken pipe, so that `watch` would never end. */
function print(text: string): void {
  let rest = encoder.encode(`${text}\n`);
  while (rest.length > 0) rest = rest.subarray(Deno.stdout.writeSync(rest));
}

function printError(text: string): void {
  // deno-lint-ignore no-console -- messages go to standard error
  console.error(text);
}

/** Resolves at the first signal. The listeners are then removed, so that the next signal ends the process. */
function stopped(): Promise<void> {
  return new Promise((resolve) => {
    function stop() {
      for (const signal of STOP_SIGNALS) {
        Deno.removeSignalListener(signal, stop);
      }
      resolve();
    }
    for (const signal of STOP_SIGNALS) Deno.addSignalListener(signal, stop);
  });
}
