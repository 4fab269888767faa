import { FakeClock } from "../tools/fake_clock.ts";

/** A fake clock that tells when somebody begins to wait on it. */
export class WatchedClock extends FakeClock {
  #next = Promise.withResolvers<void>();

  override after(ms: number, callback: () => void): () => void {
    const cancel = super.after(ms, callback);
    this.#next.resolve();
    this.#next = Promise.withResolvers();
    return cancel;
  }

  /** Resolves when so many callbacks wait. */
  async waits(count = 1): Promise<void> {
    while (this.waiting < count) await this.#next.promise;
  }
}
