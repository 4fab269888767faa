import type {
  ActiveConfiguration,
  Changes,
  ChangesOptions,
} from "./changes/changes.ts";
import { Configuration } from "./config/configuration.ts";
import type { Snapshot } from "./config/variables/snapshot.ts";
import { VARIABLES_HEAD_KEY } from "./config/stored/stored_variables.ts";
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

/** How often a sample is taken for the plots of the status page, and the end of the certificate is looked at. */
const SAMPLE_MS = 60_000;

/** How early the end of a certificate is worth a warning. */
const EXPIRING_SECONDS = 7 * 86_400;

/** Everything that changes while the gateway runs, from the store to the streams. */
export class Core {
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
  readonly #tasks: BackgroundTasks;
  readonly #storedVariables: StoredVariablesSource;
  /** What the last warning of the certificate was about. */
  #expiring: string | undefined;

  /**
   * Creates the parts and connects them, in the order in which data passes through them.
   *
   * @param createChanges Creates what a gateway with hot reload has besides; `undefined` without hot reload.
   */
  constructor(
    options: ResolvedOptions,
    createChanges: CreateChanges | undefined,
  ) {
    this.#options = options;
    this.failure = options.failure;
    const { clock, random, metrics, masterKey } = options;
    const { signal } = this.#closing;
    const onChange = (failure: Error | undefined) =>
      this.#handleStoreChange(failure);
    const store = this.store = new CircuitBreaker(options.store, {
      clock,
      metrics,
      onChange,
    });
    const tasks = this.#tasks = new BackgroundTasks({
      ...options,
      store,
      signal,
    });
    const reload = () => this.configuration.reload().catch(() => {}); // its issues have been logged
    const storedVariables = new StoredVariablesSource({
      store,
      clock,
      random,
      reload,
      signal,
    });
    this.#storedVariables = storedVariables;
    const common = { ...options, store, tasks, storedVariables };
    const keyFingerprint = () =>
      this.configuration.snapshot.sensitive.size > 0
        ? this.epochs.fingerprint
        : undefined; // then no page needs the key
    this.changes = createChanges?.({ ...common, reload, keyFingerprint });
    metrics.observe("rep.streams.open", () => this.changes?.hub.size ?? 0);
    const publish = async (snapshot: Snapshot) =>
      await this.changes?.publisher.publishNowOrLater(snapshot) ?? true;
    this.configuration = new Configuration({ ...common, publish });
    this.rateLimit = new RateLimit({
      store,
      clock,
      random,
      limit: options.sessionKeyMaxRate,
    });
    this.epochs = new Epochs({
      clock,
      rotationMs: options.keyRotationMs,
      retentionMs: options.keyRetentionMs,
      masterKey: masterKey
        ? () => Promise.resolve(masterKey)
        : () => sharedMasterKey(store, options),
    });
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
    await changes?.publisher.publishNowOrLater(configuration.snapshot);
    this.#startTasks();
  }

  /** What pages are built from: the active configuration of all replicas, which may not be this process's. */
  get active(): ActiveConfiguration {
    const { snapshot } = this.configuration;
    return this.changes?.activeConfiguration(snapshot) ??
      { snapshot, cursor: 0 };
  }

  /** How long the TLS certificate is still valid. */
  get certificateSeconds(): number {
    const { certificateNotAfter, clock } = this.#options;
    return (certificateNotAfter() ?? Infinity) - clock.now() / 1_000;
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
      this.#options.log.debug("rep.master_key.not_loaded", {
        detail: `loading it with the first page: ${error}`,
      });
    }
  }

  #startTasks(): void {
    const tasks = this.#tasks;
    const { registry } = this.#options;
    this.#checkCertificate();
    tasks.repeat(
      SAMPLE_MS,
      "sample",
      () => Promise.resolve(registry.sample()),
      { needsStore: false },
    );
    tasks.repeat(
      SAMPLE_MS,
      "certificate",
      () => Promise.resolve(this.#checkCertificate()),
      { needsStore: false },
    );
    tasks.repeat(WINDOW_MS, "sweep", () => this.rateLimit.sweep());
    tasks.repeat(PROBE_MS, "probe", () => this.store.probe());
    tasks.repeat(PROBE_MS, "save", () => this.#saveCounts());
    tasks.runOnHint(
      VARIABLES_HEAD_KEY,
      "reload",
      () => this.#storedVariables.poll(),
    );
    if (this.changes) this.changes.start(); // polls for both the events and the variables
    else tasks.repeat(POLL_MS, "reload", () => this.#storedVariables.poll());
  }

  /** Logs once of each certificate that it ends soon, and once that it has ended. */
  #checkCertificate(): void {
    const { certificateNotAfter, log } = this.#options;
    const seconds = this.certificateSeconds;
    if (seconds > EXPIRING_SECONDS) return;
    const not_after = new Date(1_000 * (certificateNotAfter() ?? 0))
      .toISOString();
    const state = seconds > 0
      ? "ends within 7 days"
      : "has ended, and clients reject it";
    if (this.#expiring === not_after + state) return;
    this.#expiring = not_after + state;
    const detail =
      `the certificate ${state}: renew it, replace its files, and reload (SIGHUP)`;
    log.warn("rep.tls.expiring", { not_after, detail });
  }

  /**
   * Called when the store fails, and when it is available again. Meanwhile, what needs it fails at once
   * ({@linkcode CircuitBreaker}), and then all repeated tasks make up for that: they read what was missed, publish what
   * could not be published, and store what was counted in memory.
   */
  #handleStoreChange(failure: Error | undefined): void {
    const { log } = this.#options;
    if (failure !== undefined) {
      return log.error("rep.store.down", {
        detail:
          `limits are counted in memory, changes wait: ${failure.message}`,
      });
    }
    log.info("rep.store.up", { detail: "the store is available again" });
    this.#tasks.runAll();
  }

  /** Stores the session keys that were counted in memory. */
  async #saveCounts(): Promise<void> {
    const clients = await this.rateLimit.save();
    if (clients > 0) {
      this.#options.log.info("rep.rate_limit.saved", { clients });
    }
  }
}

type CreateChanges = (options: ChangesOptions) => Changes;
