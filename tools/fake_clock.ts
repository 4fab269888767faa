import type { Clock } from "../src/core/values/clock.ts";

/** A clock that stands still until a test advances it. */
export class FakeClock implements Clock {
  #now: number;
  /** By how much the system's clock was set forward. */
  #jumped = 0;
  #timers = new Set<{ at: number; ms: number; callback: () => void }>();

  constructor(now = 1_700_000_000_000) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#now - this.#jumped;
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.#now + ms, ms, callback };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /** The number of pending timers. */
  get waiting(): number {
    return this.#timers.size;
  }

  /** Returns whether a timer with a duration in this range is pending. */
  isWaitingFor(minMs: number, maxMs = minMs): boolean {
    return [...this.#timers].some(({ ms }) => minMs <= ms && ms <= maxMs);
  }

  /** Sets the system's clock forward or back, which runs no timers. */
  jump(ms: number): void {
    this.pass(ms);
    this.#jumped += ms;
  }

  /** Advances the time without running timers, which are then late. */
  pass(ms: number): void {
    this.#now += ms;
  }

  /** Advances the time, runs the timers that are due, in order, with what follows from each, and settles. */
  async tick(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (;;) {
      const [next] = [...this.#timers].filter(({ at }) => at <= end).sort((
        a,
        b,
      ) => a.at - b.at);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.callback();
      await turns();
    }
    this.#now = end;
    await settle();
  }

  /**
   * Advances the time step by step until a promise is settled, whose value it returns.
   *
   * @throws {Error} If it takes more than 10,000 steps.
   */
  async tickUntil<T>(promise: Promise<T>, stepMs: number): Promise<T> {
    let isSettled = false;
    const settling = promise.finally(() => isSettled = true);
    settling.catch(() => {}); // it is awaited below
    for (let steps = 0; !isSettled; steps++) {
      if (steps === 10_000) {
        throw new Error(
          `Cannot wait longer: expected it to happen in ${steps} steps`,
        );
      }
      await this.tick(stepMs);
    }
    return await settling;
  }
}

/** The operations in flight for which {@linkcode settle} waits, however long they take. */
const inFlight = new Set<Promise<unknown>>();

/** Has {@linkcode settle} wait for an operation of a real database. */
export async function settleAfter<T>(operation: Promise<T>): Promise<T> {
  inFlight.add(operation);
  try {
    return await operation;
  } finally {
    inFlight.delete(operation);
  }
}

/** A turn takes one or two milliseconds. What takes longer is delayed by a busy machine, on which threads are late, too. */
const DELAYED_MS = 4;
/** How many turns may be repeated. */
const MAX_DELAYED = 25;

/**
 * Runs all pending promise reactions and what follows from them, without advancing the time. It takes 5 ms, so that a
 * thread may answer as well, and longer on a busy machine.
 */
export async function settle(): Promise<void> {
  let delayed = 0;
  for (let turn = 0; turn < 5; turn++) {
    const start = performance.now();
    await new Promise<void>((resolve) => setTimeout(resolve, 0));
    await crypto.subtle.digest("SHA-256", new Uint8Array());
    const isDelayed = performance.now() - start > DELAYED_MS;
    if (isDelayed && ++delayed <= MAX_DELAYED) turn--;
    if (inFlight.size > 0) turn = 0;
    await Promise.allSettled(inFlight);
  }
}

/** Runs all pending promise reactions and what follows from them in memory. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) {
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}
