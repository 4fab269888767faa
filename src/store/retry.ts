import { type Clock, sleep } from "../values/clock.ts";
import { StoreUnavailableError } from "./store.ts";

/** Options of {@linkcode retryConflicts}. */
export interface RetryOptions {
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
}

/**
 * Two processes on one SQLite file lose three of four commits to each other; only this many in a row count as a
 * failure.
 */
const MAX_ATTEMPTS = 40;
const MAX_BACKOFF_MS = 100;

/**
 * Retries an optimistic commit with exponential backoff and full jitter until it does not conflict with another writer.
 *
 * @param attempt Reads and commits; returns `undefined` if the commit failed its checks.
 * @throws {StoreUnavailableError} If too many attempts in a row conflict.
 */
export async function retryConflicts<T>(
  attempt: () => Promise<T | undefined>,
  { clock, random }: RetryOptions,
): Promise<T> {
  for (let attempts = 1;; attempts++) {
    const result = await attempt();
    if (result !== undefined) return result;
    if (attempts === MAX_ATTEMPTS) break;
    await sleep(
      random() * Math.min(MAX_BACKOFF_MS, 2 ** (attempts - 1)),
      clock,
    );
  }
  throw new StoreUnavailableError(
    `Cannot commit to the store: ${MAX_ATTEMPTS} attempts conflicted with other writers`,
  );
}
