/** The time, and waiting for it: everything in the gateway that depends on either takes a {@linkcode Clock}. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /**
   * Calls back once, after `ms` milliseconds.
   *
   * @param isBackground Whether it is of no use when nothing else is left to do: then it does not keep the process alive.
   * @returns A function that calls it off.
   */
  after(ms: number, callback: () => void, isBackground?: boolean): () => void;
}

/** The real clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, callback, isBackground = false) {
    const timer = setTimeout(callback, ms);
    if (isBackground) Deno.unrefTimer(timer);
    return () => clearTimeout(timer);
  },
};

/** Calls back every `ms` milliseconds, in the background, until the function that is returned is called. */
export function every(ms: number, callback: () => void, clock: Clock): () => void {
  let cancel = clock.after(ms, again, true);
  function again() {
    cancel = clock.after(ms, again, true);
    callback();
  }
  return () => cancel();
}

/** What {@linkcode sleep} may be told. */
export interface SleepOptions {
  /** Ends the waiting at once, without an error. */
  signal?: AbortSignal;
  /** Whether it is of no use when nothing else is left to do. @default {false} */
  isBackground?: boolean;
}

/** Waits `ms` milliseconds. */
export function sleep(ms: number, clock: Clock, { signal, isBackground = false }: SleepOptions = {}): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const cancel = clock.after(ms, done, isBackground);
    function done() {
      cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    }
    signal?.addEventListener("abort", done);
  });
}

/** Waits for something, but no longer than `ms` milliseconds; how it ends is of no interest. */
export async function waitAtMost(ms: number, work: Promise<unknown>, clock: Clock): Promise<void> {
  const ended = new AbortController();
  const end = () => ended.abort();
  work.then(end, end);
  await sleep(ms, clock, { signal: ended.signal });
}
