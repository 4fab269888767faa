import {
  type Store,
  StoreIncompatibleError,
  StoreUnavailableError,
} from "../../store/store.ts";
import { type Clock, sleep } from "../../values/clock.ts";
import type { StoredEnvironment } from "../variables/snapshot.ts";
import { storedEnvironment } from "./stored_variables.ts";

interface StoredVariablesOptions {
  store: Store;
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  /** Ends {@linkcode StoredVariablesSource.follow} when it is aborted. */
  signal: AbortSignal;
}

/**
 * All processes notice a write at the same time. Each waits for a random time of up to this before it reloads, so that
 * the first one publishes the change and the others find it published (`docs/scale.md`).
 */
const MAX_RELOAD_DELAY_MS = 500;

/**
 * The variables in the store as one of the gateway's sources. It keeps what it read last, so that values of the
 * environment or the manifest do not replace them while the store is unavailable.
 */
export class StoredVariablesSource {
  readonly #options: StoredVariablesOptions;
  #known: StoredEnvironment | undefined;
  #failure: StoreUnavailableError | undefined;
  /** The id that was passed to the last call of {@linkcode follow}. */
  #newestWrite = 0;
  /** The id of the newest write that a reload has read. */
  #followedWrite = 0;
  #isFollowing = false;

  constructor(options: StoredVariablesOptions) {
    this.#options = options;
  }

  /** Why the last read failed; `undefined` if it succeeded. */
  get failure(): StoreUnavailableError | undefined {
    return this.#failure;
  }

  /**
   * Reads the variables. If the store is unavailable, it returns those that it read last; `undefined` if it has never
   * read any.
   *
   * @throws {StoreIncompatibleError} If it has never read any, and no attempt ever will: a start ends with it.
   */
  async read(): Promise<StoredEnvironment | undefined> {
    try {
      this.#known = await storedEnvironment(this.#options.store);
      this.#failure = undefined;
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      const isKnown = this.#known !== undefined;
      if (error instanceof StoreIncompatibleError && !isKnown) throw error;
      this.#failure = error; // the circuit breaker logs it
    }
    return this.#known;
  }

  /**
   * Reloads if there are new writes, or if the variables have never been read. A call during another call returns at
   * once, since the reload of the other call may take long; the other call then reloads once more.
   *
   * A write is followed once a reload has read it, even if the reload was rejected. In that case the write conflicts with
   * the last valid sources or with other variables in the store, and a change of either causes a reload anyway.
   *
   * @param newestWrite The id of the newest write in the store.
   * @param reload Reloads the configuration, which calls {@linkcode read}. It must not reject.
   * @throws {StoreUnavailableError} If the variables could not be read. The next call tries again.
   */
  async follow(
    newestWrite: number,
    reload: () => Promise<void>,
  ): Promise<void> {
    this.#newestWrite = newestWrite;
    const isFollowed = newestWrite === this.#followedWrite; // not `<=`: in an emptied database, ids start again
    const isKnown = this.#known !== undefined;
    if (this.#isFollowing || (isFollowed && isKnown)) return;
    this.#isFollowing = true;
    await this.#reloadUntilFollowed(reload)
      .finally(() => this.#isFollowing = false);
  }

  async #reloadUntilFollowed(reload: () => Promise<void>): Promise<void> {
    const { clock, random, signal } = this.#options;
    do {
      await sleep(random() * MAX_RELOAD_DELAY_MS, clock, {
        signal,
        isBackground: true,
      });
      if (signal.aborted) return;
      const read = this.#newestWrite; // the reload may read later writes as well
      await reload();
      if (this.#failure !== undefined) throw this.#failure;
      this.#followedWrite = read;
    } while (this.#newestWrite !== this.#followedWrite);
  }
}
