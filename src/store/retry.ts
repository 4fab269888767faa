import { type Clock, sleep } from "../clock.ts";
import { StoreUnavailableError } from "./store.ts";

/** What {@linkcode retryConflicts} needs to wait. */
export interface RetryOptions {
  clock: Clock;
  /** From 0 to below 1. */
  random: () => number;
}

/** Two processes at one SQLite file lose three of four commits to each other: this many in a row are a fault. */
const MAX_TRIES = 40;
const MAX_PAUSE_MS = 100;

/**
 * Tries something again, after a growing random pause, as long as somebody else is faster.
 *
 * @param attempt What to try: it reads, commits, and returns nothing if the commit found another state than it had read.
 * @throws {StoreUnavailableError} If that happens too often.
 */
export async function retryConflicts<T>(
  attempt: () => Promise<T | undefined>,
  { clock, random }: RetryOptions,
): Promise<T> {
  for (let tries = 1;; tries++) {
    const result = await attempt();
    if (result !== undefined) return result;
    if (tries === MAX_TRIES) break;
    await sleep(random() * Math.min(MAX_PAUSE_MS, 2 ** (tries - 1)), clock);
  }
  throw new StoreUnavailableError(`Cannot commit to the store: ${MAX_TRIES} tries met with other writers`);
}
