import { TimerQueue } from "../rollout/_timer_queue.ts";

/** Time that passes only when it is told to. Everything that is due at the same moment happens in order. */
export class VirtualTime {
  now = 0;
  readonly #timers = new TimerQueue();
  readonly #settle: () => Promise<void>;

  /** @param settle Waits for everything that has been set off, without timers. */
  constructor(settle: () => Promise<void>) {
    this.#settle = settle;
  }

  /** Calls back after a virtual delay; returns a function that cancels it. */
  after(ms: number, callback: () => void): () => void {
    return this.#timers.add(this.now + ms, callback);
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.after(ms, resolve));
  }

  async advance(ms: number): Promise<void> {
    await this.#settle();
    const end = this.now + ms;
    for (
      let timer = this.#timers.next(end);
      timer !== undefined;
      timer = this.#timers.next(end)
    ) {
      if (timer.isCancelled) continue;
      this.now = Math.max(this.now, timer.at);
      timer.callback();
      await this.#settle();
    }
    this.now = end;
  }
}
