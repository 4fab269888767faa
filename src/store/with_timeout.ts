import type { Clock } from "../clock.ts";
import { StoreUnavailableError } from "./store.ts";

/**
 * Waits for what a store does, but not for ever; what it still does after that is nobody's concern.
 *
 * @throws {StoreUnavailableError} If it takes longer than `timeoutMs`.
 */
export function withTimeout<T>(promise: Promise<T>, timeoutMs: number, clock: Clock): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new StoreUnavailableError(`Cannot use the store: no answer within ${timeoutMs} ms`));
    const cancel = clock.after(timeoutMs, late);
    promise.then(resolve, reject).finally(cancel);
  });
}
