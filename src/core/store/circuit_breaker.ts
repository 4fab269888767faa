import { type Log, silentLog } from "../observe/log.ts";
import { type Metrics, secondsSince } from "../observe/metrics.ts";
import {
  type ClientSpanStart,
  noTelemetry,
  type Telemetry,
} from "../observe/telemetry.ts";
import { type Clock, sleep } from "../values/clock.ts";
import {
  type Key,
  OPERATION_TIMEOUT_MS,
  type Store,
  StoreIncompatibleError,
  StoreUnavailableError,
  toUnavailableError,
  withTimeout,
} from "./store.ts";

/** Options of {@linkcode CircuitBreaker}. */
interface CircuitBreakerOptions {
  clock: Clock;
  metrics: Metrics;
  /** Where an outage and its end are logged. @default {nowhere} */
  log?: Log;
  /** Records a span for each operation that a request waits for. @default {noTelemetry} */
  telemetry?: Telemetry;
}

/** How long to wait before each probe. */
const PAUSE_MS = 1_000;

/** Reads and writes fail and recover separately: on a full disk, only writes fail. */
export const STORE_OPERATIONS = ["read", "write"] as const;
type Operation = (typeof STORE_OPERATIONS)[number];

/** A key that exists only within a commit. */
const PROBE = ["probe"];
/**
 * Almost the maximum size of a Deno KV value: a disk that is too full for other commits may have room for a few bytes.
 */
const PROBE_BYTES = 60_000;

/** Called with the error when a store becomes unavailable, and with `undefined` when it is available again. */
type StoreListener = (failure: Error | undefined) => void;

/**
 * Adds a timeout to every operation of a store, and a circuit breaker: after a failure, operations fail immediately,
 * and the store is probed every second until it works. Over KV Connect, operations on an unreachable server never end,
 * and each pending one keeps writing to standard error. Gateways of one process may share it.
 */
export class CircuitBreaker implements Store {
  readonly maxChecks: number;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #metrics: Metrics;
  readonly #log: Log;
  readonly #listeners = new Set<StoreListener>();
  readonly #telemetry: Telemetry;
  /** The kinds of operations that have failed and are probed. */
  readonly #failing = new Set<Operation>();
  /** Ends the probes. */
  readonly #closing = new AbortController();
  /** When it became available or unavailable, in milliseconds since the Unix epoch. */
  #changedAt: number;
  /** Why it is unavailable; the latest reason if there were several. */
  #failure: Error | undefined;

  constructor(store: Store, options: CircuitBreakerOptions) {
    const { clock, metrics, log = silentLog } = options;
    const { telemetry = noTelemetry } = options;
    this.maxChecks = store.maxChecks;
    this.#store = store;
    this.#clock = clock;
    this.#metrics = metrics;
    this.#log = log;
    this.#telemetry = telemetry;
    this.#changedAt = clock.now();
    metrics.observe("rep.store.up", () => Number(this.isAvailable));
  }

  /** Whether neither reads nor writes fail. */
  get isAvailable(): boolean {
    return this.#failing.size === 0;
  }

  /** Since when it has been available or unavailable, in milliseconds since the Unix epoch, and why. */
  get availability() {
    return {
      engine: this.#store.engine,
      isAvailable: this.isAvailable,
      at: this.#changedAt,
      failure: this.#failure,
    };
  }

  readonly get: Store["get"] = (key) =>
    this.#run("read", () => this.#store.get(key));

  readonly getMany: Store["getMany"] = (keys) =>
    this.#run("read", () => this.#store.getMany(keys));

  readonly list: Store["list"] = (prefix, options) =>
    this.#run("read", () => this.#store.list(prefix, options));

  readonly commit: Store["commit"] = (checks, writes) =>
    this.#run("write", () => this.#store.commit(checks, writes));

  watch(key: Key, hint: () => void): () => void {
    return this.#store.watch(key, hint);
  }

  /**
   * Registers who has to know when the store becomes unavailable, and when it is available again.
   *
   * @returns A function for those who do not use it any longer. After the last one, it stops probing for good.
   */
  listen(listener: StoreListener): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#closing.abort();
    };
  }

  close(): void {
    this.#closing.abort();
    this.#store.close();
  }

  async #run<T>(kind: Operation, operation: () => Promise<T>): Promise<T> {
    if (this.#failing.has(kind)) throw pausedError(this.#failure);
    try {
      return await this.#attempt(kind, operation);
    } catch (error) {
      if (!this.#failing.has(kind)) void this.#recover(kind);
      throw error;
    }
  }

  /** Probes until the store works again. */
  async #recover(kind: Operation): Promise<void> {
    const wasAvailable = this.isAvailable;
    this.#failing.add(kind);
    if (wasAvailable) this.#reportChange();
    const { signal } = this.#closing;
    do {
      await sleep(PAUSE_MS, this.#clock, { signal, isBackground: true });
      if (signal.aborted) return;
    } while (!await this.#probe(kind));
    this.#failing.delete(kind);
    if (!this.isAvailable) return;
    this.#failure = undefined;
    this.#reportChange();
  }

  async #probe(kind: Operation): Promise<boolean> {
    const store = this.#store;
    const probe = () => kind === "read" ? store.get(PROBE) : probeWrite(store);
    try {
      await this.#attempt<unknown>(kind, probe);
      return true;
    } catch {
      return false; // it was counted
    }
  }

  async #attempt<T>(kind: Operation, operation: () => Promise<T>): Promise<T> {
    const startedAt = this.#clock.monotonic();
    try {
      return await this.#telemetry.inClientSpan(
        () => this.#spanOf(kind),
        () => withTimeout(operation(), OPERATION_TIMEOUT_MS, this.#clock),
      );
    } catch (error) {
      this.#metrics.count("rep.store.errors", 1, kind);
      this.#failure = toUnavailableError(error);
      throw this.#failure;
    } finally {
      const seconds = secondsSince(startedAt, this.#clock);
      this.#metrics.record("rep.store.duration", seconds, kind);
    }
  }

  #spanOf(kind: Operation): ClientSpanStart {
    const system = this.#store.engine?.toLowerCase() ?? "unknown";
    const attributes = { "db.system.name": system, "db.operation.name": kind };
    return { name: `store ${kind}`, attributes };
  }

  #reportChange(): void {
    this.#changedAt = this.#clock.now();
    const failure = this.#failure;
    if (failure === undefined) {
      const detail = "the store is available again";
      this.#log.info("rep.store.up", { detail });
    } else {
      const detail =
        `limits are counted in memory, changes wait: ${failure.message}`;
      this.#log.error("rep.store.down", { detail });
    }
    for (const listener of this.#listeners) listener(failure);
  }
}

function pausedError(cause: Error | undefined): StoreUnavailableError {
  if (cause instanceof StoreIncompatibleError) return cause; // a start has to know
  const reason = cause?.message.replace(/^Cannot use the store: /, "");
  const message = `Cannot use the store: it has just failed: ${reason}`;
  return new StoreUnavailableError(message, { cause });
}

/** Writes bytes that no store can compress, and deletes them again. */
function probeWrite(store: Store): Promise<unknown> {
  const value = crypto.getRandomValues(new Uint8Array(PROBE_BYTES));
  return store.commit([], [{ key: PROBE, value }, { key: PROBE }]);
}
