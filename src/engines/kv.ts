import { chunk } from "@std/collections/chunk";
import { type Clock, sleep, systemClock } from "../core/values/clock.ts";
import {
  type Check,
  type Entry,
  type Key,
  type ListOptions,
  type Store,
  StoreUnavailableError,
  type Write,
} from "../core/store/store.ts";

/** The first part of every key, so that an application can share its database with the gateway. */
const PREFIX = "rep";
/** A key that is never written: all keys of the store have more parts. */
const NEVER_WRITTEN = [PREFIX];
/** The maximum number of entries per read: Deno KV returns at most 1,000, each of up to 64 KiB. */
const MAX_BATCH = 500;
/** How many keys one call of `getMany` accepts. */
const MAX_KEYS = 10;

/**
 * How long a commit may find a SQLite file locked before the store counts as unavailable. Gateways on one file lock it
 * for milliseconds; another program may hold a transaction for hours.
 */
const MAX_LOCKED_MS = 2_000;
/** The longest pause before a retry of a commit that found the file locked; half of it is random. */
const MAX_PAUSE_MS = 20;
const LOCKED =
  "Cannot use the store: another process keeps the database locked; end its transaction, or the process";

/** How many checks Deno Deploy and a SQLite file accept per commit. */
export const MAX_CHECKS = 100;

/** The reason for having no database in a runtime without Deno KV. */
export const NO_KV = globalThis.Deno
  ? "Deno KV is not available; enable it with --unstable-kv"
  : "Deno KV is not available; without Deno, use kvStore() with npm's @deno/kv";

/** Options of {@linkcode kvStore}. */
export interface KvStoreOptions {
  /**
   * How many checks a commit may contain: 10 on a `denokv` server, 100 on Deno Deploy and in a SQLite file. Session
   * keys for as many clients are counted in one commit.
   *
   * @default {10}
   */
  maxChecks?: number;
  /** The clock of retries. @default {the system clock} */
  clock?: Clock;
  /** Returns a number in [0, 1), for the pauses between retries. @default {Math.random} */
  random?: () => number;
}

/** An entry of a {@linkcode KvDatabase}; without a version if the key is not in the database. */
export interface KvEntry {
  /** Its key. */
  readonly key: readonly unknown[];
  /** Its value. */
  readonly value: unknown;
  /** Its version. */
  readonly versionstamp: string | null;
}

/** A commit of a {@linkcode KvDatabase}. */
export interface KvOperation {
  /** Adds a condition. */
  check(check: { key: Key; versionstamp: string | null }): unknown;
  /** Adds a deletion. */
  delete(key: Key): unknown;
  /** Adds a value. */
  set(key: Key, value: unknown): unknown;
  /** Commits all of it, or nothing if a check fails. */
  commit(): Promise<
    { readonly ok: true; readonly versionstamp: string } | {
      readonly ok: false;
    }
  >;
}

/** The parts of `Deno.Kv` that {@linkcode kvStore} uses. The package `@deno/kv` provides them for other runtimes. */
export interface KvDatabase {
  /** Returns an entry. */
  get(key: Key): Promise<KvEntry>;
  /** Returns entries. */
  getMany(keys: Key[]): Promise<readonly KvEntry[]>;
  /** Returns the entries below a key. */
  list(
    selector: { prefix: Key; start?: Key },
    options: { reverse: boolean; batchSize: number },
  ): AsyncIterable<KvEntry>;
  /** Begins a commit. */
  atomic(): KvOperation;
  /** Reads a value whenever one of the entries changes. */
  watch(keys: Key[]): ReadableStream<unknown>;
  /** Closes the database. */
  close(): void;
}

function toKvKey(key: Key): Key {
  return [PREFIX, ...key];
}

function toEntry<T>(
  { key, value, versionstamp }: KvEntry,
): Entry<T> | undefined {
  if (versionstamp === null) return undefined;
  const ownKey = key.slice(1) as Key;
  return { key: ownKey, value: value as T, version: versionstamp };
}

/** If two connections to one SQLite file commit at the same time, one of them gets this error. */
function isLocked(error: unknown): boolean {
  return error instanceof TypeError &&
    error.message.includes("database is locked");
}

/**
 * Calls back for each value of a watch until it ends. A watch fails when the server rejects it or the database is closed:
 * callers also poll, since it is only a hint.
 *
 * @returns A function that ends it, after which it does not call back, not even for what has been read already.
 */
function callOnRead(watch: ReadableStream, hint: () => void): () => void {
  const reader = watch.getReader();
  let isStopped = false;
  async function read() {
    while (!(await reader.read()).done && !isStopped) hint();
  }
  read().catch(() => {});
  return () => {
    isStopped = true;
    reader.cancel().catch(() => {}); // read() fails in the same way
  };
}

/**
 * A transaction that begins with a read fails at once if the file is locked. SQLite waits five seconds for one that
 * begins with a write, and all operations of this process wait behind it; so a commit contains at least one check.
 */
function createOperation(
  kv: KvDatabase,
  checks: readonly Check[],
  writes: readonly Write[],
): KvOperation {
  const operation = kv.atomic();
  if (checks.length === 0) {
    operation.check({ key: NEVER_WRITTEN, versionstamp: null });
  }
  for (const { key, version } of checks) {
    operation.check({ key: toKvKey(key), versionstamp: version });
  }
  for (const { key, value } of writes) {
    if (value === undefined) operation.delete(toKvKey(key));
    else operation.set(toKvKey(key), value);
  }
  return operation;
}

/** Returns a store over Deno KV: on Deno Deploy, in a SQLite file, or on a `denokv` server. Closing it closes `kv`. */
export function kvStore(
  kv: KvDatabase,
  { maxChecks = 10, clock = systemClock, random = Math.random }:
    KvStoreOptions = {},
): Store {
  return {
    engine: "Deno KV",
    maxChecks,
    get: async (key) => toEntry(await kv.get(toKvKey(key))),
    async getMany<T>(keys: readonly Key[]) {
      const reads = chunk(keys.map(toKvKey), MAX_KEYS)
        .map((some: Key[]) => kv.getMany(some));
      const entries = (await Promise.all(reads)).flat();
      return entries.map((entry: KvEntry) => toEntry<T>(entry));
    },
    async list<T>(
      under: Key,
      { from, limit = Infinity, reverse = false }: ListOptions = {},
    ) {
      const prefix = toKvKey(under);
      const start = from === undefined ? {} : { start: [...prefix, from] };
      const batchSize = Math.min(limit, MAX_BATCH);
      const entries: Entry<T>[] = [];
      if (limit < 1) return entries;
      const found = kv.list({ prefix, ...start }, { reverse, batchSize });
      for await (const kvEntry of found) {
        if (kvEntry.key.length > prefix.length + 1) continue; // Deno KV also returns more deeply nested keys
        const entry = toEntry<T>(kvEntry);
        if (entry !== undefined) entries.push(entry);
        if (entries.length >= limit) break;
      }
      return entries;
    },
    async commit(checks, writes) {
      const deadline = clock.monotonic() + MAX_LOCKED_MS;
      while (true) {
        try {
          const result = await createOperation(kv, checks, writes).commit();
          return result.ok ? result.versionstamp : undefined;
        } catch (error) {
          if (!isLocked(error)) throw error;
          if (clock.monotonic() >= deadline) {
            throw new StoreUnavailableError(LOCKED, { cause: error });
          }
        }
        await sleep(MAX_PAUSE_MS * (0.5 + 0.5 * random()), clock);
      }
    },
    watch(key, hint) {
      return callOnRead(kv.watch([toKvKey(key)]), hint);
    },
    close: () => kv.close(),
  };
}
