import { serialize } from "node:v8";
import type {
  Check,
  Entry,
  Key,
  ListOptions,
  Store,
  Write,
} from "../src/store/store.ts";

/** The operations on a store. */
export interface StoreLoad {
  gets: number;
  lists: number;
  /** The number of entries that lists returned. */
  listed: number;
  commits: number;
  /** The number of entries that commits wrote or deleted. */
  writes: number;
  /** Keys and values of the entries that were read. */
  bytesRead: number;
  /** Keys and values of the entries that were written. */
  bytesWritten: number;
}

/** Counts a store's operations and bytes, in the encoding that Deno KV uses for values. */
export class CountingStore implements Store {
  readonly #store: Store;
  #load = noLoad();

  constructor(store: Store) {
    this.#store = store;
  }

  get maxChecks(): number {
    return this.#store.maxChecks;
  }

  /** Returns the load since the last call. */
  takeLoad(): StoreLoad {
    const load = this.#load;
    this.#load = noLoad();
    return load;
  }

  async get<T>(key: Key): Promise<Entry<T> | undefined> {
    const entry = await this.#store.get<T>(key);
    this.#load.gets++;
    if (entry !== undefined) this.#load.bytesRead += sizeOf(entry);
    return entry;
  }

  /** Counts one read, as it is one request to a database for up to ten keys. */
  async getMany<T>(keys: readonly Key[]): Promise<(Entry<T> | undefined)[]> {
    const entries = await this.#store.getMany<T>(keys);
    this.#load.gets += Math.ceil(keys.length / KEYS_PER_READ);
    for (const entry of entries) {
      if (entry !== undefined) this.#load.bytesRead += sizeOf(entry);
    }
    return entries;
  }

  async list<T>(prefix: Key, options?: ListOptions): Promise<Entry<T>[]> {
    const entries = await this.#store.list<T>(prefix, options);
    this.#load.lists++;
    this.#load.listed += entries.length;
    for (const entry of entries) this.#load.bytesRead += sizeOf(entry);
    return entries;
  }

  commit(
    checks: readonly Check[],
    writes: readonly Write[],
  ): Promise<string | undefined> {
    this.#load.commits++;
    this.#load.writes += writes.length;
    for (const write of writes) this.#load.bytesWritten += sizeOf(write);
    return this.#store.commit(checks, writes);
  }

  watch(key: Key, hint: () => void): () => void {
    return this.#store.watch(key, hint);
  }

  close(): void {
    this.#store.close();
  }
}

/** How many keys Deno KV reads at once. */
const KEYS_PER_READ = 10;

function noLoad(): StoreLoad {
  return {
    gets: 0,
    lists: 0,
    listed: 0,
    commits: 0,
    writes: 0,
    bytesRead: 0,
    bytesWritten: 0,
  };
}

/** A string part takes two bytes more than its text, a number nine; the prefix `"rep"` takes five. */
function sizeOf({ key, value }: Write): number {
  const parts = key.map((part) =>
    typeof part === "number" ? 9 : encoder.encode(part).length + 2
  );
  return parts.reduce((sum, size) => sum + size, 5) +
    (value === undefined ? 0 : serialize(value).length);
}

const encoder = new TextEncoder();
