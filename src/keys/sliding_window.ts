/** When the last requests of a client were allowed: milliseconds since the Unix epoch, ascending. */
export type Window = readonly number[];

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

/** Decides whether a request at a time is allowed beside the others in the window. */
export function decide(
  window: Window,
  at: number,
  limit: number,
): RateDecision {
  const counted = recent(window, at);
  const first = counted.at(-limit);
  if (first === undefined) {
    return { isAllowed: true, used: counted.length + 1, retryAfterMs: 0 };
  }
  const retryAfterMs = Math.max(1, first + WINDOW_MS - at);
  return { isAllowed: false, used: counted.length, retryAfterMs };
}

/**
 * Returns the times that count at a time. Times in the near future do: the clock of another process may be ahead.
 * Later ones do not: the clock has been set back since, and the client would be rejected until that time comes again.
 */
export function recent(window: Window, at: number): Window {
  return window.filter((time) => Math.abs(time - at) < WINDOW_MS);
}

/** Adds a request. It may lie before others, which a process has counted whose clock is ahead. */
export function add(window: Window, at: number): Window {
  return [...window, at].sort((a, b) => a - b);
}

/** Returns the times of two windows in order. A time that is in both is the same request, and counts once. */
export function merge(a: Window, b: Window): Window {
  const merged: number[] = [];
  let indexA = 0;
  let indexB = 0;
  while (indexA < a.length || indexB < b.length) {
    const next = Math.min(a[indexA] ?? Infinity, b[indexB] ?? Infinity);
    if (a[indexA] === next) indexA++;
    if (b[indexB] === next) indexB++;
    merged.push(next);
  }
  return merged;
}
