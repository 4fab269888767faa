import { EventLog, EVENTS_HEAD_KEY } from "./changes/event_log.ts";
import { Hub } from "./changes/hub.ts";
import type { Publication } from "./changes/publisher.ts";
import { type ActiveConfiguration, Replica } from "./changes/replica.ts";
import { Tail } from "./changes/tail.ts";
import type { Snapshot, SnapshotInput } from "./config/snapshot.ts";
import { VARIABLES_HEAD_KEY } from "./config/stored.ts";
import { StoredSource } from "./config/stored_source.ts";
import { type PollNewestWrite, watchVariables } from "./config/watch_stored.ts";
import { Configuration, type Publish } from "./configuration.ts";
import { HEALTH_PROBLEMS, type HealthProblem } from "./endpoints/health.ts";
import type { ResolvedOptions } from "./gateway_options.ts";
import { Epochs } from "./keys/epochs.ts";
import { sharedMasterKey } from "./keys/master_key.ts";
import { RateLimit } from "./keys/rate_limit.ts";
import { WINDOW_MS } from "./keys/sliding_window.ts";
import { logTaskError } from "./observe/log.ts";
import type { GaugeValue } from "./observe/metrics.ts";
import { type CircuitBreakerStore, withCircuitBreaker } from "./store/circuit_breaker.ts";
import { StoreUnavailableError } from "./store/store.ts";
import { every, sleep, waitAtMost } from "./values/clock.ts";

/** How often a process reads new events, and probes a store that has failed. */
const POLL_MS = 1_000;
/**
 * A write to the variables in the store reaches all processes at once. Each waits for a random time of up to this
 * before it reloads, so that most find the change published: with 1,000 processes, 30 instead of 4,000 commits of
 * members (`docs/scale.md`).
 */
const MAX_RELOAD_DELAY_MS = 500;
/**
 * How long a shutdown waits for the store, and for a reload, whose sources may never answer: the other replicas notice a
 * missing heartbeat as well.
 */
const LEAVE_TIMEOUT_MS = 1_000;

/** Constants, so that a request for health creates no list, and compares one with `===`. */
const NO_PROBLEMS: readonly HealthProblem[] = [];
const CONFIG_REJECTED: readonly HealthProblem[] = ["config_rejected"];
const STORE_UNAVAILABLE: readonly HealthProblem[] = ["store_unavailable"];
const BOTH_PROBLEMS: readonly HealthProblem[] = ["config_rejected", "store_unavailable"];

/**
 * Everything that changes while the gateway runs: the store, the event log with its tail and its hub of streams, the
 * rollout, the configuration, and the polling that keeps them current.
 */
export class LiveConfiguration {
  readonly hub: Hub;
  readonly tail: Tail;
  readonly rateLimit: RateLimit;
  readonly epochs: Epochs;
  readonly #settings: ResolvedOptions;
  readonly #store: CircuitBreakerStore;
  readonly #eventLog: EventLog;
  readonly #stored: StoredSource;
  readonly #replica: Replica;
  readonly #configuration: Configuration;
  readonly #closing = new AbortController();
  #stopPolling: readonly (() => void)[] = [];
  #watching: Promise<unknown> = Promise.resolve();
  #leaving: Promise<void> | undefined;
  #polling: Promise<void> | undefined;
  /** Tells the watch of the stored variables the id of their newest write. */
  #reportWrite: (id: number) => void = () => {};
  /** The newest event whose loss was logged. */
  #loggedLoss: number | undefined;

  constructor(settings: ResolvedOptions) {
    const { clock, random, log, metrics, instanceId, masterKey, hotReload } = settings;
    this.#settings = settings;
    const onChange = (failure: Error | undefined) => this.#onStoreChange(failure);
    const store = withCircuitBreaker(settings.store, { clock, metrics, onChange });
    this.#store = store;
    this.#eventLog = new EventLog(store, { clock });
    this.tail = new Tail(this.#eventLog, (frames) => this.hub.deliver(frames));
    this.hub = new Hub(this.tail, settings);
    this.rateLimit = new RateLimit({ store, clock, random, limit: settings.sessionKeyMaxRate });
    this.epochs = new Epochs({
      clock,
      rotationMs: settings.keyRotationMs,
      retentionMs: settings.keyRetentionMs,
      masterKey: masterKey ? () => Promise.resolve(masterKey) : () => sharedMasterKey(store, settings),
    });
    this.#stored = new StoredSource(store);
    const { tail } = this;
    const eventLog = this.#eventLog;
    const onReactivated = () => void this.#configuration.publish();
    this.#replica = new Replica({ store, eventLog, tail, clock, random, log, instanceId, onReactivated });
    const publish: Publish = hotReload ? (...args) => this.#publish(...args) : () => Promise.resolve(NO_PUBLICATION);
    this.#configuration = new Configuration({ read: () => this.#readSources(), publish, clock, log, metrics });
    this.#observe();
  }

  /**
   * Reads the variables, then loads the master key, joins the rollout and publishes what changed. If the variables are
   * invalid, nothing outside the process has changed.
   *
   * @throws {ConfigurationError} If the variables are invalid.
   */
  async start(): Promise<void> {
    await this.#configuration.load();
    await this.#loadMasterKey();
    await this.#configuration.publish();
    this.#startPolling();
  }

  /** This process's variables. */
  get snapshot(): Snapshot {
    return this.#configuration.snapshot;
  }

  /** What pages are built from: the active configuration of all replicas, which may not be this process's. */
  get active(): ActiveConfiguration {
    const configuration = this.#configuration;
    return this.#settings.hotReload ? this.#replica.activeConfiguration(configuration) : configuration;
  }

  /** Why the gateway is degraded: the last reload was rejected, or the store is unavailable. */
  get problems(): readonly HealthProblem[] {
    if (this.#configuration.isRejected) return this.#store.isAvailable ? CONFIG_REJECTED : BOTH_PROBLEMS;
    return this.#store.isAvailable ? NO_PROBLEMS : STORE_UNAVAILABLE;
  }

  /** The number of changes that strict mode has rejected. */
  get blocked(): number {
    return this.#configuration.blocked;
  }

  /**
   * Reads all sources again.
   *
   * @throws {ConfigurationError} If the variables are invalid; then everything stays as it was.
   */
  reload(): Promise<void> {
    return this.#configuration.reload();
  }

  /** Leaves the rollout, so that the other replicas need not wait until this one's heartbeat is missing. */
  leave(): void {
    this.#leaving ??= this.#replica.leave();
  }

  /** Leaves the rollout, ends the streams that are left and the polling. The store stays open: its caller closes it. */
  async close(): Promise<void> {
    this.leave();
    await this.hub.close(0);
    for (const stop of this.#stopPolling) stop();
    this.#closing.abort();
    const { clock } = this.#settings;
    const ending = [this.#configuration.close(), this.#watching, this.#leaving];
    await waitAtMost(LEAVE_TIMEOUT_MS, Promise.all(ending), clock);
    await this.tail.close();
  }

  #observe(): void {
    const { metrics, hotReload } = this.#settings;
    metrics.observe("rep.streams.open", () => this.hub.size);
    metrics.observe("rep.store.up", () => Number(this.#store.isAvailable));
    metrics.observe("rep.health.problem", () => {
      return new Map(HEALTH_PROBLEMS.map((type) => [type, Number(this.problems.includes(type))]));
    });
    if (hotReload) metrics.observe("rep.rollout.active", () => activeRollout(this.#replica));
  }

  /** Precedence: the store, the environment, the env file, the manifest's defaults. */
  async #readSources(): Promise<SnapshotInput> {
    const [input, environment] = await Promise.all([this.#settings.read(), this.#stored.read()]);
    return { ...input, environment: { ...input.environment, ...environment } };
  }

  async #publish(snapshot: Snapshot, unpublished: ReadonlySet<string>): Promise<Publication | undefined> {
    if (this.#stored.isKnown) return await this.#replica.publish(snapshot, unpublished);
    throw new StoreUnavailableError("Cannot publish: the variables in the store have not been read yet");
  }

  /** Loaded early, so that a later outage of the store does not turn into rejected requests for session keys. */
  async #loadMasterKey(): Promise<void> {
    try {
      await this.epochs.keys(this.epochs.current());
    } catch (error) {
      this.#settings.log.debug("rep.master_key.not_loaded", { detail: `loading it with the first page: ${error}` });
    }
  }

  #startPolling(): void {
    const { clock, log, hotReload } = this.#settings;
    const repeat = (ms: number, name: string, task: () => Promise<unknown>) =>
      every(ms, () => this.#run(name, task), { clock, onError: logTaskError(log, name) });
    this.#stopPolling = [
      repeat(WINDOW_MS, "sweep", () => this.rateLimit.sweep()),
      repeat(POLL_MS, "probe", () => this.#store.probe()),
      repeat(POLL_MS, "save", () => this.#saveCounts()),
      ...(hotReload ? [repeat(POLL_MS, "poll", () => this.#poll()), this.#watchEvents()] : []),
    ];
    // Variables that could not be read at startup are a change, even if there are none.
    const after = this.#stored.isKnown ? 0 : -1;
    const { signal } = this.#closing;
    const poll: PollNewestWrite = (report) => {
      this.#reportWrite = report;
      return () => this.#reportWrite = () => {};
    };
    const options = { clock, signal, after, isBackground: true, poll: hotReload ? poll : undefined };
    this.#watching = watchVariables(this.#store, () => this.#reloadDelayed(), options);
  }

  #watchEvents(): () => void {
    return this.#eventLog.watch(() => void this.#run("poll", () => this.tail.readNew()));
  }

  async #reloadDelayed(): Promise<void> {
    const { clock, random } = this.#settings;
    const { signal } = this.#closing;
    await sleep(random() * MAX_RELOAD_DELAY_MS, clock, { signal, isBackground: true });
    if (!signal.aborted) await this.#reloadStored();
  }

  async #reloadStored(): Promise<void> {
    await this.#configuration.reload().catch(() => {}); // the log has the issues
    this.#stored.throwIfStale(); // the watch tries again
  }

  #onStoreChange(failure: Error | undefined): void {
    const { log } = this.#settings;
    if (failure === undefined) {
      log.info("rep.store.up", { detail: "the store is available again" });
      this.#recover();
    } else {
      log.error("rep.store.down", { detail: `limits are counted in memory, changes wait: ${failure.message}` });
    }
  }

  /** Makes up for what could not be done while the store was unavailable. */
  #recover(): void {
    if (this.#settings.hotReload) void this.#run("poll", () => this.#poll());
    if (this.#stored.isKnown) this.#configuration.retryNow();
    else void this.#run("reload", () => this.#reloadStored());
    void this.#run("save", () => this.#saveCounts());
  }

  /**
   * Compares the ids of the newest event and of the newest write to a variable with the known ones, which costs one
   * small read. An older event means that the store has lost events that were delivered, in a failover to a replica
   * that lagged behind: they are published again.
   *
   * Calls during a call share it: over KV Connect, each operation on an unreachable server stays pending.
   */
  #poll(): Promise<void> {
    return this.#polling ??= this.#pollOnce().finally(() => this.#polling = undefined);
  }

  async #pollOnce(): Promise<void> {
    const { head, isLoaded } = this.tail; // first: what another task reads meanwhile is newer than `newestEvent`
    if (!isLoaded) return await this.tail.readNew(); // streams wait for it
    const heads = await this.#store.getMany<{ id: number }>([EVENTS_HEAD_KEY, VARIABLES_HEAD_KEY]);
    const [newestEvent = 0, newestWrite = 0] = heads.map((entry) => entry?.value.id);
    this.#reportWrite(newestWrite);
    if (newestEvent > head) return await this.tail.readNew();
    if (newestEvent === head) return;
    this.#logLoss(head, newestEvent);
    await this.#reloadStored(); // the store may have lost variables as well
  }

  #logLoss(delivered: number, stored: number): void {
    if (delivered === this.#loggedLoss) return; // until the events are published, every poll finds the same
    this.#loggedLoss = delivered;
    const detail = "publishing them again: the store came back without the latest events";
    this.#settings.log.error("rep.store.lost_events", { detail, delivered, stored });
  }

  async #saveCounts(): Promise<void> {
    const clients = await this.rateLimit.save();
    if (clients > 0) this.#settings.log.info("rep.rate_limit.saved", { clients });
  }

  /** Runs a task in the background. An outage of the store is logged once, by {@linkcode #onStoreChange}. */
  async #run(name: string, task: () => Promise<unknown>): Promise<void> {
    try {
      await task();
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) logTaskError(this.#settings.log, name)(error);
    }
  }
}

/** How much of a hash identifies a configuration in a label. */
const HASH_LENGTH = 12;

function activeRollout({ active }: Replica): GaugeValue {
  if (active === undefined) return new Map();
  const configuration = active.hash.replace(/^sha256-/, "").slice(0, HASH_LENGTH);
  return new Map([[configuration, Number(active.isOwn)]]);
}

const NO_PUBLICATION: Publication = { events: [], head: 0 };
