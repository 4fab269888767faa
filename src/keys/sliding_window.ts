/** When a client's requests were allowed: ascending milliseconds since the Unix epoch. */
export type Window = readonly number[];

/**
 * A window as it is stored: its first time, then the differences. So 10,000 requests, the highest limit, fit into the
 * 64 KiB of a Deno KV value.
 */
export type PackedWindow = readonly number[];

/** The outcome of a request. */
export interface RateDecision {
  readonly isAllowed: boolean;
  /** How many requests of the client count towards the limit, this one included if it is allowed. */
  readonly used: number;
  /** After how many milliseconds the next request is allowed; 0 if this one is. */
  readonly retryAfterMs: number;
}

/** The length of the sliding window (endpoint specification, Limits). */
export const WINDOW_MS = 60_000;

/** Decides whether one more request is allowed. */
export function decide(
  window: Window,
  now: number,
  limit: number,
): RateDecision {
  if (window.length < limit) {
    return { isAllowed: true, used: window.length + 1, retryAfterMs: 0 };
  }
  const freedAt = (window.at(-limit) ?? now) + WINDOW_MS;
  return {
    isAllowed: false,
    used: window.length,
    retryAfterMs: Math.max(1, freedAt - now),
  };
}

/** Adds a request. It may lie before others, which a clock that is ahead has recorded. */
export function addRequest(window: Window, now: number): Window {
  const added = [...window, now];
  return now >= (window.at(-1) ?? now) ? added : added.sort((a, b) => a - b);
}

/**
 * Keeps the times that still count. Times in the near future do: another process's clock may be ahead. Later
 * ones do not: the clock has been set back since, and the client would be rejected until that time comes again.
 */
export function keepRecent(window: Window, now: number): Window {
  return window.filter((time) => Math.abs(time - now) < WINDOW_MS);
}

/** Merges the window of this process, which may contain requests that are not in the store, with the stored one. */
export function mergeWindows(counted: Window, stored: Window): Window {
  const missing: number[] = [];
  let at = 0;
  for (const time of counted) {
    while ((stored[at] ?? Infinity) < time) at++;
    if (stored[at] === time) at++;
    else missing.push(time);
  }
  return missing.length === 0
    ? stored
    : [...stored, ...missing].sort((a, b) => a - b);
}

/**
 * Packs a window for the store.
 *
 * V8 serializes an array that has only ever contained numbers, the first too large for a small integer, with nine bytes
 * for each. In an array that has contained something else, a small integer takes five.
 */
export function packWindow(window: Window): PackedWindow {
  const packed: unknown[] = [undefined];
  packed.pop();
  let last = 0;
  for (const time of window) {
    packed.push(time - last);
    last = time;
  }
  return packed as number[];
}

/** Unpacks a stored window. */
export function unpackWindow(differences: PackedWindow): Window {
  let time = 0;
  return differences.map((difference) => time += difference);
}
