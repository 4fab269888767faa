import type { Changes, ChangesOptions } from "./changes/changes.ts";
import { handleStoreChange, saveCounts } from "./changes/recovery.ts";
import type { ActiveConfiguration } from "./changes/replica.ts";
import { Configuration } from "./config/configuration.ts";
import type { Snapshot } from "./config/snapshot.ts";
import { StoredVariablesSource } from "./config/stored_variables_source.ts";
import { reloadOnWrites } from "./config/watch_stored_variables.ts";
import type { ResolvedOptions } from "./gateway_options.ts";
import { Epochs } from "./keys/epochs.ts";
import { sharedMasterKey } from "./keys/master_key.ts";
import { RateLimit } from "./keys/rate_limit.ts";
import { WINDOW_MS } from "./keys/sliding_window.ts";
import { BackgroundTasks } from "./store/background_tasks.ts";
import { CircuitBreaker } from "./store/circuit_breaker.ts";
import { waitAtMost } from "./values/clock.ts";

/** How often a store that has failed is probed, and what was counted in memory is stored. */
const PROBE_MS = 1_000;
/**
 * How long a shutdown waits for the store, and for a reload, whose sources may never answer: the other replicas notice a
 * missing heartbeat as well.
 */
const LEAVE_TIMEOUT_MS = 1_000;

/** Everything that changes while the gateway runs, from the store to the streams. */
export class Engine {
  /** This process's variables, and how they are reloaded. */
  readonly configuration: Configuration;
  /** The event log and its streams; `undefined` without hot reload. */
  readonly changes: Changes | undefined;
  /** Counts session keys. */
  readonly rateLimit: RateLimit;
  /** The keys of each epoch. */
  readonly epochs: Epochs;
  readonly #options: ResolvedOptions;
  readonly #closing = new AbortController();
  readonly #parts: Parts;
  #watching: Promise<void> = Promise.resolve();

  /** @param createChanges Creates what a gateway with hot reload has besides; `undefined` without hot reload. */
  constructor(options: ResolvedOptions, createChanges: CreateChanges | undefined) {
    this.#options = options;
    const parts = this.#parts = createParts(options, createChanges, this.#closing.signal);
    this.configuration = parts.configuration;
    this.changes = parts.changes;
    this.rateLimit = parts.rateLimit;
    this.epochs = parts.epochs;
  }

  /**
   * Reads the variables, then loads the master key, joins the rollout and publishes what changed. If the variables are
   * invalid, nothing outside the process has changed.
   *
   * @throws {ConfigurationError} If the variables are invalid.
   */
  async start(): Promise<void> {
    const { configuration, changes } = this;
    await configuration.load();
    await this.#loadMasterKey();
    await changes?.publisher.publishOrRetry(configuration.snapshot);
    this.#startTasks();
    changes?.polling.start();
    this.#watching = reloadOnWrites({ ...this.#parts, poll: changes?.polling.pollNewestWrite });
  }

  /** What pages are built from: the active configuration of all replicas, which may not be this process's. */
  get active(): ActiveConfiguration {
    const { snapshot } = this.configuration;
    return this.changes?.activeConfiguration(snapshot) ?? { snapshot, cursor: 0 };
  }

  /** Whether the last reload was rejected. */
  get isRejected(): boolean {
    return this.configuration.isRejected;
  }

  /** Whether the last read and the last write of the store succeeded. */
  get isStoreAvailable(): boolean {
    return this.#parts.store.isAvailable;
  }

  /** Whether an error was not caught. */
  get hasFailed(): boolean {
    return this.#options.failure.aborted;
  }

  /** Leaves the rollout, ends the streams that are left and the polling. The store stays open: its caller closes it. */
  async close(): Promise<void> {
    const { changes, configuration } = this;
    changes?.leave();
    await changes?.hub.close(0);
    this.#closing.abort();
    const ending = [configuration.close(), changes?.close(), this.#watching];
    await waitAtMost(LEAVE_TIMEOUT_MS, Promise.all(ending), this.#options.clock);
    await changes?.tail.close();
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

type CreateChanges = (options: ChangesOptions) => Changes;

type Parts = ReturnType<typeof createParts>;

/** Creates the parts and connects them, in the order in which data passes through them. */
function createParts(options: ResolvedOptions, createChanges: CreateChanges | undefined, signal: AbortSignal) {
  const { clock, random, metrics, masterKey } = options;
  const onChange = (failure: Error | undefined) => handleStoreChange(failure, parts);
  const store: CircuitBreaker = new CircuitBreaker(options.store, { clock, metrics, onChange });
  const tasks = new BackgroundTasks({ ...options, signal });
  const storedVariables = new StoredVariablesSource(store);
  const common = { ...options, store, tasks, signal, storedVariables };
  const changes = createChanges?.({
    ...common,
    snapshot: () => configuration.snapshot,
    reload: () => configuration.reloadStored(),
  });
  metrics.observe("rep.streams.open", () => changes?.hub.size ?? 0);
  const publish = async (snapshot: Snapshot) => await changes?.publisher.publishOrRetry(snapshot);
  const configuration: Configuration = new Configuration({ ...common, publish });
  const rateLimit = new RateLimit({ store, clock, random, limit: options.sessionKeyMaxRate });
  const epochs = new Epochs({
    clock,
    rotationMs: options.keyRotationMs,
    retentionMs: options.keyRetentionMs,
    masterKey: masterKey ? () => Promise.resolve(masterKey) : () => sharedMasterKey(store, options),
  });
  const parts = { ...common, changes, configuration, rateLimit, epochs };
  return parts;
}
