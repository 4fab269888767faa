import { type Clock, sleep } from "../values/clock.ts";
import { StoreUnavailableError } from "./store.ts";
import { toUtf8 } from "../values/utf8.ts";

/** Options of {@linkcode retryConflicts}. */
export interface RetryOptions {
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
}

/** Processes that commit to the same keys at once conflict; only this many conflicts in a row count as a failure. */
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
  for (let attempts = 1; attempts <= MAX_ATTEMPTS; attempts++) {
    const result = await attempt();
    if (result !== undefined) return result;
    const backoff = Math.min(MAX_BACKOFF_MS, 2 ** (attempts - 1));
    if (attempts < MAX_ATTEMPTS) await sleep(random() * backoff, clock);
  }
  throw new StoreUnavailableError(
    `Cannot commit to the store: ${MAX_ATTEMPTS} attempts conflicted with other writers`,
  );
}

/** The parts of a change that determine its size in the store. */
interface SizedChange {
  readonly name: string;
  readonly value: string | undefined;
  /** What is written in addition, once. */
  readonly cause?: unknown;
}

/**
 * Below the limits of a Deno KV commit: 800 KiB, of which 80 KiB may be keys, and 1,000 mutations. A change is written
 * twice, with its name in one of the two keys, and deletes at most one old entry. The sum of the weights stays below all
 * of these limits: it permits 60 KB of keys, 600 KB of keys and values, and 331 changes.
 */
const MAX_WEIGHT = 600_000;
/** The size of a change's keys, without the variable's name, and of its values without the text. */
const OVERHEAD_BYTES = 81;
/** How many keys a change has: two that are written, and one that may be deleted. */
const KEYS = 3;
/** The prefix of an app with a short name, which each of the keys may have without making the batches smaller. */
const SHORT_PREFIX_BYTES = 33;

/**
 * Splits changes into batches that each fit into one commit.
 *
 * @param prefixBytes The bytes that the store adds to each key.
 */
export function batches<C extends SizedChange>(
  changes: readonly C[],
  prefixBytes = 0,
): C[][] {
  const prefix = Math.max(prefixBytes, SHORT_PREFIX_BYTES);
  const overhead = OVERHEAD_BYTES + KEYS * prefix;
  const all: C[][] = [];
  let weight = MAX_WEIGHT; // the first change begins a batch
  for (const change of changes) {
    weight += weightOf(change, overhead);
    if (weight > MAX_WEIGHT) {
      all.push([]);
      weight = weightOf(change, overhead);
    }
    all.at(-1)?.push(change);
  }
  return all;
}

function weightOf(
  { name, value = "", cause }: SizedChange,
  overhead: number,
): number {
  const keyBytes = toUtf8(name).length + overhead;
  const valueBytes = toUtf8(value).length;
  const causeText = cause === undefined ? "" : JSON.stringify(cause);
  return 10 * keyBytes + 2 * valueBytes + 2 * causeText.length;
}
