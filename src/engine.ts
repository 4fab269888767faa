import { EventLog } from "./changes/event_log.ts";
import { Hub } from "./changes/hub.ts";
import { Polling } from "./changes/polling.ts";
import { Publisher } from "./changes/publisher.ts";
import { handleStoreChange, saveCounts } from "./changes/recovery.ts";
import { type ActiveConfiguration, Replica } from "./changes/replica.ts";
import { Tail } from "./changes/tail.ts";
import { Configuration } from "./config/configuration.ts";
import type { Snapshot } from "./config/snapshot.ts";
import { StoredVariablesSource } from "./config/stored_variables_source.ts";
import type { ResolvedOptions } from "./gateway_options.ts";
import { Epochs } from "./keys/epochs.ts";
import { sharedMasterKey } from "./keys/master_key.ts";
import { RateLimit } from "./keys/rate_limit.ts";
import { WINDOW_MS } from "./keys/sliding_window.ts";
import { BackgroundTasks } from "./store/background_tasks.ts";
import { type CircuitBreakerStore, withCircuitBreaker } from "./store/circuit_breaker.ts";
import { waitAtMost } from "./values/clock.ts";

/** How often a store that has failed is probed, and what was counted in memory is stored. */
const PROBE_MS = 1_000;
/**
 * How long a shutdown waits for the store, and for a reload, whose sources may never answer: the other replicas notice a
 * missing heartbeat as well.
 */
const LEAVE_TIMEOUT_MS = 1_000;

/** How many of the newest events the log keeps word for word. */
const KEPT_EVENTS = 10_000;

/** Everything that changes while the gateway runs, from the store to the streams. */
export class Engine {
  readonly #options: ResolvedOptions;
  readonly #closing = new AbortController();
  readonly #parts: Parts;
  #polled: Promise<void> = Promise.resolve();
  #leaving: Promise<void> | undefined;

  constructor(options: ResolvedOptions) {
    this.#options = options;
    this.#parts = createParts(options, this.#closing.signal);
  }

  /**
   * Reads the variables, then loads the master key, joins the rollout and publishes what changed. If the variables are
   * invalid, nothing outside the process has changed.
   *
   * @throws {ConfigurationError} If the variables are invalid.
   */
  async start(): Promise<void> {
    const { configuration, publisher, polling } = this.#parts;
    await configuration.load();
    await this.#loadMasterKey();
    if (this.#options.hotReload) await publisher.publishOrRetry(configuration.snapshot);
    this.#startTasks();
    this.#polled = polling.start();
  }

  /** The open streams. */
  get hub(): Hub {
    return this.#parts.hub;
  }

  /** The events that this process knows. */
  get tail(): Tail {
    return this.#parts.tail;
  }

  /** Counts session keys. */
  get rateLimit(): RateLimit {
    return this.#parts.rateLimit;
  }

  /** The keys of each epoch. */
  get epochs(): Epochs {
    return this.#parts.epochs;
  }

  /** This process's variables. */
  get snapshot(): Snapshot {
    return this.#parts.configuration.snapshot;
  }

  /** What pages are built from: the active configuration of all replicas, which may not be this process's. */
  get active(): ActiveConfiguration {
    const { replica, publisher } = this.#parts;
    return replica.activeConfiguration({ snapshot: this.snapshot, cursor: publisher.cursor });
  }

  /** Whether the last reload was rejected. */
  get isRejected(): boolean {
    return this.#parts.configuration.isRejected;
  }

  /** Whether the last read and the last write of the store succeeded. */
  get isStoreAvailable(): boolean {
    return this.#parts.store.isAvailable;
  }

  /** Whether an error was not caught. */
  get hasFailed(): boolean {
    return this.#options.failure.aborted;
  }

  /** The number of changes that strict mode has rejected. */
  get blocked(): number {
    return this.#parts.configuration.blocked;
  }

  /**
   * Reads all sources again.
   *
   * @throws {ConfigurationError} If the variables are invalid; then everything stays as it was.
   */
  reload(): Promise<void> {
    return this.#parts.configuration.reload();
  }

  /** Leaves the rollout, so that the other replicas need not wait until this one's heartbeat is missing. */
  leave(): void {
    this.#leaving ??= this.#parts.replica.leave();
  }

  /** Leaves the rollout, ends the streams that are left and the polling. The store stays open: its caller closes it. */
  async close(): Promise<void> {
    const { hub, configuration, publisher, tail } = this.#parts;
    this.leave();
    await hub.close(0);
    this.#closing.abort();
    const ending = [configuration.close(), publisher.close(), this.#polled, this.#leaving];
    await waitAtMost(LEAVE_TIMEOUT_MS, Promise.all(ending), this.#options.clock);
    await tail.close();
  }

  /** Loaded early, so that a later outage of the store does not turn into rejected requests for session keys. */
  async #loadMasterKey(): Promise<void> {
    try {
      await this.epochs.keys(this.epochs.current());
    } catch (error) {
      this.#options.log.debug("rep.master_key.not_loaded", { detail: `loading it with the first page: ${error}` });
    }
  }

  #startTasks(): void {
    const { tasks, store, rateLimit } = this.#parts;
    tasks.repeat(WINDOW_MS, "sweep", () => rateLimit.sweep());
    tasks.repeat(PROBE_MS, "probe", () => store.probe());
    tasks.repeat(PROBE_MS, "save", () => saveCounts(rateLimit, this.#options.log));
  }
}

type Parts = ReturnType<typeof createParts>;

/** Creates the parts and connects them, in the order in which data passes through them. */
function createParts(options: ResolvedOptions, signal: AbortSignal) {
  const { clock, random, metrics, masterKey, hotReload } = options;
  const onChange = (failure: Error | undefined) => handleStoreChange(failure, parts);
  const store: CircuitBreakerStore = withCircuitBreaker(options.store, { clock, metrics, onChange });
  const tasks = new BackgroundTasks({ ...options, signal });
  const eventLog = new EventLog(store, { clock, random, keep: KEPT_EVENTS });
  const tail = new Tail(eventLog, (frames) => hub.deliver(frames));
  const hub = new Hub(tail, options);
  const storedVariables = new StoredVariablesSource(store);
  const common = { ...options, store, tasks, signal, eventLog, tail, storedVariables };
  const replica: Replica = new Replica({
    ...common,
    onReactivated: () => void publisher.publishOrRetry(configuration.snapshot),
  });
  const publisher: Publisher = new Publisher({ ...common, replica });
  const publish = hotReload ? (it: Snapshot) => publisher.publishOrRetry(it) : () => Promise.resolve();
  const configuration = new Configuration({ ...common, publish });
  const polling = new Polling({ ...common, configuration });
  const rateLimit = new RateLimit({ store, clock, random, limit: options.sessionKeyMaxRate });
  const epochs = new Epochs({
    clock,
    rotationMs: options.keyRotationMs,
    retentionMs: options.keyRetentionMs,
    masterKey: masterKey ? () => Promise.resolve(masterKey) : () => sharedMasterKey(store, options),
  });
  const parts = { ...common, hub, replica, publisher, configuration, polling, rateLimit, epochs };
  return parts;
}
