import { SortedEntries } from "./sorted_entries.ts";
import type { Check, Entry, Key, ListOptions, Store, Write } from "./store.ts";

/** The {@linkcode Store.engine} of a store in memory, which no other process can write to. */
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
    const isCurrent = checks.every(({ key, version }) =>
      (this.#find(key)?.version ?? null) === version
    );
    if (!isCurrent) return Promise.resolve(undefined);
    const version = String(++this.#commits);
    for (const write of writes) this.#write(write, version);
    for (const { key } of writes) {
      this.#watchers.get(idOf(key))?.forEach((hint) => queueMicrotask(hint));
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
    if (value === undefined) entries.delete(key.at(-1) ?? "");
    else entries.set({ key, value, version });
  }
}

function idOf(key: Key): string {
  return JSON.stringify(key);
}
