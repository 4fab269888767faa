import type { Clock } from "../clock.ts";
import { withTimeout } from "./with_timeout.ts";
import { type Store, StoreUnavailableError } from "./store.ts";

/** Settings of {@linkcode withCircuitBreaker}. */
export interface CircuitBreakerOptions {
  clock: Clock;
  /** How long an operation may take. @default {5000} */
  timeoutMs?: number;
  /** How long the store is left alone after a failure. @default {1000} */
  pauseMs?: number;
  /** Told when the store stops working, with the reason, and when it works again, with nothing. */
  onChange?: (failure: Error | undefined) => void;
}

/** A store that fails in time. */
export interface CircuitBreakerStore extends Store {
  /** Whether the last reading and the last writing both worked. */
  readonly isAvailable: boolean;
  /** Looks whether what has failed works again; in a quiet gateway, nobody else would for a long time. */
  probe(): Promise<void>;
}

type Kind = "read" | "write";

/** Where nothing stands that matters. */
const PROBE = ["probe"];

/**
 * Gives every operation of a store a time-out, and leaves a store alone for a while that has just failed: over KV Connect,
 * operations on a server that is down never end, and each that waits makes noise. Reading and writing fail separately,
 * since on a full disk only writing does.
 */
export function withCircuitBreaker(store: Store, options: CircuitBreakerOptions): CircuitBreakerStore {
  const { clock, timeoutMs = 5_000, pauseMs = 1_000, onChange = () => {} } = options;
  const openUntil = new Map<Kind, number>();

  async function run<T>(kind: Kind, operation: () => Promise<T>): Promise<T> {
    if (isOpen(kind)) {
      throw new StoreUnavailableError("Cannot use the store: it has just failed");
    }
    if (openUntil.has(kind)) openUntil.set(kind, clock.now() + timeoutMs + pauseMs); // this one goes and sees; others do not wait
    try {
      const result = await withTimeout(operation(), timeoutMs, clock);
      succeeded(kind);
      return result;
    } catch (error) {
      throw failed(kind, error);
    }
  }

  /** No pause is longer than that: if one seems to be, the clock was set back. */
  function isOpen(kind: Kind): boolean {
    const leftMs = (openUntil.get(kind) ?? 0) - clock.now();
    return leftMs > 0 && leftMs <= timeoutMs + pauseMs;
  }

  function succeeded(kind: Kind): void {
    if (openUntil.delete(kind) && openUntil.size === 0) onChange(undefined);
  }

  function failed(kind: Kind, error: unknown): Error {
    const failure = unavailable(error);
    const wasWorking = openUntil.size === 0;
    openUntil.set(kind, clock.now() + pauseMs);
    if (wasWorking) onChange(failure);
    return failure;
  }

  const get: Store["get"] = (key) => run("read", () => store.get(key));
  const commit: Store["commit"] = (checks, writes) => run("write", () => store.commit(checks, writes));

  async function probe(): Promise<void> {
    const looks: Promise<unknown>[] = [];
    if (openUntil.has("read")) looks.push(get(PROBE));
    if (openUntil.has("write")) looks.push(commit([], [{ key: PROBE, value: clock.now() }]));
    await Promise.allSettled(looks); // what they found out, `onChange` has been told
  }

  return {
    get,
    list: (prefix, listOptions) => run("read", () => store.list(prefix, listOptions)),
    commit,
    probe,
    watch: (key, hint) => store.watch(key, hint),
    close: () => store.close(),
    get isAvailable() {
      return openUntil.size === 0;
    },
  };
}

function unavailable(error: unknown): Error {
  if (error instanceof StoreUnavailableError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new StoreUnavailableError(`Cannot use the store: ${reason}`, { cause: error });
}
