import { retryConflicts } from "../store/commits.ts";
import {
  type Check,
  type Entry,
  type Key,
  type Store,
  StoreUnavailableError,
  withTimeout,
  type Write,
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
  WINDOW_MS,
} from "./sliding_window.ts";

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
  /** When it arrived, in milliseconds since the Unix epoch. */
  readonly at: number;
  readonly outcome: PromiseWithResolvers<RateDecision>;
}

/** Clients to be counted in one commit, each with its requests, or with none if only its window is to be stored. */
type Batch = ReadonlyMap<string, readonly WaitingRequest[]>;

type Decisions = Map<WaitingRequest, RateDecision>;

/** How many clients are kept in memory, so that an attacker with many addresses cannot exhaust it. */
const MAX_CLIENTS = 10_000;
/** How long a request waits for the store: a page that waits for its key is worse than a limit that is late. */
const MAX_WAIT_MS = 1_000;
/**
 * If the oldest request has waited for so long, further ones are counted in memory at once. Otherwise a store that gets
 * more requests than it can count would count nearly all of them too late, and each would have waited in vain.
 */
const MAX_LAG_MS = 500;
/** A commit of Deno KV accepts 800 KiB, and a time takes nine bytes. */
const MAX_TIMES_IN_COMMIT = 50_000;

const KEY_PREFIX = "rate";
/** When the windows were last swept. */
const SWEPT_AT = ["swept"];
/** How many windows a sweep reads at a time. */
const PAGE_SIZE = 500;

/**
 * A rate limit with a sliding window per client (endpoint specification, Limits). The windows are in the store, and a
 * commit checks that nobody else has written those it changes: so the limit is exact across all processes, and survives
 * a restart.
 *
 * A process has one commit under way at a time. Requests that arrive meanwhile are counted together in the next one, so
 * that neither those of one client compete for its window, nor those of many clients for the disk.
 *
 * Memory has a copy of the windows. A client that it shows to be over the limit is rejected without the store. If the
 * store fails or is slow, the request is counted in memory, and {@linkcode save} tells the store later: meanwhile each
 * process allows as many requests as the limit. A request counts twice if its commit succeeds after all.
 */
export class RateLimit {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #limit: number;
  /** What memory knows of each client. */
  readonly #windows = new SizeBoundedCache<Window>(MAX_CLIENTS);
  /** Clients with requests that are counted in memory only. */
  readonly #unsaved = new Set<string>();
  /** The requests that wait for the store, in order of arrival. */
  readonly #waiting = new Set<WaitingRequest>();
  #lastTurn: Promise<void> = Promise.resolve();

  constructor({ store, clock, random, limit }: RateLimitOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#random = random;
    this.#limit = limit;
  }

  /** Counts a request of a client if it is within the limit. Takes about a second at most. */
  async take(clientKey: string): Promise<RateDecision> {
    const known = this.#decideFromMemory(clientKey);
    if (!known.isAllowed) return known;
    if (this.#isStoreBehind()) return this.#countInMemory(clientKey);
    const at = this.#clock.now();
    const outcome = Promise.withResolvers<RateDecision>();
    const request = { clientKey, at, outcome };
    this.#waiting.add(request);
    void this.#inTurn(() => this.#countWaiting());
    try {
      return await withTimeout(outcome.promise, MAX_WAIT_MS, this.#clock);
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      return this.#countInMemory(clientKey);
    } finally {
      this.#waiting.delete(request);
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
      const batch = new Map(slice.map((clientKey) => [clientKey, []]));
      await this.#inTurn(() => this.#countInStore(batch));
      for (const clientKey of slice) this.#unsaved.delete(clientKey);
    }
    return clients.length;
  }

  /**
   * Removes the clients without requests in the last window from the store. One of all processes does so, once a minute.
   * It is not left to `expireIn`, since Deno KV crashes the process if the disk is full when an entry expires.
   *
   * @throws {StoreUnavailableError} If the store is unavailable.
   */
  async sweep(): Promise<void> {
    if (!await this.#isOurTurnToSweep()) return;
    let page: Entry<Window>[];
    let from = "";
    do {
      page = await this.#store.list([KEY_PREFIX], { from, limit: PAGE_SIZE });
      const now = this.#clock.now();
      const expired = page.filter((entry) => !recent(entry.value, now).length);
      for (const slice of slices(expired, this.#store.maxChecks)) {
        // If one of the windows has changed meanwhile, all of them stay until the next sweep.
        const checks = slice.map(({ key, version }) => ({ key, version }));
        const deletions = slice.map(({ key }) => ({ key }));
        await this.#store.commit(checks, deletions);
      }
      from = `${page.at(-1)?.key.at(-1)}\0`; // the next key after the last one
    } while (page.length === PAGE_SIZE);
  }

  /** Whether nobody has swept within the last minute. Of several processes that ask at once, one gets to commit. */
  async #isOurTurnToSweep(): Promise<boolean> {
    const now = this.#clock.now();
    const last = await this.#store.get<number>(SWEPT_AT);
    if (last && Math.abs(now - last.value) < WINDOW_MS) return false;
    const check = { key: SWEPT_AT, version: last?.version ?? null };
    const write = { key: SWEPT_AT, value: now };
    return await this.#store.commit([check], [write]) !== undefined;
  }

  #decideFromMemory(clientKey: string): RateDecision {
    const window = this.#windowOf(clientKey);
    return decide(window, this.#clock.now(), this.#limit);
  }

  #countInMemory(clientKey: string): RateDecision {
    const decision = this.#decideFromMemory(clientKey);
    if (!decision.isAllowed) return decision;
    const window = add(this.#windowOf(clientKey), this.#clock.now());
    this.#windows.set(clientKey, window);
    if (this.#unsaved.size < MAX_CLIENTS) this.#unsaved.add(clientKey);
    return decision;
  }

  /** What memory knows of a client's window. */
  #windowOf(clientKey: string): Window {
    return recent(this.#windows.get(clientKey) ?? [], this.#clock.now());
  }

  /** Adds what the store knows of a client's window to what memory knows. */
  #learn(clientKey: string, stored: Window): Window {
    const window = merge(this.#windowOf(clientKey), stored);
    this.#windows.set(clientKey, window);
    return window;
  }

  #isStoreBehind(): boolean {
    const [oldest] = this.#waiting;
    if (oldest === undefined) return false;
    return this.#clock.now() - oldest.at >= MAX_LAG_MS;
  }

  get #batchSize(): number {
    const fitting = Math.floor(MAX_TIMES_IN_COMMIT / this.#limit);
    return Math.min(this.#store.maxChecks, fitting);
  }

  /** Runs work after that of all earlier calls: two commits at a time could compete for the same window. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#lastTurn.then(work);
    this.#lastTurn = turn.catch(() => {}); // the caller handles the error
    return turn;
  }

  /** Counts the requests that have waited longest, if any still wait. It never rejects: their outcomes do. */
  async #countWaiting(): Promise<void> {
    const requests = [...this.#waiting.values().take(this.#batchSize)];
    if (requests.length === 0) return;
    try {
      const batch = Map.groupBy(requests, ({ clientKey }) => clientKey);
      await this.#countInStore(batch);
    } catch (error) {
      for (const { outcome } of requests) outcome.reject(error);
    }
    for (const request of requests) this.#waiting.delete(request);
  }

  async #countInStore(batch: Batch): Promise<void> {
    const options = { clock: this.#clock, random: this.#random };
    const attempt = () => this.#tryToCount(batch);
    const decisions = await retryConflicts(attempt, options);
    for (const [request, decision] of decisions) {
      request.outcome.resolve(decision);
    }
  }

  /** @returns The decisions about all requests, or `undefined` after a conflict with another process. */
  async #tryToCount(batch: Batch): Promise<Decisions | undefined> {
    const clients = [...batch.keys()];
    const entries = await this.#store.getMany<Window>(clients.map(windowKey));
    const now = this.#clock.now();
    const decisions: Decisions = new Map();
    const changed = new Map<string, Window>();
    const checks: Check[] = [];
    const writes: Write[] = [];
    for (const [index, clientKey] of clients.entries()) {
      const entry = entries[index];
      const stored = recent(entry?.value ?? [], now);
      let window = this.#learn(clientKey, stored); // if the commit fails, counting in memory goes on from here
      for (const request of batch.get(clientKey) ?? []) {
        const decision = decide(window, now, this.#limit);
        if (decision.isAllowed) window = add(window, now);
        decisions.set(request, decision);
      }
      if (window.length === stored.length) continue; // the store knows all of it
      const key = windowKey(clientKey);
      checks.push({ key, version: entry?.version ?? null });
      writes.push({ key, value: window.slice(-this.#limit) });
      changed.set(clientKey, window);
    }
    if (changed.size > 0) {
      const version = await this.#store.commit(checks, writes);
      if (version === undefined) return undefined;
    }
    for (const [clientKey, window] of changed) this.#learn(clientKey, window);
    return decisions;
  }
}

function windowKey(clientKey: string): Key {
  return [KEY_PREFIX, clientKey];
}
