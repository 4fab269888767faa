import { type Store, StoreUnavailableError } from "../store/store.ts";
import { type Clock, sleep } from "../values/clock.ts";
import type { Configuration } from "./configuration.ts";
import { newestWrite, VARIABLES_HEAD_KEY } from "./stored_variables.ts";
import type { StoredVariablesSource } from "./stored_variables_source.ts";

/** Options of {@linkcode watchStoredVariables}. */
export interface WatchStoredVariablesOptions {
  clock: Clock;
  /** Ends the watch when it is aborted. */
  signal: AbortSignal;
  /** The id of the newest write that the caller already knows: 0 if there is none, -1 for a first call in any case. */
  after: number;
  /**
   * Reports the id of the newest write every now and then, since the store may not notify of a write. Returns a
   * function that ends that. Without it, the watch itself reads the id once a second.
   */
  poll: PollNewestWrite | undefined;
  /** Whether the process may exit while the watch waits. */
  isBackground: boolean;
}

/** See {@linkcode WatchStoredVariablesOptions.poll}. */
export type PollNewestWrite = (report: (id: number) => void) => () => void;

/** Options of {@linkcode reloadOnWrites}. */
interface ReloadOnWritesOptions extends Pick<WatchStoredVariablesOptions, "clock" | "signal" | "poll"> {
  store: Store;
  storedVariables: StoredVariablesSource;
  configuration: Configuration;
  /** Returns a number in [0, 1). */
  random: () => number;
}

const POLL_MS = 1_000;
/**
 * A write to the variables in the store reaches all processes at once. Each waits for a random time of up to this
 * before it reloads, so that most find the change published (`docs/scale.md`).
 */
const MAX_RELOAD_DELAY_MS = 500;

/**
 * Calls back after writes to the variables in the store, once for all writes since the last call. If polling or the
 * callback fails with {@linkcode StoreUnavailableError}, it is repeated at the next poll.
 *
 * @param store A store with timeouts, such as {@linkcode CircuitBreaker}.
 * @param onChange Called with the id of the newest write. The next call waits until its promise is settled.
 * @returns A promise that resolves after the signal is aborted and the last call has ended.
 * @throws Any error of `onChange` except {@linkcode StoreUnavailableError}.
 */
export async function watchStoredVariables(
  store: Store,
  onChange: (id: number) => void | Promise<void>,
  { clock, signal, after, poll: pollTogether, isBackground }: WatchStoredVariablesOptions,
): Promise<void> {
  let known = after;
  let pause = new AbortController();
  const pollNow = () => pause.abort();

  async function poll(): Promise<void> {
    const newest = await newestWrite(store);
    if (newest === known || signal.aborted) return; // not `<=`: ids start again if the database is emptied
    await onChange(newest);
    known = newest;
  }

  const stopWatching = store.watch(VARIABLES_HEAD_KEY, pollNow);
  const stopPolling = pollTogether?.((newest) => newest === known || pollNow());
  signal.addEventListener("abort", pollNow);
  try {
    while (!signal.aborted) {
      pause = new AbortController(); // before polling, so that a notification meanwhile ends the pause
      await poll().catch(ignoreUnavailable);
      if (signal.aborted) break;
      if (pollTogether !== undefined) await aborted(pause.signal);
      else await sleep(POLL_MS, clock, { signal: pause.signal, isBackground });
    }
  } finally {
    stopWatching();
    stopPolling?.();
    signal.removeEventListener("abort", pollNow);
  }
}

/** Reloads after writes to the variables in the store. Resolves after the signal is aborted and the last reload has ended. */
export async function reloadOnWrites(options: ReloadOnWritesOptions): Promise<void> {
  const { store, storedVariables, configuration, poll, clock, random, signal } = options;
  // Variables that could not be read at startup are a change, even if there are none.
  const after = storedVariables.isKnown ? 0 : -1;
  const reload = async () => {
    await sleep(random() * MAX_RELOAD_DELAY_MS, clock, { signal, isBackground: true });
    if (!signal.aborted) await configuration.reloadStored();
  };
  await watchStoredVariables(store, reload, { clock, signal, after, poll, isBackground: true });
}

function aborted(signal: AbortSignal): Promise<unknown> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

function ignoreUnavailable(error: unknown): void {
  if (!(error instanceof StoreUnavailableError)) throw error; // a StoreUnavailableError has been logged
}
