import { type Clock, sleep } from "../clock.ts";
import { type Store, StoreUnavailableError } from "../store/store.ts";
import { HEAD, newestWrite } from "./stored.ts";

/** Settings of {@linkcode watchVariables}. */
export interface WatchVariablesOptions {
  clock: Clock;
  /** Ends it. */
  signal: AbortSignal;
  /** The newest write that is known already; by default every one is news. @default {0} */
  after?: number;
  /** How often to look where the store gives no hint, in milliseconds. @default {1000} */
  pollMs?: number;
  /** Whether it is of no use when nothing else keeps the process alive. @default {false} */
  isBackground?: boolean;
}

/**
 * Calls back after writes to the variables in the store, once for all that came together. If the store does not answer, or
 * the callback fails because of that, it is done again at the next look.
 *
 * @param store One that fails in time, such as {@linkcode withCircuitBreaker} makes.
 * @param onChange Told the newest write's id, and waited for.
 * @returns When the signal was given, and nothing is under way any more.
 * @throws Whatever else `onChange` throws.
 */
export async function watchVariables(
  store: Store,
  onChange: (id: number) => void | Promise<void>,
  { clock, signal, after = 0, pollMs = 1_000, isBackground = false }: WatchVariablesOptions,
): Promise<void> {
  let seen = after;
  let nextLook = new AbortController();
  const lookNow = () => nextLook.abort();

  async function look(): Promise<void> {
    const newest = await newestWrite(store);
    if (newest === seen || signal.aborted) return; // not "newest <= seen": who empties the database begins anew
    await onChange(newest);
    seen = newest;
  }

  const stopHints = store.watch(HEAD, lookNow);
  signal.addEventListener("abort", lookNow);
  try {
    while (!signal.aborted) {
      nextLook = new AbortController(); // before looking: a hint that comes meanwhile is a reason to look again
      await look().catch(unlessUnavailable);
      if (!signal.aborted) await sleep(pollMs, clock, { signal: nextLook.signal, isBackground });
    }
  } finally {
    stopHints();
    signal.removeEventListener("abort", lookNow);
  }
}

function unlessUnavailable(error: unknown): void {
  if (!(error instanceof StoreUnavailableError)) throw error; // else whoever guards the store has told
}
