import { type Metrics, secondsSince } from "../observe/metrics.ts";
import type { Clock } from "../values/clock.ts";
import {
  OPERATION_TIMEOUT_MS,
  type Store,
  StoreUnavailableError,
  toUnavailableError,
  withTimeout,
  type Write,
} from "./store.ts";

/** Options of {@linkcode CircuitBreaker}. */
interface CircuitBreakerOptions {
  clock: Clock;
  metrics: Metrics;
}

/** How long operations fail at once after a failure. */
const PAUSE_MS = 1_000;

/** Reads and writes fail and recover separately: on a full disk, only writes fail. */
export const STORE_OPERATIONS = ["read", "write"] as const;
type Operation = (typeof STORE_OPERATIONS)[number];

/** A key that holds no data, and the prefix of others. */
const PROBE = ["probe"];
/** Below the limits of Deno KV for a value and for a commit. */
const MAX_VALUE_BYTES = 60_000;
const MAX_COMMIT_BYTES = 600_000;

/**
 * Adds a timeout to every operation of a store, and a circuit breaker: after a failure, operations pause, that is they
 * fail immediately, for a second; then one of them first probes the store. Over KV Connect, operations on a server that
 * is unreachable never end, and each pending one keeps writing to standard error.
 */
export class CircuitBreaker implements Store {
  readonly maxChecks: number;
  readonly #store: Store;
  readonly #options: CircuitBreakerOptions;
  /** The kinds that have failed since they were last probed with success, and when the next probe is due. */
  readonly #pausedUntil = new Map<Operation, number>();
  /** When the store became available or unavailable, and why it is unavailable. */
  #change: { readonly at: number; readonly failure?: Error | undefined };
  /** The size of the largest commit that has failed: on a nearly full disk, there is still room for smaller ones. */
  #failedBytes = 0;
  #notify: (failure: Error | undefined) => void = () => {};

  constructor(store: Store, options: CircuitBreakerOptions) {
    this.#store = store;
    this.maxChecks = store.maxChecks;
    this.#options = options;
    this.#change = { at: options.clock.now() };
    options.metrics.observe("rep.store.up", () => Number(this.isAvailable));
  }

  /** Whether the last read and the last write both succeeded. */
  get isAvailable(): boolean {
    return this.#pausedUntil.size === 0;
  }

  /** Since when it has been available or unavailable, in milliseconds since the Unix epoch, and why. */
  get state() {
    return {
      engine: this.#store.engine,
      isAvailable: this.isAvailable,
      ...this.#change,
    };
  }

  /** Calls back with the error when the store becomes unavailable, and with `undefined` when it is available again. */
  onChange(listener: (failure: Error | undefined) => void): void {
    this.#notify = listener;
  }

  readonly get: Store["get"] = (key) =>
    this.#run("read", () => this.#store.get(key));

  readonly getMany: Store["getMany"] = (keys) =>
    this.#run("read", () => this.#store.getMany(keys));

  readonly list: Store["list"] = (prefix, options) =>
    this.#run("read", () => this.#store.list(prefix, options));

  readonly commit: Store["commit"] = (checks, writes) =>
    this.#run("write", () => this.#store.commit(checks, writes), writes);

  readonly watch: Store["watch"] = (key, hint) => this.#store.watch(key, hint);

  readonly close: Store["close"] = () => this.#store.close();

  /**
   * Retries what failed last, so that a recovery is noticed without traffic. Does nothing while the store is available.
   */
  async probe(): Promise<void> {
    const due = this.#pausedUntil.keys().filter((kind) =>
      !this.#isPaused(kind)
    );
    await Promise.allSettled([...due].map((kind) => this.#probe(kind))); // `onChange` reports the outcome
  }

  async #run<T>(
    kind: Operation,
    operation: () => Promise<T>,
    writes: readonly Write[] = [],
  ): Promise<T> {
    if (this.#isPaused(kind)) throw pausedError(this.#change.failure);
    if (this.#pausedUntil.has(kind)) await this.#probe(kind);
    try {
      return await this.#attempt(kind, operation);
    } catch (error) {
      this.#failedBytes = Math.max(
        this.#failedBytes,
        JSON.stringify(writes).length,
      );
      throw error;
    }
  }

  /** After the pause, one probe runs while all others still pause. */
  async #probe(kind: Operation): Promise<void> {
    this.#pausedUntil.set(
      kind,
      this.#options.clock.monotonic() + OPERATION_TIMEOUT_MS + PAUSE_MS,
    );
    await this.#attempt<unknown>(kind, () => {
      return kind === "read"
        ? this.#store.get(PROBE)
        : this.#store.commit([], probeWrites(this.#failedBytes));
    });
    this.#recordRecovery(kind);
  }

  async #attempt<T>(kind: Operation, operation: () => Promise<T>): Promise<T> {
    const { clock, metrics } = this.#options;
    const startedAt = clock.monotonic();
    try {
      return await withTimeout(operation(), OPERATION_TIMEOUT_MS, clock);
    } catch (error) {
      metrics.count("rep.store.errors", 1, kind);
      throw this.#recordFailure(kind, error);
    } finally {
      metrics.record(
        "rep.store.duration",
        secondsSince(startedAt, clock),
        kind,
      );
    }
  }

  #isPaused(kind: Operation): boolean {
    return (this.#pausedUntil.get(kind) ?? 0) > this.#options.clock.monotonic();
  }

  #recordRecovery(kind: Operation): void {
    if (kind === "write") this.#failedBytes = 0;
    if (this.#pausedUntil.delete(kind) && this.isAvailable) {
      this.#changeTo(undefined);
    }
  }

  #recordFailure(kind: Operation, error: unknown): Error {
    const failure = toUnavailableError(error);
    const wasAvailable = this.isAvailable;
    this.#pausedUntil.set(kind, this.#options.clock.monotonic() + PAUSE_MS);
    if (wasAvailable) this.#changeTo(failure);
    else this.#change = { ...this.#change, failure };
    return failure;
  }

  #changeTo(failure: Error | undefined): void {
    this.#change = { at: this.#options.clock.now(), failure };
    this.#notify(failure);
  }
}

function pausedError(cause: Error | undefined): StoreUnavailableError {
  const reason = cause?.message.replace(/^Cannot use the store: /, "");
  return new StoreUnavailableError(
    `Cannot use the store: it has just failed: ${reason}`,
    { cause },
  );
}

/** Writes about as much as the commit that failed, which no store can compress, and deletes it again. */
function probeWrites(bytes: number): Write[] {
  const size = Math.min(bytes, MAX_COMMIT_BYTES);
  const parts = Math.ceil(size / MAX_VALUE_BYTES);
  const writes = Array.from({ length: parts }, (_, part): Write => {
    return {
      key: [...PROBE, part],
      value: crypto.getRandomValues(new Uint8Array(Math.ceil(size / parts))),
    };
  });
  return [...writes, ...writes.map(({ key }) => ({ key }))];
}
