import type { Check, Entry, Key, ListOptions, Store, Write } from "./store.ts";

/** Returns a store that lives as long as the process. */
export function memoryStore(): Store {
  return new MemoryStore();
}

/** Returns whether a store lives in the memory of this process, so that no other process can write to it. */
export function isMemoryStore(store: Store): boolean {
  return store instanceof MemoryStore;
}

class MemoryStore implements Store {
  /** The entries under each prefix, sorted by the last part of their keys. */
  readonly #prefixes = new Map<string, Entry[]>();
  readonly #watchers = new Map<string, Set<() => void>>();
  #commits = 0;

  get<T>(key: Key): Promise<Entry<T> | undefined> {
    return Promise.resolve(this.#find(key) as Entry<T> | undefined);
  }

  list<T>(prefix: Key, { from, limit = Infinity, reverse = false }: ListOptions = {}): Promise<Entry<T>[]> {
    const entries = this.#prefixes.get(idOf(prefix)) ?? [];
    const found = from === undefined ? [...entries] : entries.slice(indexOf(entries, from));
    if (reverse) found.reverse();
    return Promise.resolve(found.slice(0, limit) as Entry<T>[]);
  }

  commit(checks: readonly Check[], writes: readonly Write[]): Promise<string | undefined> {
    const isCurrent = checks.every(({ key, version }) => (this.#find(key)?.version ?? null) === version);
    if (!isCurrent) return Promise.resolve(undefined);
    const version = String(++this.#commits);
    for (const write of writes) this.#write(write, version);
    for (const { key } of writes) this.#watchers.get(idOf(key))?.forEach((hint) => queueMicrotask(hint));
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
    const { entries, name } = this.#split(key);
    const entry = entries[indexOf(entries, name)];
    return entry?.key.at(-1) === name ? entry : undefined;
  }

  #write({ key, value }: Write, version: string): void {
    const { entries, name } = this.#split(key);
    const index = indexOf(entries, name);
    const exists = entries[index]?.key.at(-1) === name;
    const replacement = value === undefined ? [] : [{ key, value, version }];
    entries.splice(index, exists ? 1 : 0, ...replacement);
  }

  #split(key: Key): { entries: Entry[]; name: string | number } {
    const id = idOf(key.slice(0, -1));
    const entries = this.#prefixes.get(id) ?? [];
    this.#prefixes.set(id, entries);
    return { entries, name: key.at(-1) ?? "" };
  }
}

function idOf(key: Key): string {
  return JSON.stringify(key);
}

/** Returns the index of the entry with this name among sorted entries, or the index at which to insert it. */
function indexOf(entries: readonly Entry[], name: string | number): number {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(entries[middle]?.key.at(-1) ?? "", name)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Deno KV sorts strings before numbers. */
function isBefore(a: string | number, b: string | number): boolean {
  return typeof a === typeof b ? a < b : typeof a === "string";
}
