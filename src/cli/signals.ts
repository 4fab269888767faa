import type { Log } from "../log.ts";

/** What signals do. */
export interface SignalActions {
  reload: () => void;
  /** Ends everything; called once. */
  stop: () => Promise<void>;
  log: Log;
  /**
   * Whether the process ends with that. Under `deno serve` it ends by itself, when all of its threads have stopped.
   *
   * @default {true}
   */
  exits?: boolean;
  /** Asks for a signal. @default {Deno.addSignalListener} */
  listen?: (signal: Deno.Signal, listener: () => void) => void;
}

/** Windows knows no SIGTERM, SIGHUP to ask for. */
const IS_WINDOWS = Deno.build.os === "windows";
const STOP_SIGNALS: readonly Deno.Signal[] = IS_WINDOWS ? ["SIGINT", "SIGBREAK"] : ["SIGINT", "SIGTERM"];

/** SIGHUP reloads; SIGINT and SIGTERM stop, and a second one stops at once. A signal that cannot be had is done without. */
export function onSignals(
  { reload, stop, log, exits = true, listen = Deno.addSignalListener }: SignalActions,
): void {
  let isStopping = false;

  async function stopOnce(signal: Deno.Signal): Promise<void> {
    if (isStopping) Deno.exit(1);
    isStopping = true;
    log.info("rep.stopping", { signal });
    await stop();
    log.info("rep.stopped");
    if (exits) Deno.exit(0); // signal listeners and requests that hang would keep the process
  }

  function on(signal: Deno.Signal, listener: () => void): void {
    try {
      listen(signal, listener);
    } catch (error) {
      log.warn("rep.signal.missing", { signal, detail: `this platform does not pass it on: ${error}` });
    }
  }

  for (const signal of STOP_SIGNALS) on(signal, () => void stopOnce(signal));
  if (!IS_WINDOWS) on("SIGHUP", reload);
}

/** Keeps the process, or a thread of `deno serve --parallel`, alive through an error that nobody caught. */
export function logUncaughtErrors(log: Log): void {
  const tell = (error: unknown) => {
    const detail = error instanceof Error ? error.stack ?? error.message : String(error);
    log.error("rep.uncaught", { detail });
  };
  globalThis.addEventListener("error", (event) => {
    event.preventDefault();
    tell(event.error);
  });
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    tell(event.reason);
  });
}
