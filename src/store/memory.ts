import type { Check, Entry, Key, ListOptions, Store, Write } from "./store.ts";

/** A store that lives as long as the process. */
export function memoryStore(): Store {
  return new MemoryStore();
}

class MemoryStore implements Store {
  /** The entries under each prefix, sorted by their last part. */
  readonly #folders = new Map<string, Entry[]>();
  readonly #watchers = new Map<string, Set<() => void>>();
  #commits = 0;

  get<T>(key: Key): Promise<Entry<T> | undefined> {
    return Promise.resolve(this.#find(key) as Entry<T> | undefined);
  }

  list<T>(prefix: Key, { from, limit = Infinity, reverse = false }: ListOptions = {}): Promise<Entry<T>[]> {
    const folder = this.#folders.get(idOf(prefix)) ?? [];
    const found = from === undefined ? [...folder] : folder.slice(placeOf(folder, from));
    if (reverse) found.reverse();
    return Promise.resolve(found.slice(0, limit) as Entry<T>[]);
  }

  commit(checks: readonly Check[], writes: readonly Write[]): Promise<string | undefined> {
    const holds = checks.every(({ key, version }) => (this.#find(key)?.version ?? null) === version);
    if (!holds) return Promise.resolve(undefined);
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
    const { folder, name } = this.#split(key);
    const entry = folder[placeOf(folder, name)];
    return entry?.key.at(-1) === name ? entry : undefined;
  }

  #write({ key, value }: Write, version: string): void {
    const { folder, name } = this.#split(key);
    const place = placeOf(folder, name);
    const isThere = folder[place]?.key.at(-1) === name;
    const entries = value === undefined ? [] : [{ key, value, version }];
    folder.splice(place, isThere ? 1 : 0, ...entries);
  }

  #split(key: Key): { folder: Entry[]; name: string | number } {
    const id = idOf(key.slice(0, -1));
    const folder = this.#folders.get(id) ?? [];
    this.#folders.set(id, folder);
    return { folder, name: key.at(-1) ?? "" };
  }
}

function idOf(key: Key): string {
  return JSON.stringify(key);
}

/** Where an entry of this name stands in a sorted folder, or would have to stand. */
function placeOf(folder: readonly Entry[], name: string | number): number {
  let low = 0;
  let high = folder.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(folder[middle]?.key.at(-1) ?? "", name)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Deno KV sorts strings before numbers. */
function isBefore(a: string | number, b: string | number): boolean {
  return typeof a === typeof b ? a < b : typeof a === "string";
}
