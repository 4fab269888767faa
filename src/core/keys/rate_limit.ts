import { chunk } from "@std/collections/chunk";
import { retryConflicts } from "../store/commits.ts";
import {
  type Entry,
  type Key,
  type Store,
  StoreUnavailableError,
  withTimeout,
} from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import { SizeBoundedCache } from "../values/size_bounded_cache.ts";

/** Options of {@linkcode RateLimit}. */
interface RateLimitOptions {
  store: Store;
  clock: Clock;
  /** Returns a number in [0, 1), for the pauses between attempts. */
  random: () => number;
  /** How many requests of a client are allowed in any window. */
  limit: number;
}

/** The outcome of a request. */
export interface RateDecision {
  readonly isAllowed: boolean;
  /** How many requests of the client count towards the limit, this one included if it is allowed. */
  readonly used: number;
  /** After how many milliseconds the next request is allowed; 0 if this one is. */
  readonly retryAfterMs: number;
}

/** When the last requests of a client were allowed: milliseconds since the Unix epoch, ascending. */
type Window = readonly number[];

/** A request that waits for the store. */
interface WaitingRequest {
  readonly clientKey: string;
  /** When it arrived, in milliseconds since the Unix epoch. */
  readonly at: number;
  readonly outcome: PromiseWithResolvers<RateDecision>;
}

/** The length of the sliding window (endpoint specification, Limits). */
export const WINDOW_MS = 60_000;

/** How many clients are kept in memory, so that an attacker with many addresses cannot exhaust it. */
const MAX_CLIENTS = 10_000;
/** How long a request waits for the store: a page that waits for its key is worse than a late count. */
const MAX_WAIT_MS = 1_000;
/**
 * Once the oldest request has waited this long, further ones are counted in memory at once. Otherwise an overloaded
 * store would count nearly all requests too late, and each would have waited in vain.
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
 * A rate limit with a sliding window per client (endpoint specification, Limits). The windows are in the store, and
 * each commit checks that no other process has written the windows that it changes. So the limit is exact across all
 * processes, and survives a restart. The requests that arrive during a commit are counted together in the next one,
 * since each waits for the disk.
 *
 * Memory has a copy of the windows. If it shows that a client is over the limit, the request is rejected without the
 * store. If the store fails or is slow, the request is counted in memory, and the client's next one stores that, too;
 * until then, each process allows the full limit. A request counts twice if its commit succeeds after all.
 */
export class RateLimit {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #limit: number;
  readonly #batchSize: number;
  /** What memory knows of each client. */
  readonly #windows = new SizeBoundedCache<Window>(MAX_CLIENTS);
  /** The requests that wait for the store, in order of arrival. */
  readonly #waiting = new Set<WaitingRequest>();
  #isCounting = false;

  constructor({ store, clock, random, limit }: RateLimitOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#random = random;
    this.#limit = limit;
    const fitting = Math.floor(MAX_TIMES_IN_COMMIT / limit);
    this.#batchSize = Math.min(store.maxChecks, fitting);
  }

  /** Counts a request of a client if it is within the limit. Takes about a second at most. */
  async take(clientKey: string): Promise<RateDecision> {
    const now = this.#clock.now();
    const known = decide(this.#windowOf(clientKey), now, this.#limit);
    if (!known.isAllowed) return known;
    const [oldest] = this.#waiting;
    if (oldest !== undefined && now - oldest.at >= MAX_LAG_MS) {
      return this.#countInMemory(clientKey);
    }
    const outcome = Promise.withResolvers<RateDecision>();
    const request = { clientKey, at: now, outcome };
    this.#waiting.add(request);
    void this.#countWaiting();
    try {
      return await withTimeout(outcome.promise, MAX_WAIT_MS, this.#clock);
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      return this.#countInMemory(clientKey);
    }
  }

  #countInMemory(clientKey: string): RateDecision {
    const now = this.#clock.now();
    const window = this.#windowOf(clientKey);
    const decision = decide(window, now, this.#limit);
    if (!decision.isAllowed) return decision;
    this.#windows.set(clientKey, add(window, [now]));
    return decision;
  }

  /** Counts the requests that wait, one batch after the other. It never rejects: their outcomes do. */
  async #countWaiting(): Promise<void> {
    if (this.#isCounting) return;
    this.#isCounting = true;
    while (this.#waiting.size > 0) {
      const requests = [...this.#waiting.values().take(this.#batchSize)];
      const clients = requests.map(({ clientKey }) => clientKey);
      try {
        const decisions = await retryConflicts( // another process may commit first
          () => this.#tryToCount(clients),
          { clock: this.#clock, random: this.#random },
        );
        for (const [index, decision] of decisions.entries()) {
          requests[index]?.outcome.resolve(decision);
        }
      } catch (error) {
        for (const { outcome } of requests) outcome.reject(error);
      }
      for (const request of requests) this.#waiting.delete(request);
    }
    this.#isCounting = false;
  }

  /** Counts a request of each of these clients, which may repeat. Returns `undefined` if another process commits first. */
  async #tryToCount(
    requests: readonly string[],
  ): Promise<RateDecision[] | undefined> {
    const clients = [...new Set(requests)];
    const keys = clients.map(windowKey);
    const entries = await this.#store.getMany<Window>(keys);
    const now = this.#clock.now();
    const windows = new Map(clients.map((clientKey, index) => {
      const stored = entries[index]?.value ?? [];
      return [clientKey, this.#learn(clientKey, stored)]; // if the commit fails, memory goes on from here
    }));
    const decisions: RateDecision[] = [];
    for (const clientKey of requests) {
      const window = windows.get(clientKey) ?? [];
      const decision = decide(window, now, this.#limit);
      if (decision.isAllowed) windows.set(clientKey, add(window, [now]));
      decisions.push(decision);
    }
    const checks = keys.map((key, index) => {
      return { key, version: entries[index]?.version ?? null };
    });
    const writes = [...windows].map(([clientKey, window]) => {
      return { key: windowKey(clientKey), value: window.slice(-this.#limit) };
    });
    const version = await this.#store.commit(checks, writes);
    if (version === undefined) return undefined;
    for (const [clientKey, window] of windows) this.#learn(clientKey, window);
    return decisions;
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
      for (const some of chunk(expired, this.#batchSize)) {
        // If one of the windows has changed since, all of them stay until the next sweep.
        const checks = some.map(({ key, version }: Entry) => ({
          key,
          version,
        }));
        const deletions = some.map(({ key }: Entry) => ({ key }));
        await this.#store.commit(checks, deletions);
      }
      from = `${page.at(-1)?.key.at(-1)}\0`; // the next key after the last one
    } while (page.length === PAGE_SIZE);
  }

  /** Whether nobody has swept within the last minute. If several processes ask at once, one of them gets `true`. */
  async #isOurTurnToSweep(): Promise<boolean> {
    const now = this.#clock.now();
    const last = await this.#store.get<number>(SWEPT_AT);
    if (last && Math.abs(now - last.value) < WINDOW_MS) return false;
    const check = { key: SWEPT_AT, version: last?.version ?? null };
    const write = { key: SWEPT_AT, value: now };
    return await this.#store.commit([check], [write]) !== undefined;
  }

  /** What memory knows of a client's window. */
  #windowOf(clientKey: string): Window {
    return recent(this.#windows.get(clientKey) ?? [], this.#clock.now());
  }

  /** Adds what only memory knows to a client's window in the store. A time that is in both is the same request. */
  #learn(clientKey: string, stored: Window): Window {
    const times = new Set(stored);
    const others = this.#windowOf(clientKey).filter((at) => !times.has(at));
    const window = recent(add(stored, others), this.#clock.now());
    this.#windows.set(clientKey, window);
    return window;
  }
}

/** Decides whether a request is allowed in addition to the others in the window, all of which count. */
function decide(window: Window, at: number, limit: number): RateDecision {
  const first = window.at(-limit);
  if (first === undefined) {
    return { isAllowed: true, used: window.length + 1, retryAfterMs: 0 };
  }
  const retryAfterMs = Math.max(1, first + WINDOW_MS - at);
  return { isAllowed: false, used: window.length, retryAfterMs };
}

/**
 * Returns the times that still count. Times in the near future do: the clock of another process may be ahead. Later
 * times do not: the clock has been set back since, and the client would be rejected until they come again.
 */
function recent(window: Window, at: number): Window {
  return window.filter((time) => Math.abs(time - at) < WINDOW_MS);
}

/** Adds requests. They may be earlier than others, which were counted by a process whose clock is ahead. */
function add(window: Window, times: Window): Window {
  return [...window, ...times].sort((a, b) => a - b);
}

function windowKey(clientKey: string): Key {
  return [KEY_PREFIX, clientKey];
}
