import { BoundedMap } from "../bounded_map.ts";
import type { Clock } from "../clock.ts";
import { retryConflicts } from "../store/retry.ts";
import { type Check, type Entry, type Store, StoreUnavailableError } from "../store/store.ts";
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
  WINDOW_MS,
} from "./sliding_window.ts";

/** Options of {@linkcode RateLimit}. */
interface RateLimitOptions {
  store: Store;
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  /** How many requests per client are allowed in any window. */
  limit: number;
}

const KEY_PREFIX = "rate";
/** When the store was last swept, and the lease of the process that does it. */
const SWEPT_AT = ["swept"];
/** How many clients are kept in memory, so that an attacker with many addresses cannot exhaust it. */
const MAX_CLIENTS_IN_MEMORY = 10_000;
/**
 * The store is behind if so many requests wait for it and the oldest has waited for so long. Further ones are counted in memory at
 * once: they would wait for the timeout, and then be counted in memory all the same.
 */
const MAX_WAITING = 32;
const MAX_WAIT_MS = 250;
const SWEEP_PAGE = 500;
/** A `denokv` server accepts ten checks per commit. */
const MAX_CHECKS = 10;

/**
 * A rate limit with a sliding window per client (endpoint specification, Limits). The windows are in the store: the
 * limit is exact across all processes and survives a restart. While the store is unavailable, each process counts in
 * memory.
 *
 * Concurrent requests of one client are serialized, since N of them would otherwise need N² attempts to commit. A
 * client that is known to be over the limit is rejected without a request to the store.
 */
export class RateLimit {
  readonly #options: RateLimitOptions;
  readonly #windows = new BoundedMap<Window>(MAX_CLIENTS_IN_MEMORY);
  /** The last request in progress of each client. */
  readonly #queues = new Map<string, Promise<RateDecision>>();
  /** Clients with requests that are counted in memory only. */
  readonly #unsaved = new Set<string>();
  /** The requests that wait for the store, the oldest first. */
  readonly #waiting = new Set<{ readonly since: number }>();
  #saving: Promise<number> | undefined;

  constructor(options: RateLimitOptions) {
    this.#options = options;
  }

  /** Counts a request of a client if it is within the limit. */
  take(client: string): Promise<RateDecision> {
    const previous = this.#queues.get(client);
    const next = () => this.#take(client);
    const decision = previous ? previous.then(next, next) : next(); // an error concerns the previous request only
    this.#queues.set(client, decision);
    return decision.finally(() => {
      if (this.#queues.get(client) === decision) this.#queues.delete(client);
    });
  }

  /**
   * Stores what was counted in memory while the store was unavailable or behind, so that other processes count it, too. Calls during
   * a call share it.
   *
   * @returns The number of clients whose windows were stored.
   * @throws {StoreUnavailableError} If the store is unavailable; the remaining clients are stored by the next call.
   */
  save(): Promise<number> {
    return this.#saving ??= this.#saveAll().finally(() => this.#saving = undefined);
  }

  async #saveAll(): Promise<number> {
    const clients = [...this.#unsaved];
    for (const client of clients) {
      await retryConflicts(() => this.#save(client), this.#options);
      this.#unsaved.delete(client);
    }
    return clients.length;
  }

  /**
   * Removes the clients without requests in the last window from the store. One of all processes does so, once per
   * window. Not left to `expireIn`, since Deno KV crashes the process if the disk is full when an entry expires.
   *
   * @throws {StoreUnavailableError} If the store is unavailable.
   */
  async sweep(): Promise<void> {
    if (await this.#acquireSweepLease()) await this.#sweepFrom("");
  }

  async #take(client: string): Promise<RateDecision> {
    const known = this.#decide(this.#readFromMemory(client));
    if (!known.isAllowed) return known;
    if (this.#isStoreBehind()) return this.#takeFromMemory(client);
    const request = { since: this.#options.clock.now() };
    this.#waiting.add(request);
    try {
      return await retryConflicts(() => this.#takeFromStore(client), this.#options);
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      return this.#takeFromMemory(client);
    } finally {
      this.#waiting.delete(request);
    }
  }

  #isStoreBehind(): boolean {
    const [oldest] = this.#waiting;
    if (oldest === undefined || this.#waiting.size < MAX_WAITING) return false;
    return this.#options.clock.now() - oldest.since >= MAX_WAIT_MS;
  }

  async #takeFromStore(client: string): Promise<RateDecision | undefined> {
    const { check, window } = await this.#readFromStore(client);
    this.#windows.set(client, window); // if the commit fails, counting in memory starts from here
    const decision = this.#decide(window);
    if (!decision.isAllowed) return decision;
    const withRequest = addRequest(window, this.#options.clock.now());
    if (!await this.#write(check, withRequest)) return undefined;
    this.#windows.set(client, withRequest);
    return decision;
  }

  #takeFromMemory(client: string): RateDecision {
    if (this.#unsaved.size < MAX_CLIENTS_IN_MEMORY) this.#unsaved.add(client);
    const window = this.#readFromMemory(client);
    const decision = this.#decide(window);
    if (decision.isAllowed) this.#windows.set(client, addRequest(window, this.#options.clock.now()));
    return decision;
  }

  async #save(client: string): Promise<true | undefined> {
    const { check, window } = await this.#readFromStore(client);
    return await this.#write(check, window) || undefined;
  }

  #decide(window: Window): RateDecision {
    return decide(window, this.#options.clock.now(), this.#options.limit);
  }

  #readFromMemory(client: string): Window {
    return keepRecent(this.#windows.get(client) ?? [], this.#options.clock.now());
  }

  async #readFromStore(client: string): Promise<{ check: Check; window: Window }> {
    const key = [KEY_PREFIX, client];
    const entry = await this.#options.store.get<PackedWindow>(key);
    const window = mergeWindows(this.#windows.get(client) ?? [], unpackWindow(entry?.value ?? []));
    return {
      check: { key, version: entry?.version ?? null },
      window: keepRecent(window, this.#options.clock.now()),
    };
  }

  async #write(check: Check, window: Window): Promise<boolean> {
    const version = await this.#options.store.commit([check], [{ key: check.key, value: packWindow(window) }]);
    return version !== undefined;
  }

  /** Returns whether this process is the one that sweeps this time. */
  async #acquireSweepLease(): Promise<boolean> {
    const { store, clock } = this.#options;
    const last = await store.get<number>(SWEPT_AT);
    if (last !== undefined && Math.abs(clock.now() - last.value) < WINDOW_MS) return false;
    const check = { key: SWEPT_AT, version: last?.version ?? null };
    return await store.commit([check], [{ key: SWEPT_AT, value: clock.now() }]) !== undefined;
  }

  async #sweepFrom(from: string): Promise<void> {
    const { store, clock } = this.#options;
    const entries = await store.list<PackedWindow>([KEY_PREFIX], { from, limit: SWEEP_PAGE });
    const expired = entries.filter(({ value }) => keepRecent(unpackWindow(value), clock.now()).length === 0);
    for (let i = 0; i < expired.length; i += MAX_CHECKS) await this.#remove(expired.slice(i, i + MAX_CHECKS));
    const last = entries.at(-1)?.key.at(-1);
    if (entries.length === SWEEP_PAGE) await this.#sweepFrom(`${last}\0`);
  }

  /** Removes entries, unless one of them has changed meanwhile: then all stay until the next sweep. */
  async #remove(entries: readonly Entry[]): Promise<void> {
    const checks = entries.map(({ key, version }) => ({ key, version }));
    await this.#options.store.commit(checks, entries.map(({ key }) => ({ key })));
  }
}
