import { type Clock, withDeadline } from "../values/clock.ts";
import { StoreUnavailableError } from "./store.ts";

/**
 * Waits for a store operation, or for a store to open, with a timeout. A result that arrives later is ignored.
 *
 * @throws {StoreUnavailableError} If the operation takes longer than `timeoutMs`.
 */
export function withTimeout<T>(promise: Promise<T>, timeoutMs: number, clock: Clock): Promise<T> {
  const message = `Cannot use the store: no answer within ${timeoutMs} ms`;
  return withDeadline(promise, timeoutMs, clock, () => new StoreUnavailableError(message));
}
