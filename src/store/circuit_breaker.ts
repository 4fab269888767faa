import { type Metrics, noMetrics, secondsSince } from "../observe/metrics.ts";
import type { Clock } from "../values/clock.ts";
import {
  type Check,
  type Entry,
  type Key,
  type ListOptions,
  type Store,
  StoreUnavailableError,
  toUnavailableError,
  type Write,
} from "./store.ts";
import { withTimeout } from "./with_timeout.ts";

/** Options of {@linkcode withCircuitBreaker}. */
interface CircuitBreakerOptions {
  clock: Clock;
  /** How long an operation may take. @default {5000} */
  timeoutMs?: number;
  /** How long the circuit stays open after a failure. @default {1000} */
  pauseMs?: number;
  /** Called with the error when the store becomes unavailable, and with `undefined` when it is available again. */
  onChange?: (failure: Error | undefined) => void;
  /** @default {noMetrics} */
  metrics?: Metrics;
}

/** A store whose operations fail within a bounded time. */
export interface CircuitBreakerStore extends Store {
  /** Whether the last read and the last write both succeeded. */
  readonly isAvailable: boolean;
  /**
   * Retries what failed last, so that a recovery is noticed without traffic. Does nothing while the store is available.
   */
  probe(): Promise<void>;
}

/** Reads and writes have separate circuits: on a full disk, only writes fail. */
type Kind = "read" | "write";

/** A key that holds no data. */
const PROBE_KEY = ["probe"];

/**
 * Adds a timeout to every operation of a store, and a circuit breaker: after a failure, operations fail immediately for
 * `pauseMs`, then a single trial operation is let through. Over KV Connect, operations on an unreachable server never
 * end, and each pending one keeps writing to standard error.
 */
export function withCircuitBreaker(store: Store, options: CircuitBreakerOptions): CircuitBreakerStore {
  return new CircuitBreaker(store, options);
}

class CircuitBreaker implements CircuitBreakerStore {
  readonly #store: Store;
  readonly #options: Required<CircuitBreakerOptions>;
  /** The kinds whose last operation failed, and when the next trial is due. */
  readonly #openUntil = new Map<Kind, number>();

  constructor(store: Store, options: CircuitBreakerOptions) {
    const { timeoutMs = 5_000, pauseMs = 1_000, onChange = () => {}, metrics = noMetrics, clock } = options;
    this.#store = store;
    this.#options = { clock, timeoutMs, pauseMs, onChange, metrics };
  }

  get isAvailable(): boolean {
    return this.#openUntil.size === 0;
  }

  get maxChecks(): number {
    return this.#store.maxChecks;
  }

  get<T>(key: Key): Promise<Entry<T> | undefined> {
    return this.#run("read", () => this.#store.get<T>(key));
  }

  getMany<T>(keys: readonly Key[]): Promise<(Entry<T> | undefined)[]> {
    return this.#run("read", () => this.#store.getMany<T>(keys));
  }

  list<T>(prefix: Key, options?: ListOptions): Promise<Entry<T>[]> {
    return this.#run("read", () => this.#store.list<T>(prefix, options));
  }

  commit(checks: readonly Check[], writes: readonly Write[]): Promise<string | undefined> {
    return this.#run("write", () => this.#store.commit(checks, writes));
  }

  watch(key: Key, hint: () => void): () => void {
    return this.#store.watch(key, hint);
  }

  close(): void {
    this.#store.close();
  }

  async probe(): Promise<void> {
    const probes: Promise<unknown>[] = [];
    if (this.#openUntil.has("read")) probes.push(this.get(PROBE_KEY));
    if (this.#openUntil.has("write")) {
      probes.push(this.commit([], [{ key: PROBE_KEY, value: this.#options.clock.now() }]));
    }
    await Promise.allSettled(probes); // `onChange` reports the outcome
  }

  async #run<T>(kind: Kind, operation: () => Promise<T>): Promise<T> {
    if (this.#isOpen(kind)) throw new StoreUnavailableError("Cannot use the store: it has just failed");
    this.#admitTrial(kind);
    const { timeoutMs, clock, metrics } = this.#options;
    const startedAt = clock.now();
    try {
      const result = await withTimeout(operation(), timeoutMs, clock);
      this.#recordSuccess(kind);
      return result;
    } catch (error) {
      metrics.count("rep.store.errors", 1, kind);
      throw this.#recordFailure(kind, error);
    } finally {
      metrics.record("rep.store.duration", secondsSince(startedAt, clock), kind);
    }
  }

  /** No pause exceeds the maximum; a longer remaining time means that the clock was set back. */
  #isOpen(kind: Kind): boolean {
    const { clock, timeoutMs, pauseMs } = this.#options;
    const remainingMs = (this.#openUntil.get(kind) ?? 0) - clock.now();
    return remainingMs > 0 && remainingMs <= timeoutMs + pauseMs;
  }

  /** Half-open: after the pause, one trial operation runs while the circuit stays open for all others. */
  #admitTrial(kind: Kind): void {
    const { clock, timeoutMs, pauseMs } = this.#options;
    if (this.#openUntil.has(kind)) this.#openUntil.set(kind, clock.now() + timeoutMs + pauseMs);
  }

  #recordSuccess(kind: Kind): void {
    if (this.#openUntil.delete(kind) && this.isAvailable) this.#options.onChange(undefined);
  }

  #recordFailure(kind: Kind, error: unknown): Error {
    const failure = toUnavailableError(error);
    const { clock, pauseMs, onChange } = this.#options;
    const wasAvailable = this.isAvailable;
    this.#openUntil.set(kind, clock.now() + pauseMs);
    if (wasAvailable) onChange(failure);
    return failure;
  }
}
