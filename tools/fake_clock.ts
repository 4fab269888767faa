import type { Clock } from "../src/clock.ts";

/** A clock that stands still until it is told to go on. */
export class FakeClock implements Clock {
  #now: number;
  #timers = new Set<{ at: number; callback: () => void }>();

  constructor(now = 1_700_000_000_000) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.#now + ms, callback };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /** How many callbacks wait. */
  get waiting(): number {
    return this.#timers.size;
  }

  /** Goes on by `ms` without calling anybody back, as a clock does that is set. */
  jump(ms: number): void {
    this.#now += ms;
  }

  /** Goes on by `ms`, calls back what is due in order, and lets everything run that was set off by it. */
  async tick(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (;;) {
      const [next] = [...this.#timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.callback();
      await settle();
    }
    this.#now = end;
    await settle();
  }
}

/** Lets all promise reactions run, and what they set off; no time goes by. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise<void>((resolve) => setTimeout(resolve, 0));
}
