import type { Check, Entry, Key, ListOptions, Store, Write } from "./store.ts";

/** The first part of every key, so that an application can share its database with the gateway. */
const PREFIX = "rep";
/** The maximum number of entries per read: Deno KV returns at most 1,000, each of up to 64 KiB. */
const MAX_BATCH = 500;

/** Returns a store over Deno KV: on Deno Deploy, in a SQLite file, or on a `denokv` server. Closing it closes `kv`. */
export function kvStore(kv: Deno.Kv): Store {
  return new KvStore(kv);
}

class KvStore implements Store {
  readonly #kv: Deno.Kv;

  constructor(kv: Deno.Kv) {
    this.#kv = kv;
  }

  async get<T>(key: Key): Promise<Entry<T> | undefined> {
    const { value, versionstamp } = await this.#kv.get<T>([PREFIX, ...key]);
    return versionstamp === null ? undefined : { key, value, version: versionstamp };
  }

  async list<T>(under: Key, { from, limit = Infinity, reverse = false }: ListOptions = {}): Promise<Entry<T>[]> {
    const prefix = [PREFIX, ...under];
    const selector = from === undefined ? { prefix } : { prefix, start: [...prefix, from] };
    const entries: Entry<T>[] = [];
    if (limit < 1) return entries;
    const found = this.#kv.list<T>(selector, { reverse, batchSize: Math.min(limit, MAX_BATCH) });
    for await (const { key, value, versionstamp } of found) {
      if (key.length > prefix.length + 1) continue; // Deno KV also returns more deeply nested keys
      entries.push({ key: key.slice(1) as (string | number)[], value, version: versionstamp });
      if (entries.length >= limit) break;
    }
    return entries;
  }

  async commit(checks: readonly Check[], writes: readonly Write[]): Promise<string | undefined> {
    const atomic = this.#kv.atomic();
    for (const { key, version } of checks) atomic.check({ key: [PREFIX, ...key], versionstamp: version });
    for (const { key, value } of writes) {
      if (value === undefined) atomic.delete([PREFIX, ...key]);
      else atomic.set([PREFIX, ...key], value);
    }
    try {
      const result = await atomic.commit();
      return result.ok ? result.versionstamp : undefined;
    } catch (error) {
      if (isLocked(error)) return undefined;
      throw error;
    }
  }

  watch(key: Key, hint: () => void): () => void {
    const reader = this.#kv.watch([[PREFIX, ...key]]).getReader();
    void callOnRead(reader, hint);
    return () => void reader.cancel().catch(() => {}); // callOnRead() handles the same error
  }

  close(): void {
    this.#kv.close();
  }
}

/**
 * With two connections to one SQLite file, the commit that loses the race gets this error instead of a failed check.
 */
function isLocked(error: unknown): boolean {
  return error instanceof TypeError && error.message.includes("database is locked");
}

async function callOnRead(reader: ReadableStreamDefaultReader<unknown>, hint: () => void): Promise<void> {
  try {
    while (!(await reader.read()).done) hint();
  } catch {
    // A watch fails when the server rejects it or the database is closed. Callers also poll, since it is only a hint.
  }
}
