import type { ActiveConfiguration, Changes, ChangesOptions } from "./changes/changes.ts";
import { Configuration } from "./config/configuration.ts";
import type { Snapshot } from "./config/snapshot.ts";
import { VARIABLES_HEAD_KEY } from "./config/stored_variables.ts";
import { StoredVariablesSource } from "./config/stored_variables_source.ts";
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
/** How often new writes to the variables in the store are looked for. */
const POLL_MS = 1_000;
/**
 * How long a shutdown waits for the store, and for a reload, whose sources may never answer: the other replicas notice a
 * missing heartbeat as well.
 */
const LEAVE_TIMEOUT_MS = 1_000;

/** How often a sample is taken for the plots of the status page. */
const SAMPLE_MS = 60_000;

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
  /** The store of all of these. */
  readonly store: CircuitBreaker;
  /** Aborted after an error that was not caught. */
  readonly failure: AbortSignal;
  readonly #options: ResolvedOptions;
  readonly #closing = new AbortController();
  readonly #parts: Parts;

  /** @param createChanges Creates what a gateway with hot reload has besides; `undefined` without hot reload. */
  constructor(options: ResolvedOptions, createChanges: CreateChanges | undefined) {
    this.#options = options;
    const parts = this.#parts = createParts(options, createChanges, this.#closing.signal);
    this.configuration = parts.configuration;
    this.changes = parts.changes;
    this.rateLimit = parts.rateLimit;
    this.epochs = parts.epochs;
    this.store = parts.store;
    this.failure = options.failure;
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
  }

  /** What pages are built from: the active configuration of all replicas, which may not be this process's. */
  get active(): ActiveConfiguration {
    const { snapshot } = this.configuration;
    return this.changes?.activeConfiguration(snapshot) ?? { snapshot, cursor: 0 };
  }

  /** Leaves the rollout, ends the streams that are left and the polling. The store stays open: its caller closes it. */
  async close(): Promise<void> {
    const { changes, configuration } = this;
    changes?.leave();
    await changes?.hub.close(0);
    this.#closing.abort();
    const ending = Promise.all([configuration.close(), changes?.close()]);
    await waitAtMost(LEAVE_TIMEOUT_MS, ending, this.#options.clock);
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
    const { tasks, store, rateLimit, changes, storedVariables } = this.#parts;
    tasks.repeat(SAMPLE_MS, "sample", async () => await this.#options.registry.sample());
    tasks.repeat(WINDOW_MS, "sweep", () => rateLimit.sweep());
    tasks.repeat(PROBE_MS, "probe", () => store.probe());
    tasks.repeat(PROBE_MS, "save", () => this.#saveCounts());
    tasks.runOnHint(VARIABLES_HEAD_KEY, "reload", () => storedVariables.poll());
    if (changes === undefined) tasks.repeat(POLL_MS, "reload", () => storedVariables.poll());
    else changes.start(); // polls for both the events and the variables
  }

  /** Stores the session keys that were counted in memory. */
  async #saveCounts(): Promise<void> {
    const clients = await this.rateLimit.save();
    if (clients > 0) this.#options.log.info("rep.rate_limit.saved", { clients });
  }
}

type CreateChanges = (options: ChangesOptions) => Changes;

type Parts = ReturnType<typeof createParts>;

/** Creates the parts and connects them, in the order in which data passes through them. */
function createParts(options: ResolvedOptions, createChanges: CreateChanges | undefined, signal: AbortSignal) {
  const { clock, random, metrics, masterKey } = options;
  const onChange = (failure: Error | undefined) => handleStoreChange(failure, parts);
  const store: CircuitBreaker = new CircuitBreaker(options.store, { clock, metrics, onChange });
  const tasks = new BackgroundTasks({ ...options, store, signal });
  const reload = () => configuration.reload().catch(() => {}); // its issues have been logged
  const storedVariables = new StoredVariablesSource({ store, clock, random, reload, signal });
  const common = { ...options, store, tasks, storedVariables };
  const changes = createChanges?.({ ...common, reload });
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

/**
 * Called when the store fails, and when it is available again. Meanwhile, what needs it fails at once
 * ({@linkcode CircuitBreaker}), and then all repeated tasks make up for that: they read what was missed, publish what
 * could not be published, and store what was counted in memory.
 */
function handleStoreChange(failure: Error | undefined, { log, tasks }: Pick<Parts, "log" | "tasks">): void {
  if (failure === undefined) {
    log.info("rep.store.up", { detail: "the store is available again" });
    tasks.runAll();
  } else {
    log.error("rep.store.down", { detail: `limits are counted in memory, changes wait: ${failure.message}` });
  }
}
