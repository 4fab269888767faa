import { deadline } from "@std/async/deadline";

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
