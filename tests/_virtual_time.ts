interface Timer {
  readonly at: number;
  readonly callback: () => void;
}

/** Time that passes only when it is told to. Everything that is due at the same moment happens in order. */
export class VirtualTime {
  now = 0;
  /** In the order in which they are due. */
  readonly #timers: Timer[] = [];
  readonly #settle: () => Promise<void>;

  /** @param settle Waits for everything that has been set off, without timers. */
  constructor(settle: () => Promise<void>) {
    this.#settle = settle;
  }

  /** Calls back after a virtual delay; returns a function that cancels it. */
  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.now + ms, callback };
    const last = this.#timers.findLastIndex(({ at }) => at <= timer.at);
    this.#timers.splice(last + 1, 0, timer);
    return () => {
      const index = this.#timers.indexOf(timer);
      if (index >= 0) this.#timers.splice(index, 1);
    };
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.after(ms, resolve));
  }

  async advance(ms: number): Promise<void> {
    const end = this.now + ms;
    await this.#settle();
    for (;;) {
      const [timer] = this.#timers;
      if (timer === undefined || timer.at > end) break;
      this.#timers.shift();
      this.now = Math.max(this.now, timer.at);
      timer.callback();
      await this.#settle();
    }
    this.now = end;
  }
}
