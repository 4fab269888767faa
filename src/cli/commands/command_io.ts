import { type Clock, systemClock } from "../../clock.ts";
import type { Store } from "../../store/store.ts";
import type { Environment } from "../../variables/classify.ts";
import { readEnvironment } from "../../variables/environment.ts";
import { openPersistentStore } from "./persistent_store.ts";

/** What a command has to do with. */
export interface CommandIo {
  /** The `REP_…` variables of the process. */
  environment: Environment;
  /** Opens the store of that name; the command closes it. */
  openStore: (path: string | undefined) => Promise<Store>;
  /** How many columns of characters a line may take. */
  columns: number;
  /** Takes a line, or several, of the answer. */
  print: (text: string) => void;
  /** Takes a line that is not the answer: what was wrong, or should be known. */
  printError: (text: string) => void;
  /** Resolves when somebody wants a watch to end. */
  stopped: () => Promise<void>;
  clock: Clock;
  /** From 0 to below 1, for pauses. */
  random: () => number;
}

/** How wide a table is that goes into a file or a pipe. */
const FILE_COLUMNS = 200;

const STOP_SIGNALS: readonly Deno.Signal[] = Deno.build.os === "windows"
  ? ["SIGINT", "SIGBREAK"]
  : ["SIGINT", "SIGTERM"];

/** What the commands have to do with when they run as a process. */
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

function terminalColumns(): number {
  const columns = Deno.stdout.isTerminal() ? Deno.consoleSize().columns : 0;
  return columns > 0 ? columns : FILE_COLUMNS; // some terminals say 0
}

/** Not by `console.log`: that says nothing when whoever read the output has gone, and a watch would go on for ever. */
function print(text: string): void {
  let rest = encoder.encode(`${text}\n`);
  while (rest.length > 0) rest = rest.subarray(Deno.stdout.writeSync(rest));
}

const encoder = new TextEncoder();

function printError(text: string): void {
  // deno-lint-ignore no-console -- what is not the answer goes to standard error
  console.error(text);
}

/** After the first signal, the next one ends the process as it would any other. */
function stopped(): Promise<void> {
  return new Promise((resolve) => {
    function stop() {
      for (const signal of STOP_SIGNALS) Deno.removeSignalListener(signal, stop);
      resolve();
    }
    for (const signal of STOP_SIGNALS) Deno.addSignalListener(signal, stop);
  });
}
