import type { Clock } from "../values/clock.ts";
import { StoreUnavailableError } from "./store.ts";

/**
 * Waits for a store operation, or for a store to open, with a timeout. A result that arrives later is ignored.
 *
 * @throws {StoreUnavailableError} If the operation takes longer than `timeoutMs`.
 */
export function withTimeout<T>(promise: Promise<T>, timeoutMs: number, clock: Clock): Promise<T> {
  return new Promise((resolve, reject) => {
    const onTimeout = () => reject(new StoreUnavailableError(`Cannot use the store: no answer within ${timeoutMs} ms`));
    const cancel = clock.after(timeoutMs, onTimeout);
    promise.then(resolve, reject).finally(cancel);
  });
}
