import { retryConflicts } from "../store/retry.ts";
import {
  type Entry,
  type Store,
  StoreUnavailableError,
  withTimeout,
} from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import { SizeBoundedCache } from "../values/size_bounded_cache.ts";
import { slices } from "../values/chunks.ts";
import {
  add,
  decide,
  merge,
  type RateDecision,
  recent,
  type Window,
} from "./sliding_window.ts";
import { sweepWindows, windowKey } from "./sweep_windows.ts";

/** Options of {@linkcode RateLimit}. */
interface RateLimitOptions {
  store: Store;
  clock: Clock;
  /** Returns a number in [0, 1), for the pauses between attempts. */
  random: () => number;
  /** How many requests of a client are allowed in any window. */
  limit: number;
}

/** A request that waits for the store. */
interface WaitingRequest {
  readonly clientKey: string;
  /** Since when, on the monotonic clock. */
  readonly since: number;
  /**
   * When it arrived, then when it was last tried to count it: milliseconds since the Unix epoch. If it waits for too long
   * and is counted in memory, while its commit succeeds after all, it counts once: it has the same time in both.
   */
  at: number;
  readonly outcome: PromiseWithResolvers<RateDecision>;
}

/** Clients to be counted in one commit, each with its requests, or with none if only its window is to be stored. */
type Batch = ReadonlyMap<string, readonly WaitingRequest[]>;

/** What becomes of one client's window in a commit. */
interface WindowUpdate {
  readonly clientKey: string;
  /** The version of the stored window; `null` if there is none. */
  readonly version: string | null;
  /** Whether the store lacks a request. */
  readonly isChanged: boolean;
  readonly window: Window;
  readonly decisions: ReadonlyMap<WaitingRequest, RateDecision>;
}

/** How many clients are kept in memory, so that an attacker with many addresses cannot exhaust it. */
const MAX_CLIENTS_IN_MEMORY = 10_000;
/** How long a request waits for the store: a page that waits for its key is worse than a limit that is late. */
const MAX_WAIT_MS = 1_000;
/**
 * If the oldest request has waited for so long, further ones are counted in memory at once. Without this, a store that
 * gets more requests than it can count would count nearly all of them too late, and each would have waited in vain.
 */
const MAX_LAG_MS = 500;
/** A commit of Deno KV accepts 800 KiB, and a time takes nine bytes. */
const MAX_TIMES_IN_COMMIT = 50_000;

/**
 * A rate limit with a sliding window per client (endpoint specification, Limits). The windows are in the store, and a
 * commit checks that nobody else has written the ones it changes: so the limit is exact across all processes, and
 * survives a restart.
 *
 * A process has one commit under way at a time. Requests that arrive meanwhile are counted together in the next one, so
 * that neither those of one client compete for its window, nor those of many clients for the disk.
 *
 * Memory has a copy of the windows. A client that it shows to be over the limit is rejected without the store. If the
 * store fails or takes too long, the request is counted in memory, and {@linkcode save} tells the store later: meanwhile
 * each process allows as many requests as the limit.
 */
export class RateLimit {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #limit: number;
  readonly #windows = new SizeBoundedCache<Window>(MAX_CLIENTS_IN_MEMORY);
  /** Clients with requests that are counted in memory, but not in the store. */
  readonly #unsaved = new Set<string>();
  /** In order of arrival. A request leaves when it is decided, or has waited for too long. */
  readonly #waiting = new Set<WaitingRequest>();
  /** Since when the batch under way is, or waits for its turn, on the monotonic clock. */
  #batchStartedAt: number | undefined;
  #lastBatch: Promise<void> = Promise.resolve();

  constructor({ store, clock, random, limit }: RateLimitOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#random = random;
    this.#limit = limit;
  }

  /** Counts a request of a client if it is within the limit. Takes about a second at most. */
  async take(clientKey: string): Promise<RateDecision> {
    const at = this.#clock.now();
    const known = decide(this.#known(clientKey), at, this.#limit);
    if (!known.isAllowed) return known;
    if (this.#isStoreBehind()) return this.#takeFromMemory(clientKey, at);
    const outcome = Promise.withResolvers<RateDecision>();
    const since = this.#clock.monotonic();
    const request = { clientKey, since, at, outcome };
    try {
      return await this.#takeFromStore(request);
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      return this.#takeFromMemory(clientKey, request.at);
    }
  }

  /**
   * Stores what was counted in memory only, so that other processes count it, too.
   *
   * @returns The number of clients whose windows were stored.
   * @throws {StoreUnavailableError} If the store is unavailable; the remaining clients are stored by a later call.
   */
  async save(): Promise<number> {
    const clients = [...this.#unsaved];
    for (const slice of slices(clients, this.#batchSize)) {
      await this.#countInStore(new Map(slice.map((client) => [client, []])));
    }
    return clients.length;
  }

  /**
   * Removes the clients without requests in the last window from the store; see {@linkcode sweepWindows}.
   *
   * @throws {StoreUnavailableError} If the store is unavailable.
   */
  async sweep(): Promise<void> {
    await sweepWindows(this.#store, this.#clock);
  }

  #takeFromMemory(clientKey: string, at: number): RateDecision {
    const window = this.#known(clientKey);
    const decision = decide(window, at, this.#limit);
    if (!decision.isAllowed) return decision;
    this.#windows.set(clientKey, add(window, at).slice(-this.#limit));
    if (this.#unsaved.size < MAX_CLIENTS_IN_MEMORY) {
      this.#unsaved.add(clientKey);
    }
    return decision;
  }

  async #takeFromStore(request: WaitingRequest): Promise<RateDecision> {
    const { promise } = request.outcome;
    this.#waiting.add(request);
    void this.#countWaiting();
    try {
      return await withTimeout(promise, MAX_WAIT_MS, this.#clock);
    } finally {
      this.#waiting.delete(request);
    }
  }

  /** Whether the oldest request, or the batch under way, whose requests may have given up, waits for too long. */
  #isStoreBehind(): boolean {
    const [oldest] = this.#waiting;
    const since = oldest?.since ?? this.#batchStartedAt ?? Infinity;
    return this.#clock.monotonic() - since >= MAX_LAG_MS;
  }

  /** Counts the waiting requests, one batch after the other, unless that is under way already. It never rejects. */
  async #countWaiting(): Promise<void> {
    if (this.#batchStartedAt !== undefined) return;
    while (this.#waiting.size > 0) {
      this.#batchStartedAt = this.#clock.monotonic();
      const requests = [...this.#waiting.values().take(this.#batchSize)];
      try {
        await this.#countInStore(
          Map.groupBy(requests, ({ clientKey }) => clientKey),
        );
      } catch (error) {
        for (const { outcome } of requests) outcome.reject(error);
      }
      for (const request of requests) this.#waiting.delete(request);
    }
    this.#batchStartedAt = undefined;
  }

  get #batchSize(): number {
    const fitting = Math.floor(MAX_TIMES_IN_COMMIT / this.#limit);
    return Math.min(this.#store.maxChecks, fitting);
  }

  /** Waits for its turn, after the last batch: two at a time could compete for the same window. */
  async #countInStore(batch: Batch): Promise<void> {
    const counting = this.#lastBatch.then(() => this.#countBatch(batch));
    this.#lastBatch = counting.catch(() => {}); // the caller of that batch handles the error
    await counting;
  }

  async #countBatch(batch: Batch): Promise<void> {
    const updates = await retryConflicts(
      () => this.#tryToCount(batch),
      { clock: this.#clock, random: this.#random },
    );
    for (const { clientKey, window, decisions } of updates) {
      this.#rememberStored(clientKey, window);
      for (const [{ outcome }, decision] of decisions) {
        outcome.resolve(decision);
      }
    }
  }

  /** @returns What was committed, or `undefined` after a conflict with another process. */
  async #tryToCount(batch: Batch): Promise<WindowUpdate[] | undefined> {
    const clients = [...batch.keys()];
    const entries = await this.#store.getMany<Window>(clients.map(windowKey));
    const updates = clients.map((clientKey, index) =>
      this.#update(clientKey, batch.get(clientKey) ?? [], entries[index])
    );
    const changed = updates.filter(({ isChanged }) => isChanged);
    if (changed.length === 0) return updates;
    const checks = changed.map(({ clientKey, version }) => {
      return { key: windowKey(clientKey), version };
    });
    const writes = changed.map(({ clientKey, window }) => {
      return { key: windowKey(clientKey), value: window.slice(-this.#limit) };
    });
    const version = await this.#store.commit(checks, writes);
    return version === undefined ? undefined : updates;
  }

  /** Decides about those requests of a client that still wait, with what both the store and memory know of it. */
  #update(
    clientKey: string,
    requests: readonly WaitingRequest[],
    entry: Entry<Window> | undefined,
  ): WindowUpdate {
    const now = this.#clock.now();
    const stored = recent(entry?.value ?? [], now);
    let window = merge(this.#known(clientKey), stored);
    // If the commit fails, counting in memory goes on from here.
    this.#windows.set(clientKey, window.slice(-this.#limit));
    const decisions = new Map<WaitingRequest, RateDecision>();
    for (const request of requests) {
      if (!this.#waiting.has(request)) continue;
      request.at = now;
      const decision = decide(window, now, this.#limit);
      if (decision.isAllowed) window = add(window, now);
      decisions.set(request, decision);
    }
    const isChanged = window.length > stored.length;
    const version = entry?.version ?? null;
    return { clientKey, version, isChanged, window, decisions };
  }

  /** Adds a stored window to the one in memory, where further requests may have been counted meanwhile. */
  #rememberStored(clientKey: string, stored: Window): void {
    const window = merge(this.#known(clientKey), stored);
    this.#windows.set(clientKey, window.slice(-this.#limit));
    if (window.length === stored.length) this.#unsaved.delete(clientKey);
  }

  /** What memory knows of a client's window. */
  #known(clientKey: string): Window {
    return recent(this.#windows.get(clientKey) ?? [], this.#clock.now());
  }
}
