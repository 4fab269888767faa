import { describeError, type Log } from "../../core/observe/log.ts";
import {
  type Clock,
  sleep,
  systemClock,
  waitAtMost,
} from "../../core/values/clock.ts";

interface SignalActions {
  /** Called for SIGHUP. */
  reload: () => void;
  /** Called once, for SIGINT, SIGTERM, or SIGHUP of a closed terminal. */
  stop: () => Promise<void>;
  log: Log;
  /**
   * Ends the process, with `Deno.exitCode` after a clean shutdown. Under `deno serve` it must not do so then, since other
   * threads may still be busy; the process ends by itself when all of them have stopped.
   *
   * @default {Deno.exit}
   */
  exit?: (code?: number) => unknown;
  /** @default {the clock of the system} */
  clock?: Clock;
}

/** Windows has neither SIGTERM nor SIGHUP. */
const IS_WINDOWS = Deno.build.os === "windows";
/** The signals that stop a process. */
const STOP_SIGNALS: readonly Deno.Signal[] = IS_WINDOWS
  ? ["SIGINT", "SIGBREAK"]
  : ["SIGINT", "SIGTERM"];

/** How long a process that is in an unknown state has to leave the rollout and to finish requests. */
const MAX_UNKNOWN_MS = 10_000;
/** How often to look whether the terminal is still there. */
const LOOK_MS = 1_000;

/**
 * Reloads on SIGHUP, and stops on SIGINT, on SIGTERM and when its terminal is closed, with exit code 0, or 1 if the shutdown
 * fails. A second stop signal exits, with code 1. It logs a warning for a signal that the platform does not support.
 *
 * An uncaught error leaves the process in an unknown state. So it is logged, and stops the process with exit code 1.
 */
export function onSignals(
  { reload, stop, log, exit = Deno.exit, clock = systemClock }: SignalActions,
): void {
  let isStopping = false;
  let isOnTerminal = Deno.stdin.isTerminal();

  async function stopOnce(signal: Deno.Signal): Promise<void> {
    if (isStopping) return void exit(1);
    isStopping = true;
    log.info("rep.stopping", { signal });
    try {
      await stop();
    } catch (error) {
      log.error("rep.stop.failed", { detail: describeError(error) });
      return void exit(1);
    }
    log.info("rep.stopped");
    exit(); // listeners of signals, and clients that do not read, would keep the process alive
  }

  /** A terminal that goes away without a signal, as after `disown`, is none any more. */
  async function watchTerminal(): Promise<void> {
    while (isOnTerminal) {
      await sleep(LOOK_MS, clock, { isBackground: true });
      isOnTerminal = Deno.stdin.isTerminal();
    }
  }

  /** The same signal says that the terminal was closed: a process nobody sees would keep the port. */
  function onHangup(): void {
    if (isOnTerminal && !Deno.stdin.isTerminal()) void stopOnce("SIGHUP");
    else reload();
  }

  function on(signal: Deno.Signal, listener: () => void): void {
    try {
      Deno.addSignalListener(signal, listener);
    } catch (error) {
      log.warn("rep.signal.missing", {
        signal,
        detail: `this platform does not pass it on: ${error}`,
      });
    }
  }

  async function onUncaught(event: Event, error: unknown): Promise<void> {
    event.preventDefault(); // it would end the process at once
    Deno.exitCode = 1; // also if the process is stopping anyway
    log.error("rep.uncaught", { detail: describeError(error) });
    if (isStopping) return;
    isStopping = true;
    await waitAtMost(MAX_UNKNOWN_MS, stop().catch(() => {}), clock);
    exit(1);
  }

  globalThis.addEventListener("error", (event) => {
    void onUncaught(event, event.error);
  });
  globalThis.addEventListener("unhandledrejection", (event) => {
    void onUncaught(event, event.reason);
  });
  for (const signal of STOP_SIGNALS) on(signal, () => void stopOnce(signal));
  if (IS_WINDOWS) return;
  on("SIGHUP", onHangup);
  void watchTerminal();
}
