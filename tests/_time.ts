import { deadline } from "@std/async/deadline";
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

/** No step of these tests takes this long, however busy the machine is. */
const TIMEOUT_MS = 60_000;

/** Waits for a promise, but not for longer than this, so that a hang becomes a failure. */
export async function within<T>(
  promise: Promise<T>,
  ms: number = TIMEOUT_MS,
): Promise<T> {
  try {
    return await deadline(promise, ms);
  } catch (error) {
    if ((error as Error)?.name !== "TimeoutError") throw error;
    throw new Error(`Cannot wait longer: expected it to happen in ${ms} ms`);
  }
}

/**
 * Waits until a condition holds of which nothing tells, such as one of files or of a process.
 *
 * @throws {Error} If it does not within a minute.
 */
export async function until(
  holds: () => boolean | Promise<boolean>,
): Promise<void> {
  const giveUpAt = performance.now() + TIMEOUT_MS;
  while (!await holds()) {
    if (performance.now() > giveUpAt) {
      throw new Error(
        `Cannot wait longer: expected ${holds} in ${TIMEOUT_MS} ms`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
