import type { Check, Entry, Key, ListOptions, Store, Write } from "./store.ts";

/** Everything of ours stands under this part, so that an application can share its database with the gateway. */
const PREFIX = "rep";
/** How many entries are asked for at once: Deno KV gives 1,000 at the most, each of up to 64 KiB. */
const MAX_BATCH = 500;

/** A store over Deno KV: on Deno Deploy, in a SQLite file, or on a `denokv` server. Closing it closes `kv`. */
export function kvStore(kv: Deno.Kv): Store {
  return {
    get: (key) => get(kv, key),
    list: (prefix, options) => list(kv, prefix, options),
    commit: (checks, writes) => commit(kv, checks, writes),
    watch: (key, hint) => watch(kv, key, hint),
    close: () => kv.close(),
  };
}

async function get<T>(kv: Deno.Kv, key: Key): Promise<Entry<T> | undefined> {
  const { value, versionstamp } = await kv.get<T>([PREFIX, ...key]);
  return versionstamp === null ? undefined : { key, value, version: versionstamp };
}

async function list<T>(kv: Deno.Kv, under: Key, options: ListOptions = {}): Promise<Entry<T>[]> {
  const prefix = [PREFIX, ...under];
  const { from, limit = Infinity, reverse = false } = options;
  const selector = from === undefined ? { prefix } : { prefix, start: [...prefix, from] };
  const entries: Entry<T>[] = [];
  if (limit < 1) return entries;
  const found = kv.list<T>(selector, { reverse, batchSize: Math.min(limit, MAX_BATCH) });
  for await (const { key, value, versionstamp } of found) {
    if (key.length > prefix.length + 1) continue; // Deno KV gives what is further down, too
    entries.push({ key: key.slice(1) as (string | number)[], value, version: versionstamp });
    if (entries.length >= limit) break;
  }
  return entries;
}

async function commit(kv: Deno.Kv, checks: readonly Check[], writes: readonly Write[]): Promise<string | undefined> {
  const atomic = kv.atomic();
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

/** Two connections to one SQLite file: the one that loses the race is told so with this error instead of a failed check. */
function isLocked(error: unknown): boolean {
  return error instanceof TypeError && error.message.includes("database is locked");
}

function watch(kv: Deno.Kv, key: Key, hint: () => void): () => void {
  const reader = kv.watch([[PREFIX, ...key]]).getReader();
  void (async () => {
    try {
      while (!(await reader.read()).done) hint();
    } catch {
      // A watch ends with an error when the server refuses it or the database is closed. It was a hint only: whoever asked
      // for it looks by itself, too.
    }
  })();
  return () => void reader.cancel().catch(() => {}); // the same error again
}
