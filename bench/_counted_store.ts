import { serialize } from "node:v8";
import type { Key, Store } from "../src/store/store.ts";

/** What a store was asked for. */
export interface StoreLoad {
  gets: number;
  lists: number;
  /** How many entries the lists gave. */
  listed: number;
  commits: number;
  /** How many entries the commits wrote or deleted. */
  writes: number;
  /** Keys and values of entries that were given. */
  bytesRead: number;
  /** Keys and values of entries that were written. */
  bytesWritten: number;
}

/** A store that counts what it is asked for. */
export interface CountedStore extends Store {
  /** What was asked for since the last call. */
  take(): StoreLoad;
}

/** Counts a store's operations and bytes, in the encoding that Deno KV has for values. */
export function countedStore(store: Store): CountedStore {
  let load = noLoad();
  return {
    async get<T>(key: Key) {
      const entry = await store.get<T>(key);
      load.gets++;
      if (entry !== undefined) load.bytesRead += sizeOf(key, entry.value);
      return entry;
    },
    async list<T>(prefix: Key, options: Parameters<Store["list"]>[1]) {
      const entries = await store.list<T>(prefix, options);
      load.lists++;
      load.listed += entries.length;
      for (const { key, value } of entries) load.bytesRead += sizeOf(key, value);
      return entries;
    },
    commit(checks, writes) {
      load.commits++;
      load.writes += writes.length;
      for (const { key, value } of writes) load.bytesWritten += sizeOf(key, value);
      return store.commit(checks, writes);
    },
    watch: (key, hint) => store.watch(key, hint),
    close: () => store.close(),
    take() {
      const taken = load;
      load = noLoad();
      return taken;
    },
  };
}

function noLoad(): StoreLoad {
  return { gets: 0, lists: 0, listed: 0, commits: 0, writes: 0, bytesRead: 0, bytesWritten: 0 };
}

/** A string part takes its bytes and two, a number nine; in front stands `"rep"`. */
function sizeOf(key: Key, value: unknown): number {
  const parts = key.map((part) => typeof part === "number" ? 9 : encoder.encode(part).length + 2);
  return parts.reduce((sum, size) => sum + size, 5) + (value === undefined ? 0 : serialize(value).length);
}

const encoder = new TextEncoder();
