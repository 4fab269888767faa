import type { Clock } from "../clock.ts";
import { retryConflicts } from "../store/retry.ts";
import { type Entry, type Store, StoreUnavailableError } from "../store/store.ts";

/** Settings of {@linkcode createRateLimit}. */
export interface RateLimitOptions {
  store: Store;
  clock: Clock;
  random: () => number;
  /** How many requests a client has in any 60 seconds. */
  limit: number;
}

/** What became of a request. */
export interface RateDecision {
  readonly isAllowed: boolean;
  /** How many of the client's requests the window holds, this one included if it is allowed. */
  readonly used: number;
  /** When it is worth coming back; 0 if the request is allowed. */
  readonly retryAfterMs: number;
}

/** Counts requests a client. */
export interface RateLimit {
  /** Counts a request, or refuses it. */
  take(client: string): Promise<RateDecision>;
  /**
   * Writes down what was counted in memory while the store did not answer, so that other processes count it, too.
   *
   * @returns For how many clients.
   */
  save(): Promise<number>;
  /** Removes clients from the store that have not been seen for longer than the window. */
  sweep(): Promise<void>;
}

/** When each of a client's requests came. */
type Window = readonly number[];

/** A window as it is stored: the first time, then the differences. So 10,000 of them fit into the 64 KiB of a value. */
type PackedWindow = readonly number[];

const WINDOW_MS = 60_000;
const KEY_PREFIX = "rate";
/** How many clients this process remembers: an attacker with many addresses must not fill its memory. */
const MAX_REMEMBERED = 10_000;
const SWEEP_PAGE = 500;
const SWEPT_AT = ["swept"];
/** A `denokv` server takes ten in a commit. */
const MAX_CHECKS = 10;

/**
 * A sliding window in the store (spec, Limits): exact for all processes on it, and alive after a restart.
 *
 * Requests of one client wait for each other inside the process, or N at once would need N² tries at the same entry; a client
 * that is known to be over the limit is refused without the store. While the store does not answer, counting goes on in
 * memory.
 */
export function createRateLimit({ store, clock, random, limit }: RateLimitOptions): RateLimit {
  const windows = new BoundedMap<Window>(MAX_REMEMBERED);
  const queues = new Map<string, Promise<RateDecision>>();
  /** Clients that were counted in memory only. */
  const unsaved = new Set<string>();

  function take(client: string): Promise<RateDecision> {
    const before = queues.get(client);
    const next = () => decide(client);
    const decision = before ? before.then(next, next) : next(); // what befell the one before is not this one's fault
    queues.set(client, decision);
    return decision.finally(() => {
      if (queues.get(client) === decision) queues.delete(client);
    });
  }

  async function decide(client: string): Promise<RateDecision> {
    const known = recent(windows.get(client) ?? [], clock.now());
    if (known.length >= limit) return refusal(known, clock.now(), limit);
    try {
      return await retryConflicts(() => takeFromStore(client), { clock, random });
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      if (unsaved.size < MAX_REMEMBERED) unsaved.add(client);
      return remember(client, decideOn(recent(windows.get(client) ?? [], clock.now()), clock.now(), limit));
    }
  }

  async function save(): Promise<number> {
    const clients = [...unsaved];
    for (const client of clients) {
      await retryConflicts(() => saveWindow(client), { clock, random });
      unsaved.delete(client);
    }
    return clients.length;
  }

  async function saveWindow(client: string): Promise<string | undefined> {
    const key = [KEY_PREFIX, client];
    const entry = await store.get<PackedWindow>(key);
    const window = recent(merge(windows.get(client) ?? [], unpackWindow(entry?.value ?? [])), clock.now());
    return await store.commit([{ key, version: entry?.version ?? null }], [{ key, value: packWindow(window) }]);
  }

  async function takeFromStore(client: string): Promise<RateDecision | undefined> {
    const key = [KEY_PREFIX, client];
    const entry = await store.get<PackedWindow>(key);
    const window = recent(merge(windows.get(client) ?? [], unpackWindow(entry?.value ?? [])), clock.now());
    windows.set(client, window); // should the commit fail, counting goes on from here
    const decision = decideOn(window, clock.now(), limit);
    if (!decision.isAllowed) return remember(client, decision);
    const check = { key, version: entry?.version ?? null };
    const version = await store.commit([check], [{ key, value: packWindow(decision.window) }]);
    return version === undefined ? undefined : remember(client, decision);
  }

  function remember(client: string, decision: RateDecision & { window: Window }): RateDecision {
    windows.set(client, decision.window);
    const { isAllowed, used, retryAfterMs } = decision;
    return { isAllowed, used, retryAfterMs };
  }

  /**
   * Not by the store's own expiry: that one takes the process down when the disk is full. One process does it for all: each of
   * a thousand would list every client.
   */
  async function sweep(): Promise<void> {
    if (await takeTurn()) await sweepFrom("");
  }

  /** Whoever commits the minute's entry sweeps. */
  async function takeTurn(): Promise<boolean> {
    const last = await store.get<number>(SWEPT_AT);
    if (last !== undefined && Math.abs(clock.now() - last.value) < WINDOW_MS) return false;
    const check = { key: SWEPT_AT, version: last?.version ?? null };
    return await store.commit([check], [{ key: SWEPT_AT, value: clock.now() }]) !== undefined;
  }

  async function sweepFrom(from: string): Promise<void> {
    const entries = await store.list<PackedWindow>([KEY_PREFIX], { from, limit: SWEEP_PAGE });
    const dead = entries.filter(({ value }) => recent(unpackWindow(value), clock.now()).length === 0);
    for (let i = 0; i < dead.length; i += MAX_CHECKS) await remove(dead.slice(i, i + MAX_CHECKS));
    const last = entries.at(-1)?.key.at(-1);
    if (entries.length === SWEEP_PAGE) await sweepFrom(`${last}\0`);
  }

  /** One that comes back in the meantime stays, and those beside it until the next time. */
  async function remove(entries: readonly Entry[]): Promise<void> {
    await store.commit(entries.map(({ key, version }) => ({ key, version })), entries.map(({ key }) => ({ key })));
  }

  return { take, save, sweep };
}

function packWindow(window: Window): PackedWindow {
  return window.map((time, index) => time - (window[index - 1] ?? 0));
}

function unpackWindow(differences: PackedWindow): Window {
  let time = 0;
  return differences.map((difference) => time += difference);
}

/**
 * What the window still holds. Another process's clock may be somewhat ahead of ours, and what it noted counts; what is further
 * ahead was noted by a clock that has been set back since, and would lock its client out until that time comes again.
 */
function recent(window: Window, now: number): Window {
  return window.filter((time) => Math.abs(time - now) < WINDOW_MS);
}

/** What either holds: this process may have counted while the store did not answer, others when it did not look. */
function merge(mine: Window, stored: Window): Window {
  const missing: number[] = [];
  let at = 0;
  for (const time of mine) {
    while ((stored[at] ?? Infinity) < time) at++;
    if (stored[at] === time) at++;
    else missing.push(time);
  }
  return missing.length === 0 ? stored : [...stored, ...missing].sort((a, b) => a - b);
}

function decideOn(window: Window, now: number, limit: number): RateDecision & { window: Window } {
  if (window.length >= limit) return { ...refusal(window, now, limit), window };
  const grown = [...window, now].sort((a, b) => a - b);
  return { isAllowed: true, used: grown.length, retryAfterMs: 0, window: grown };
}

function refusal(window: Window, now: number, limit: number): RateDecision {
  const freedAt = (window.at(-limit) ?? now) + WINDOW_MS;
  return { isAllowed: false, used: window.length, retryAfterMs: Math.max(1, freedAt - now) };
}

/** A map that forgets what was set longest ago. */
class BoundedMap<V> {
  readonly #map = new Map<string, V>();
  readonly #size: number;

  constructor(size: number) {
    this.#size = size;
  }

  get(key: string): V | undefined {
    return this.#map.get(key);
  }

  set(key: string, value: V): void {
    this.#map.delete(key);
    this.#map.set(key, value);
    const [oldest] = this.#map.keys();
    if (this.#map.size > this.#size && oldest !== undefined) this.#map.delete(oldest);
  }
}
