import type { Log } from "../../observe/log.ts";
import { retryConflicts } from "../../store/commits.ts";
import {
  type Store,
  StoreIncompatibleError,
  StoreUnavailableError,
} from "../../store/store.ts";
import { type Clock, sleep } from "../../values/clock.ts";
import {
  storedEnvironment,
  type StoredVariables,
  writeBackVariables,
} from "./stored_variables.ts";

interface StoredVariablesOptions {
  store: Store;
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  log: Log;
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
 * environment or the manifest do not replace them while the store is unavailable, or after it came back empty.
 */
export class StoredVariablesSource {
  readonly #options: StoredVariablesOptions;
  #known: StoredVariables | undefined;
  #emptiedAt: number | undefined;
  #failure: StoreUnavailableError | undefined;
  #isFollowing = false;

  constructor(options: StoredVariablesOptions) {
    this.#options = options;
  }

  /** Why the last read failed; `undefined` if it succeeded. */
  get failure(): StoreUnavailableError | undefined {
    return this.#failure;
  }

  /**
   * When it was found that the store had lost the variables, in milliseconds since the Unix epoch; `undefined` if it had
   * not, or somebody has asked for a reload since.
   */
  get emptiedAt(): number | undefined {
    return this.#emptiedAt;
  }

  /** Called when somebody asks for a reload: whoever looks at this gateway has seen the loss. */
  acknowledgeLoss(): void {
    this.#emptiedAt = undefined;
  }

  /**
   * Reads the variables. If the store is unavailable, it returns those that it read last; `undefined` if it has never
   * read any.
   *
   * @throws {StoreIncompatibleError} If it has never read any, and no attempt ever will: a start ends with it.
   */
  async read(): Promise<StoredVariables | undefined> {
    try {
      this.#known = await retryConflicts(
        () => this.#tryToRead(),
        this.#options,
      );
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
   * Variables that the store has lost are written back, by whichever replica is first. Each replica reports the loss.
   *
   * A store has lost them if it lacks their head, which `unset` keeps, or has another one. An older head is believed, since
   * it may be that of a restored backup. Ids say nothing, since the clock of whoever wrote first may be behind.
   *
   * @returns `undefined` if the variables have been written back, and have to be read again.
   */
  async #tryToRead(): Promise<StoredVariables | undefined> {
    const { store } = this.#options;
    const known = this.#known;
    const found = await storedEnvironment(store, known);
    if (!known?.version) return found;
    const { version, lineage } = found;
    const isOther = lineage !== undefined && lineage !== known.lineage;
    if (version !== null && !isOther) return found;
    this.#reportLoss(known);
    const mustReadAgain = await writeBackVariables(store, known, found);
    return mustReadAgain ? undefined : found;
  }

  #reportLoss({ variables }: StoredVariables): void {
    if (this.#emptiedAt !== undefined) return;
    this.#emptiedAt = this.#options.clock.now();
    const detail =
      "the store came back without the variables that were set: they are written back; send SIGHUP once you have seen this";
    this.#options.log.error("rep.store.emptied", {
      detail,
      variables: variables.length,
    });
  }

  /**
   * Reloads if there are writes that have not been read, or if the variables have never been read. It does nothing while
   * it is reloading, which may take long: what is written then is noticed a second later.
   *
   * A write is followed once it has been read, even if the reload was rejected. In that case the write conflicts with the
   * last valid sources or with other variables in the store, and a change of either causes a reload anyway.
   *
   * @param newestWrite The id of the newest write in the store.
   * @param reload Reloads the configuration, which calls {@linkcode read}. It must not reject.
   */
  async follow(
    newestWrite: number,
    reload: () => Promise<void>,
  ): Promise<void> {
    const { clock, random, signal } = this.#options;
    const isFollowed = newestWrite === this.#known?.newestWrite; // not `<=`: an older backup is followed as well
    if (this.#isFollowing || isFollowed) return;
    this.#isFollowing = true;
    const delayMs = random() * MAX_RELOAD_DELAY_MS;
    await sleep(delayMs, clock, { signal, isBackground: true });
    if (!signal.aborted) await reload();
    this.#isFollowing = false;
  }
}
