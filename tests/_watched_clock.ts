import { FakeClock } from "../tools/fake_clock.ts";

/** A fake clock that reports when timers are set. */
export class WatchedClock extends FakeClock {
  #next = Promise.withResolvers<void>();

  override after(ms: number, callback: () => void): () => void {
    const cancel = super.after(ms, callback);
    this.#next.resolve();
    this.#next = Promise.withResolvers();
    return cancel;
  }

  /** Resolves when this many timers are pending. */
  async waits(count = 1): Promise<void> {
    while (this.waiting < count) await this.#next.promise;
  }
}
