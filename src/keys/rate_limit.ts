import type { Store } from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import { ClientWindows } from "./client_windows.ts";
import { rendezvous } from "./rendezvous.ts";
import type { RateDecision } from "./sliding_window.ts";
import { sweepWindows } from "./sweep_windows.ts";

/** Options of {@linkcode RateLimit}. */
interface RateLimitOptions {
  /**
   * The stores of the windows, by name. The name decides which clients a store has, so it has to be the same in all
   * processes; the order does not matter.
   */
  stores: ReadonlyMap<string, Store>;
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  /** How many requests per client are allowed in any window. */
  limit: number;
}

/** One of the stores. */
interface Shard {
  readonly store: Store;
  readonly windows: ClientWindows;
}

/**
 * A rate limit with a sliding window per client (endpoint specification, Limits). The windows are in the stores: the
 * limit is exact across all processes and survives a restart. While a store is unavailable or behind, each process
 * counts its clients in memory.
 */
export class RateLimit {
  readonly #clock: Clock;
  readonly #shards: readonly Shard[];
  readonly #shardOf: (client: string) => number;
  #saving: Promise<number> | undefined;

  constructor({ stores, ...options }: RateLimitOptions) {
    this.#clock = options.clock;
    this.#shards = [...stores.values()].map((store) => ({ store, windows: new ClientWindows({ store, ...options }) }));
    this.#shardOf = rendezvous([...stores.keys()]);
  }

  /**
   * Returns the rejection of a client that this process knows to be over the limit, without waiting; `undefined` if
   * {@linkcode take} has to decide.
   */
  rejection(client: string): RateDecision | undefined {
    return this.#windowsOf(client).rejection(client);
  }

  /** Counts a request of a client if it is within the limit. */
  async take(client: string): Promise<RateDecision> {
    const windows = this.#windowsOf(client);
    return windows.rejection(client) ?? await windows.take(client);
  }

  /**
   * Stores what was counted in memory while a store was unavailable or behind, so that other processes count it, too.
   * Calls during a call share it.
   *
   * @returns The number of clients whose windows were stored.
   * @throws {StoreUnavailableError} If a store is unavailable; its clients are stored by a later call.
   */
  save(): Promise<number> {
    return this.#saving ??= this.#saveAll().finally(() => this.#saving = undefined);
  }

  /**
   * Removes the clients without requests in the last window from the stores; see {@linkcode sweepWindows}.
   *
   * @throws {StoreUnavailableError} If a store is unavailable; the others are swept.
   */
  async sweep(): Promise<void> {
    await allSettled(this.#shards.map(({ store }) => sweepWindows(store, this.#clock)));
  }

  async #saveAll(): Promise<number> {
    const counts = await allSettled(this.#shards.map(({ windows }) => windows.save()));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  #windowsOf(client: string): ClientWindows {
    return this.#shards[this.#shardOf(client)]!.windows;
  }
}

/** Waits for all promises, then returns their results or throws the first error. */
async function allSettled<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(promises);
  return await Promise.all(promises);
}
