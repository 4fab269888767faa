import type { Entry, Key, ListOptions, Store } from "../core/store/store.ts";

/** The {@linkcode Store.engine} of a store in memory. No other process can write to it. */
export const MEMORY = "memory";

function idOf(key: Key): string {
  return JSON.stringify(key);
}

/** The last part of a key. */
type Name = Key[number];

function nameOf(key: Key): Name {
  return key.at(-1) ?? "";
}

/** Deno KV sorts strings before numbers. */
function isBefore(a: Name, b: Name): boolean {
  return typeof a === typeof b ? a < b : typeof a === "string";
}

/**
 * Entries sorted by the last part of their keys. They stay sorted, since a sweep of the rate limit lists all clients page
 * by page: sorting them for each page would block the process for seconds if there are many.
 */
class SortedEntries {
  readonly #entries: Entry[] = [];

  /** Returns the entry with a name. */
  get(name: Name): Entry | undefined {
    const entry = this.#entries[this.#indexOf(name)];
    return entry && nameOf(entry.key) === name ? entry : undefined;
  }

  /** Adds an entry in place of the one with its name, if there is one; without an entry, it only removes that. */
  replace(name: Name, entry: Entry | undefined): void {
    const removed = this.get(name) === undefined ? 0 : 1;
    const added = entry === undefined ? [] : [entry];
    this.#entries.splice(this.#indexOf(name), removed, ...added);
  }

  /** Returns the selected entries in order. */
  list({ from, limit = Infinity, reverse = false }: ListOptions = {}): Entry[] {
    const start = from === undefined ? 0 : this.#indexOf(from);
    if (!reverse) return this.#entries.slice(start, start + limit);
    const end = this.#entries.length;
    return this.#entries.slice(Math.max(start, end - limit)).reverse();
  }

  /** Returns the index of the first entry that is not before a name. */
  #indexOf(name: Name): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#entries[middle]?.key ?? [];
      if (isBefore(nameOf(other), name)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Returns a store that lives as long as the process. */
export function memoryStore(): Store {
  /** The entries under each prefix. */
  const prefixes = new Map<string, SortedEntries>();
  const watchers = new Map<string, Set<() => void>>();
  let commits = 0;

  function entriesBeside(key: Key): SortedEntries {
    const id = idOf(key.slice(0, -1));
    const entries = prefixes.get(id) ?? new SortedEntries();
    prefixes.set(id, entries);
    return entries;
  }

  function find<T>(key: Key): Entry<T> | undefined {
    return entriesBeside(key).get(nameOf(key)) as Entry<T> | undefined;
  }

  return {
    engine: MEMORY,
    maxChecks: 100,
    get: (key) => Promise.resolve(find(key)),
    getMany: (keys) => Promise.resolve(keys.map((key) => find(key))),
    list<T>(prefix: Key, options?: ListOptions) {
      const entries = prefixes.get(idOf(prefix))?.list(options) ?? [];
      return Promise.resolve(entries as Entry<T>[]);
    },
    commit(checks, writes) {
      const isValid = checks.every(({ key, version }) =>
        (find(key)?.version ?? null) === version
      );
      if (!isValid) return Promise.resolve(undefined);
      const version = String(++commits);
      for (const { key, value } of writes) {
        const entry = value === undefined ? undefined : { key, value, version };
        entriesBeside(key).replace(nameOf(key), entry);
      }
      for (const { key } of writes) {
        const hints = watchers.get(idOf(key)) ?? new Set();
        for (const hint of hints) {
          queueMicrotask(() => {
            if (hints.has(hint)) hint(); // it was not stopped in between
          });
        }
      }
      return Promise.resolve(version);
    },
    watch(key, hint) {
      const id = idOf(key);
      const hints = watchers.get(id) ?? new Set();
      watchers.set(id, hints.add(hint));
      return () => void hints.delete(hint);
    },
    close: () => watchers.clear(),
  };
}
