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

/** Returns the median of times that were measured: a busy machine delays some, and a fault delays all. */
export function medianOf(times: readonly number[]): number {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? NaN;
}

/**
 * Repeats a check until it passes: of what changes without telling, such as files, another process, or a page.
 *
 * @throws The check's last error, after a minute.
 */
export async function eventually(
  check: () => void | Promise<void>,
): Promise<void> {
  const giveUpAt = performance.now() + TIMEOUT_MS;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > giveUpAt) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Waits until a condition holds. @throws {Error} If it does not within a minute. */
export async function until(
  holds: () => boolean | Promise<boolean>,
): Promise<void> {
  await eventually(async () => {
    if (!await holds()) {
      throw new Error(`Cannot wait longer: expected ${holds}`);
    }
  });
}
