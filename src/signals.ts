import type { Log } from "./log.ts";

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
}

/** Windows knows no SIGTERM, SIGHUP to ask for. */
const IS_WINDOWS = Deno.build.os === "windows";
const STOP_SIGNALS: readonly Deno.Signal[] = IS_WINDOWS ? ["SIGINT", "SIGBREAK"] : ["SIGINT", "SIGTERM"];

/** SIGHUP reloads; SIGINT and SIGTERM stop, and a second one stops at once. */
export function onSignals({ reload, stop, log, exits = true }: SignalActions): void {
  let isStopping = false;

  async function stopOnce(signal: Deno.Signal): Promise<void> {
    if (isStopping) Deno.exit(1);
    isStopping = true;
    log.info("rep.stopping", { signal });
    await stop();
    log.info("rep.stopped");
    if (exits) Deno.exit(0); // signal listeners and requests that hang would keep the process
  }

  for (const signal of STOP_SIGNALS) Deno.addSignalListener(signal, () => void stopOnce(signal));
  if (!IS_WINDOWS) Deno.addSignalListener("SIGHUP", reload);
}

/** Keeps the process, or a thread of `deno serve --parallel`, alive through an error that nobody caught. */
export function surviveErrors(log: Log): void {
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
