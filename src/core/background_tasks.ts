import type { Changes } from "./changes/changes.ts";
import type { Configuration } from "./config/configuration.ts";
import {
  newestWrite,
  VARIABLES_HEAD_KEY,
} from "./config/stored/stored_variables.ts";
import type { StoredVariablesSource } from "./config/stored/stored_variables_source.ts";
import type { OwnBuild } from "./own_build.ts";
import type { Epochs } from "./keys/epochs.ts";
import { type RateLimit, WINDOW_MS } from "./keys/rate_limit.ts";
import { type Log, logTaskError } from "./observe/log.ts";
import { type Key, type Store, StoreUnavailableError } from "./store/store.ts";
import { type Clock, every } from "./values/clock.ts";

/** How often to look for new events, and for new writes to the variables in the store. */
const NEWS_MS = 1_000;
/** How often to read and publish again while a snapshot waits. */
const PUBLISH_MS = 5_000;
/** How often to make sure that the store still has the master key. */
const MASTER_KEY_MS = 60_000;
/** How often to look whether another build is delivered, as long as no page is requested. */
const BUILD_MS = 5_000;

/** What the tasks work on. */
interface BackgroundTasksOptions {
  readonly store: Store;
  readonly build: OwnBuild;
  readonly epochs: Epochs;
  readonly rateLimit: RateLimit;
  /** `undefined` without hot reload. */
  readonly changes: Changes | undefined;
  readonly storedVariables: StoredVariablesSource;
  readonly configuration: Configuration;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends the tasks when it is aborted. */
  readonly signal: AbortSignal;
}

/** Does a task. */
type Task = () => unknown;

/**
 * What a gateway does beside answering requests, at intervals and on hints of the store. Errors of tasks are logged. An
 * outage of the store is logged only once.
 */
export class BackgroundTasks {
  readonly #options: BackgroundTasksOptions;
  /** Functions that immediately run the tasks that need the store. */
  readonly #catchUp: (() => Promise<void>)[] = [];

  constructor(options: BackgroundTasksOptions) {
    this.#options = options;
  }

  /** Starts all tasks. */
  start(): void {
    const { build, epochs, rateLimit, changes } = this.#options;
    this.#repeat(BUILD_MS, "build", () => build.look());
    this.#catchUp.push(
      this.#repeat(WINDOW_MS, "sweep", () => rateLimit.sweep()),
      this.#repeat(NEWS_MS, "poll", () => this.#findNews()),
      this.#repeat(MASTER_KEY_MS, "master key", () => epochs.keepMasterKey()),
    );
    this.#runOnHint(VARIABLES_HEAD_KEY, "reload", () => this.#findNewWrite());
    if (changes === undefined) return;
    const { eventsHeadKey, tail } = changes;
    // After a commit of this process, the list is empty. A look at the head first would cost every other hint a read.
    this.#runOnHint(eventsHeadKey, "poll", () => tail.readNew());
    this.#catchUp.push(
      this.#repeat(PUBLISH_MS, "publish", () => this.#publishWaiting()),
    );
  }

  /**
   * Called when the store is available again: reads what was missed, and publishes what could not be published. During
   * the outage, operations failed at once ({@linkcode CircuitBreaker}).
   */
  catchUp(): void {
    for (const run of this.#catchUp) void run();
  }

  /** Looks for new events, for new writes to the variables in the store, and for a new rollout. */
  async #findNews(): Promise<void> {
    const { changes, configuration, epochs } = this.#options;
    if (changes === undefined) return await this.#findNewWrite();
    const found = await changes.findNews();
    // None is awaited: reading the sources may take long, and the next look must not wait for that.
    void this.#run("rollout", () => changes.rollout.follow(found.highestRank));
    void this.#run("reload", () => this.#follow(found.newestWrite));
    if (!found.hasLostEvents) return;
    // It publishes the events again. The store may have lost variables and the master key as well.
    void configuration.readAgain();
    void this.#run("master key", () => epochs.keepMasterKey());
  }

  async #findNewWrite(): Promise<void> {
    await this.#follow(await newestWrite(this.#options.store));
  }

  /** Reads the variables again if one in the store has been written since. */
  async #follow(newestWrite: number): Promise<void> {
    const { configuration, storedVariables } = this.#options;
    await storedVariables.follow(newestWrite, () => configuration.readAgain());
  }

  async #publishWaiting(): Promise<void> {
    const { changes, configuration } = this.#options;
    if (changes?.publisher.isWaiting) await configuration.readAgain();
  }

  /** Runs a task every `ms` milliseconds, and returns a function that runs it at once. */
  #repeat(ms: number, name: string, task: Task): () => Promise<void> {
    const { clock, log, signal } = this.#options;
    const run = () => this.#run(name, task);
    const stop = every(ms, run, { clock, onError: logTaskError(log, name) });
    signal.addEventListener("abort", stop);
    return run;
  }

  /** Runs a task when the store hints that a key may have been written. */
  #runOnHint(key: Key, name: string, task: Task): void {
    const { store, signal } = this.#options;
    const stop = store.watch(key, () => void this.#run(name, task));
    signal.addEventListener("abort", stop);
  }

  /** Never rejects. */
  async #run(name: string, task: Task): Promise<void> {
    try {
      await task();
    } catch (error) {
      if (error instanceof StoreUnavailableError) return;
      logTaskError(this.#options.log, name)(error);
    }
  }
}
