/** Waiting that ends when the drill is interrupted. */

/** Between two looks at a condition. */
const LOOK_MS = 50;

/** Waits for some seconds. @throws If the drill is interrupted. */
export async function sleep(
  seconds: number,
  signal?: AbortSignal,
): Promise<void> {
  signal?.throwIfAborted();
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, 1_000 * seconds);
  const onAbort = () => resolve();
  signal?.addEventListener("abort", onAbort);
  await promise;
  clearTimeout(timer);
  signal?.removeEventListener("abort", onAbort);
  signal?.throwIfAborted();
}

/** Options of {@linkcode until}. */
export interface UntilOptions {
  /** What is awaited, for the error. */
  readonly what: string;
  /** @default {60} */
  readonly seconds?: number;
  readonly signal: AbortSignal;
}

/** Waits until a condition holds. @throws {Error} If it does not within this time. */
export async function until(
  holds: () => boolean | Promise<boolean>,
  { what, seconds = 60, signal }: UntilOptions,
): Promise<void> {
  const end = performance.now() + 1_000 * seconds;
  while (!await holds()) {
    if (performance.now() > end) {
      throw new Error(`Cannot wait longer than ${seconds} s: expected ${what}`);
    }
    await sleep(LOOK_MS / 1_000, signal);
  }
}
