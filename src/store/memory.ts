import type { Check, Entry, Key, ListOptions, Store, Write } from "./store.ts";

/** The {@linkcode Store.engine} of a store in memory. No other process can write to it. */
export const MEMORY = "memory";

/** Returns a store that lives as long as the process. */
export function memoryStore(): Store {
  return new MemoryStore();
}

class MemoryStore implements Store {
  readonly engine = MEMORY;
  readonly maxChecks = 100;
  /** The entries under each prefix. */
  readonly #prefixes = new Map<string, SortedEntries>();
  readonly #watchers = new Map<string, Set<() => void>>();
  #commits = 0;

  get<T>(key: Key): Promise<Entry<T> | undefined> {
    return Promise.resolve(this.#find(key) as Entry<T> | undefined);
  }

  getMany<T>(keys: readonly Key[]): Promise<(Entry<T> | undefined)[]> {
    return Promise.resolve(
      keys.map((key) => this.#find(key) as Entry<T> | undefined),
    );
  }

  list<T>(prefix: Key, options?: ListOptions): Promise<Entry<T>[]> {
    const entries = this.#prefixes.get(idOf(prefix))?.list(options) ?? [];
    return Promise.resolve(entries as Entry<T>[]);
  }

  commit(
    checks: readonly Check[],
    writes: readonly Write[],
  ): Promise<string | undefined> {
    for (const { key, version } of checks) {
      const found = this.#find(key)?.version ?? null;
      if (found !== version) return Promise.resolve(undefined);
    }
    const version = String(++this.#commits);
    for (const write of writes) this.#write(write, version);
    for (const { key } of writes) {
      const hints = this.#watchers.get(idOf(key)) ?? [];
      for (const hint of hints) queueMicrotask(hint);
    }
    return Promise.resolve(version);
  }

  watch(key: Key, hint: () => void): () => void {
    const id = idOf(key);
    const watchers = this.#watchers.get(id) ?? new Set();
    this.#watchers.set(id, watchers.add(hint));
    return () => void watchers.delete(hint);
  }

  close(): void {
    this.#watchers.clear();
  }

  #find(key: Key): Entry | undefined {
    return this.#prefixes.get(idOf(key.slice(0, -1)))?.get(key.at(-1) ?? "");
  }

  #write({ key, value }: Write, version: string): void {
    const id = idOf(key.slice(0, -1));
    const entries = this.#prefixes.get(id) ?? new SortedEntries();
    this.#prefixes.set(id, entries);
    const entry = value === undefined ? undefined : { key, value, version };
    entries.replace(key.at(-1) ?? "", entry);
  }
}

function idOf(key: Key): string {
  return JSON.stringify(key);
}

/** The last part of a key. */
type Name = Key[number];

/** Entries sorted by the last part of their keys. */
class SortedEntries {
  readonly #entries: Entry[] = [];

  /** Returns the entry with a name. */
  get(name: Name): Entry | undefined {
    const entry = this.#entries[this.#indexOf(name)];
    return entry?.key.at(-1) === name ? entry : undefined;
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
      const other = this.#entries[middle]?.key.at(-1) ?? "";
      if (isBefore(other, name)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Deno KV sorts strings before numbers. */
function isBefore(a: Name, b: Name): boolean {
  return typeof a === typeof b ? a < b : typeof a === "string";
}
