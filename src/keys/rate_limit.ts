import type { RetryOptions } from "../store/retry.ts";
import { type Store, StoreUnavailableError } from "../store/store.ts";
import { type EntryUpdate, updateEntries } from "../store/update_entries.ts";
import { SizeBoundedCache } from "../values/size_bounded_cache.ts";
import { slices } from "../values/slices.ts";
import { BatchQueue } from "./batch_queue.ts";
import {
  addRequest,
  decide,
  keepRecent,
  mergeWindows,
  type PackedWindow,
  packWindow,
  type RateDecision,
  unpackWindow,
  type Window,
} from "./sliding_window.ts";
import { sweepWindows, windowKey } from "./sweep_windows.ts";

/** Options of {@linkcode RateLimit}. */
interface RateLimitOptions extends RetryOptions {
  store: Store;
  /** How many requests per client are allowed in any window. */
  limit: number;
}

/** A request that waits for the store. */
interface PendingRequest {
  readonly since: number;
  readonly resolve: (decision: RateDecision) => void;
  readonly reject: (error: unknown) => void;
}

/** The requests of each client that are counted in one commit. */
type Batch = ReadonlyMap<string, readonly PendingRequest[]>;

/** The window of one client, and what becomes of it. */
interface WindowUpdate extends EntryUpdate<PackedWindow> {
  readonly clientKey: string;
  /** To be called once it is stored. */
  readonly onStored: () => void;
}

/** How many clients are kept in memory, so that an attacker with many addresses cannot exhaust it. */
const MAX_CLIENTS_IN_MEMORY = 10_000;
/**
 * The store is behind if so many requests wait for it and the oldest has waited for so long. Further ones are counted
 * in memory at once: they would wait for the timeout, and then be counted in memory all the same.
 */
const MAX_WAITING = 32;
const MAX_WAIT_MS = 250;
/** A commit of Deno KV accepts 800 KiB. A window takes less than this for each request, and for its key. */
const MAX_COMMIT_BYTES = 600_000;
const REQUEST_BYTES = 6;
const KEY_BYTES = 100;

/**
 * A rate limit with a sliding window per client (endpoint specification, Limits). The windows are in the store: the
 * limit is exact across all processes and survives a restart. While the store is unavailable or behind, each process
 * counts in memory.
 *
 * Requests that arrive while a commit is under way are counted together in the next one. The windows of clients that
 * this process does not know are read first only if the last ones had been known to other processes.
 */
export class RateLimit {
  readonly #options: RateLimitOptions;
  readonly #windows = new SizeBoundedCache<Window>(MAX_CLIENTS_IN_MEMORY);
  readonly #queue: BatchQueue<PendingRequest>;
  /** Clients with requests that are counted in memory only. */
  readonly #unsaved = new Set<string>();
  /** The requests that wait for the store, the oldest first. */
  readonly #waiting = new Set<PendingRequest>();
  /** Whether the last clients that were not in memory had no window in the store either. */
  #areClientsNew = true;

  constructor(options: RateLimitOptions) {
    this.#options = options;
    this.#queue = new BatchQueue({
      maxSize: () => this.#maxClients,
      run: (batch) => this.#countBatch(batch),
    });
  }

  /**
   * Counts a request of a client if it is within the limit.
   *
   * @returns The decision without a promise if it does not depend on the store: this process knows that the client is
   * over the limit, or the store is behind.
   */
  take(clientKey: string): RateDecision | Promise<RateDecision> {
    const window = this.#known(clientKey);
    const decision = this.#decide(window);
    if (!decision.isAllowed) return decision;
    if (!this.#isStoreBehind()) return this.#takeFromStore(clientKey);
    this.#countInMemory(clientKey, window);
    return decision;
  }

  /**
   * Stores what was counted in memory only, so that other processes count it, too.
   *
   * @returns The number of clients whose windows were stored.
   * @throws {StoreUnavailableError} If the store is unavailable; the remaining clients are stored by a later call.
   */
  async save(): Promise<number> {
    const clients = [...this.#unsaved];
    for (const slice of slices(clients, this.#maxClients)) {
      await this.#saveBatch(slice);
    }
    return clients.length;
  }

  /**
   * Removes the clients without requests in the last window from the store; see {@linkcode sweepWindows}.
   *
   * @throws {StoreUnavailableError} If the store is unavailable.
   */
  sweep(): Promise<void> {
    return sweepWindows(this.#options.store, this.#options.clock);
  }

  #takeFromStore(clientKey: string): Promise<RateDecision> {
    const { promise, resolve, reject } = Promise.withResolvers<RateDecision>();
    const request = { since: this.#options.clock.monotonic(), resolve, reject };
    this.#waiting.add(request);
    this.#queue.add(clientKey, request);
    return promise;
  }

  #takeFromMemory(clientKey: string): RateDecision {
    const window = this.#known(clientKey);
    const decision = this.#decide(window);
    if (decision.isAllowed) this.#countInMemory(clientKey, window);
    return decision;
  }

  #countInMemory(clientKey: string, window: Window): void {
    if (this.#unsaved.size < MAX_CLIENTS_IN_MEMORY) {
      this.#unsaved.add(clientKey);
    }
    this.#windows.set(clientKey, addRequest(window, this.#options.clock.now()));
  }

  /** How many clients are counted in one commit. */
  get #maxClients(): number {
    const { store, limit } = this.#options;
    return Math.min(
      store.maxChecks,
      Math.max(
        1,
        Math.floor(MAX_COMMIT_BYTES / (limit * REQUEST_BYTES + KEY_BYTES)),
      ),
    );
  }

  #isStoreBehind(): boolean {
    if (this.#waiting.size < MAX_WAITING) return false;
    const [oldest] = this.#waiting;
    return oldest !== undefined &&
      this.#options.clock.monotonic() - oldest.since >= MAX_WAIT_MS;
  }

  /**
   * Counts a batch in one commit. A client for which that is not possible is counted alone: an error concerns only its
   * own requests.
   */
  async #countBatch(batch: Batch): Promise<void> {
    try {
      const areUnknown = batch.keys().every((clientKey) =>
        this.#windows.get(clientKey) === undefined
      );
      const found = new Set<string>();
      const updates = [...batch].map(([clientKey, requests]) =>
        this.#counting(clientKey, requests, found)
      );
      const contended = await this.#store(
        updates,
        areUnknown && this.#areClientsNew,
      );
      if (areUnknown) this.#areClientsNew = found.size === 0;
      await Promise.all(
        contended.map(({ clientKey }) => this.#countAlone(clientKey, batch)),
      );
    } catch (error) {
      if (error instanceof StoreUnavailableError) {
        this.#settle(
          batch,
          ({ resolve }, clientKey) => resolve(this.#takeFromMemory(clientKey)),
        );
      } else if (batch.size > 1) {
        await Promise.all(
          batch.keys().map((clientKey) => this.#countAlone(clientKey, batch)),
        );
      } else this.#settle(batch, ({ reject }) => reject(error));
    }
  }

  #countAlone(clientKey: string, batch: Batch): Promise<void> {
    return this.#countBatch(new Map([[clientKey, batch.get(clientKey) ?? []]]));
  }

  /** @returns The updates that have to be stored one by one, since other processes write the same windows. */
  async #store(
    updates: readonly WindowUpdate[],
    areNew: boolean,
  ): Promise<readonly WindowUpdate[]> {
    const { store, clock, random } = this.#options;
    const contended = await updateEntries<PackedWindow, WindowUpdate>(
      store,
      updates,
      { clock, random, areNew },
    );
    for (const update of updates) {
      if (!contended.includes(update)) update.onStored();
    }
    return contended;
  }

  /** @param found Collects the clients that have a window in the store. */
  #counting(
    clientKey: string,
    requests: readonly PendingRequest[],
    found: Set<string>,
  ): WindowUpdate {
    let decisions: RateDecision[] = [];
    let window: Window = [];
    const update = (stored?: PackedWindow) => {
      if (stored !== undefined) found.add(clientKey);
      const before = window = this.#merge(clientKey, stored ?? []);
      if (before.length > 0) this.#windows.set(clientKey, before); // if the commit fails, counting in memory starts from here
      decisions = requests.map(() => {
        const decision = this.#decide(window);
        if (decision.isAllowed) {
          window = addRequest(window, this.#options.clock.now());
        }
        return decision;
      });
      return window === before ? undefined : packWindow(window);
    };
    const onStored = () => {
      this.#windows.set(clientKey, window);
      this.#settle(
        new Map([[clientKey, requests]]),
        ({ resolve }) => resolve(decisions.shift()!),
      );
    };
    return { clientKey, key: windowKey(clientKey), update, onStored };
  }

  async #saveBatch(clients: readonly string[]): Promise<void> {
    const contended = await this.#store(
      clients.map((clientKey) => this.#saving(clientKey)),
      false,
    );
    for (const update of contended) await this.#store([update], false);
  }

  #saving(clientKey: string): WindowUpdate {
    const update = (stored: PackedWindow = []) => {
      const window = this.#merge(clientKey, stored);
      return window.length === 0 ? undefined : packWindow(window);
    };
    return {
      clientKey,
      key: windowKey(clientKey),
      update,
      onStored: () => void this.#unsaved.delete(clientKey),
    };
  }

  #settle(
    batch: Batch,
    settle: (request: PendingRequest, clientKey: string) => void,
  ): void {
    for (const [clientKey, requests] of batch) {
      for (const request of requests) {
        this.#waiting.delete(request);
        settle(request, clientKey);
      }
    }
  }

  /** What this process knows of a client's window. */
  #known(clientKey: string): Window {
    return keepRecent(
      this.#windows.get(clientKey) ?? [],
      this.#options.clock.now(),
    );
  }

  /** Adds what this process has counted to the stored window. */
  #merge(clientKey: string, stored: PackedWindow): Window {
    return mergeWindows(
      this.#known(clientKey),
      keepRecent(unpackWindow(stored), this.#options.clock.now()),
    );
  }

  #decide(window: Window): RateDecision {
    return decide(window, this.#options.clock.now(), this.#options.limit);
  }
}
