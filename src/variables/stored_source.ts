import { type Store, StoreUnavailableError } from "../store/store.ts";
import type { Environment } from "./classify.ts";
import { storedEnvironment } from "./stored.ts";

/** The variables in the store, as one of the gateway's sources. */
export interface StoredSource {
  /** Whether they have been read at all: before that, a snapshot without them must not be published. */
  readonly isKnown: boolean;
  /**
   * Reads them.
   *
   * @throws {StoreUnavailableError} If the store does not answer.
   */
  refresh(): Promise<void>;
  /** Reads them; if the store does not answer, they are what they were, or nothing if they have never been read. */
  read(): Promise<Environment>;
  /**
   * Throws if the last reading failed.
   *
   * @throws {StoreUnavailableError} The error of the last reading.
   */
  throwIfStale(): void;
}

/**
 * Makes a source of the variables in a store. A store that is down for a while must not put the environment's values, or the
 * manifest's, back into force.
 */
export function storedSource(store: Store): StoredSource {
  let known: Environment | undefined;
  let failure: StoreUnavailableError | undefined;

  async function refresh(): Promise<void> {
    known = await storedEnvironment(store);
  }

  return {
    get isKnown() {
      return known !== undefined;
    },
    refresh,
    async read() {
      try {
        await refresh();
        failure = undefined;
      } catch (error) {
        if (!(error instanceof StoreUnavailableError)) throw error; // an outage is logged by the circuit breaker's owner
        failure = error;
      }
      return known ?? {};
    },
    throwIfStale() {
      if (failure !== undefined) throw failure;
    },
  };
}
