/** A source of time and timers. Everything in the gateway that depends on time receives one as an argument. */
export interface Clock {
  /** Returns the milliseconds since the Unix epoch. */
  now(): number;
  /** Returns the milliseconds since an arbitrary moment, for durations. Unlike `now()`, nobody can set it. */
  monotonic(): number;
  /**
   * Calls back once, after `ms` milliseconds.
   *
   * @param isBackground Whether the process may exit while the timer is pending. `false` by default.
   * @returns A function that cancels the timer.
   */
  after(ms: number, callback: () => void, isBackground?: boolean): () => void;
}

/**
 * How much the clocks of processes on one store may differ, in milliseconds: those of two replicas, and those of this
 * process and of the process that made a page.
 */
export const MAX_CLOCK_SKEW_MS = 60_000;

/** Lets the process exit while a timer is pending. Timers are objects in Node.js and Bun, and numbers elsewhere. */
function unref(timer: unknown): void {
  if (typeof timer === "number") globalThis.Deno?.unrefTimer(timer);
  else (timer as { unref?: () => void }).unref?.();
}

/** The clock of the system. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, callback, isBackground = false) {
    const timer = setTimeout(callback, ms);
    if (isBackground) unref(timer);
    return () => clearTimeout(timer);
  },
};

interface RecurringTaskOptions {
  clock: Clock;
  /** Called with the error of a run that fails. */
  onError: (error: unknown) => void;
}

/**
 * Runs a task every `ms` milliseconds, in the background. The next run starts on time even if this one fails. While it
 * is still running, there is no other one.
 *
 * @returns A function that stops the task.
 */
export function every(
  ms: number,
  task: () => unknown,
  { clock, onError }: RecurringTaskOptions,
): () => void {
  let cancel = clock.after(ms, tick, true);
  let isRunning = false;
  async function run() {
    isRunning = true;
    try {
      await task();
    } catch (error) {
      onError(error);
    }
    isRunning = false;
  }
  function tick() {
    cancel = clock.after(ms, tick, true); // first, so that the task can stop itself
    if (!isRunning) void run();
  }
  return () => cancel();
}

interface SleepOptions {
  /** Resolves the promise at once when it is aborted. */
  signal?: AbortSignal;
  /** Whether the process may exit during the pause. @default {false} */
  isBackground?: boolean;
}

/** Resolves after `ms` milliseconds. It never rejects. */
export function sleep(
  ms: number,
  clock: Clock,
  { signal, isBackground = false }: SleepOptions = {},
): Promise<void> {
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

/** Waits until a promise is settled, but no longer than `ms` milliseconds. It never rejects. */
export async function waitAtMost(
  ms: number,
  work: Promise<unknown>,
  clock: Clock,
): Promise<void> {
  await withDeadline(work, ms, clock, () => new Error("Cannot wait any longer"))
    .catch(() => {});
}

/**
 * Waits for work, but no longer than `ms` milliseconds; a later result is ignored.
 *
 * @param createError Returns the error with which the promise then rejects.
 */
export function withDeadline<T>(
  work: Promise<T>,
  ms: number,
  clock: Clock,
  createError: () => Error,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () => reject(createError()));
    work.then(resolve, reject).finally(cancel);
  });
}
