import { type Store, StoreUnavailableError } from "../store/store.ts";
import type { Environment } from "./classify.ts";
import { storedEnvironment } from "./stored_variables.ts";

/**
 * The variables in the store as one of the gateway's sources. It keeps what it has read, so that the values of the
 * environment or the manifest do not become active again while the store is unavailable.
 */
export class StoredVariablesSource {
  readonly #store: Store;
  #environment: Environment | undefined;
  #failure: StoreUnavailableError | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Whether the variables have ever been read. Until then, a snapshot without them must not be published. */
  get isKnown(): boolean {
    return this.#environment !== undefined;
  }

  /**
   * Reads and returns the variables. If the store is unavailable, it returns those that were read last, or none if they
   * have never been read.
   */
  async read(): Promise<Environment> {
    try {
      this.#environment = await storedEnvironment(this.#store);
      this.#failure = undefined;
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error; // a StoreUnavailableError has been logged
      this.#failure = error;
    }
    return this.#environment ?? {};
  }

  /**
   * Throws if the last {@linkcode read} returned what had been read before.
   *
   * @throws {StoreUnavailableError} If the store was unavailable.
   */
  throwIfStale(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }
}
