import { type Store, StoreUnavailableError } from "../../store/store.ts";
import { type Clock, sleep } from "../../values/clock.ts";
import type { StoredEnvironment } from "../variables/snapshot.ts";
import { storedEnvironment } from "./stored_variables.ts";

/** Options of {@linkcode StoredVariablesSource}. */
interface StoredVariablesOptions {
  store: Store;
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  /** Ends {@linkcode StoredVariablesSource.follow} when it is aborted. */
  signal: AbortSignal;
}

/**
 * A write to the variables in the store reaches all processes at once. Each waits for a random time of up to this
 * before it reloads, so that most find the change published (`docs/scale.md`).
 */
const MAX_RELOAD_DELAY_MS = 500;

/**
 * The variables in the store as one of the gateway's sources. It keeps what it has read, so that the values of the
 * environment or the manifest do not become active again while the store is unavailable.
 */
export class StoredVariablesSource {
  readonly #options: StoredVariablesOptions;
  #known: StoredEnvironment | undefined;
  /** Why the last read failed. */
  #failure: StoreUnavailableError | undefined;
  /** The id of the newest write that is known, and of the one with which a reload has read the variables. */
  #newest = 0;
  #followed = 0;
  #isFollowing = false;

  constructor(options: StoredVariablesOptions) {
    this.#options = options;
  }

  /**
   * Reads and returns the variables. If the store is unavailable, it returns those that were read last, or `undefined` if
   * they have never been read.
   */
  async read(): Promise<StoredEnvironment | undefined> {
    try {
      this.#known = await storedEnvironment(this.#options.store);
      this.#failure = undefined;
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error; // a StoreUnavailableError has been logged
      this.#failure = error;
    }
    return this.#known;
  }

  /**
   * Reloads after writes, once for all since the last reload, and also if the variables have never been read. A call
   * during a call does not wait for it, since its reload may take long.
   *
   * @param newest The id of the newest write.
   * @param reload Reloads the configuration, which reads the variables. It must not reject.
   * @throws {StoreUnavailableError} If they could not be read. The next call tries again.
   */
  async follow(newest: number, reload: () => Promise<void>): Promise<void> {
    this.#newest = newest;
    const isFollowed = newest === this.#followed; // not `<=`: ids start again if the database is emptied
    const isKnown = this.#known !== undefined;
    if (this.#isFollowing || (isFollowed && isKnown)) return;
    this.#isFollowing = true;
    await this.#reload(reload).finally(() => this.#isFollowing = false);
  }

  async #reload(reload: () => Promise<void>): Promise<void> {
    const { clock, random, signal } = this.#options;
    do {
      await sleep(random() * MAX_RELOAD_DELAY_MS, clock, {
        signal,
        isBackground: true,
      });
      if (signal.aborted) return;
      const newest = this.#newest;
      await reload();
      if (this.#failure !== undefined) throw this.#failure;
      this.#followed = newest;
    } while (this.#newest !== this.#followed);
  }
}
