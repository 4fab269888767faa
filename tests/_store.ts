import { kvStore } from "../src/engines/kv.ts";
import { memoryStore } from "../src/engines/memory.ts";
import type { Store } from "../src/core/store/store.ts";
import { settleAfter } from "../tools/fake_clock.ts";

/** A store that counts operations. */
export interface CountedStore extends Store {
  readonly counts: {
    get: number;
    getMany: number;
    list: number;
    commit: number;
  };
  /** Resets all counts to 0. */
  reset(): void;
}

/** The operations of a store, apart from watching and closing it. */
type Operation = "get" | "getMany" | "list" | "commit";

/** A store that calls back before each operation, which may count it, wait, or reject. */
export function interceptedStore(
  store: Store,
  before: (operation: Operation) => unknown,
): Store {
  return {
    ...delegate(store),
    async get(key) {
      await before("get");
      return await store.get(key);
    },
    async getMany(keys) {
      await before("getMany");
      return await store.getMany(keys);
    },
    async list(prefix, options) {
      await before("list");
      return await store.list(prefix, options);
    },
    async commit(checks, writes) {
      await before("commit");
      return await store.commit(checks, writes);
    },
  };
}

/** Counts the operations on a store. The methods can be spread into another store. */
export function countedStore(store: Store): CountedStore {
  const counts = { get: 0, getMany: 0, list: 0, commit: 0 };
  return {
    ...interceptedStore(store, (operation) => counts[operation]++),
    counts,
    reset: () =>
      void Object.assign(counts, { get: 0, getMany: 0, list: 0, commit: 0 }),
  };
}

/** Every operation of a store, on keys that do not exist. */
export const OPERATIONS: Record<Operation, (store: Store) => Promise<unknown>> =
  {
    get: (store) => store.get(["a"]),
    getMany: (store) => store.getMany([["a"]]),
    list: (store) => store.list(["a"]),
    commit: (store) => store.commit([], []),
  };

/** How a store fails. */
interface Failure {
  /** @default {all} */
  readonly operations?: readonly Operation[];
  /** @default {Error: down} */
  readonly error?: Error;
}

/** A store whose operations are rejected while it is down. It gives no hints, like one on another machine. */
export function fallibleStore(
  inner: Store,
  isDown: () => boolean,
  { operations, error = new Error("down") }: Failure = {},
): Store {
  const failIfDown = (operation: Operation) => {
    const fails = operations?.includes(operation) ?? true;
    if (fails && isDown()) throw error;
  };
  return {
    ...interceptedStore(inner, failIfDown),
    watch: () => () => {},
    close: () => {},
  };
}

/** A store that gives no hints, and stays open when one of its gateways closes it: one on another machine. */
export function remoteStore(inner: Store): Store {
  return fallibleStore(inner, () => false);
}

/** The methods of a store as an object, to replace some of them. */
export function delegate(store: Store): Store {
  return {
    maxChecks: store.maxChecks,
    get: (key) => store.get(key),
    getMany: (keys) => store.getMany(keys),
    list: (prefix, options) => store.list(prefix, options),
    commit: (checks, writes) => store.commit(checks, writes),
    watch: (key, hint) => store.watch(key, hint),
    close: () => store.close(),
  };
}

/** A store with a replica that can lag behind, and take over. */
export interface ReplicatedStore extends Store {
  /** From now on, commits do not reach the replica any more. */
  stopReplication(): void;
  /** Makes the replica answer instead. */
  failOver(): void;
}

/** Creates a {@linkcode ReplicatedStore} that gives no hints. */
export function replicatedStore(): ReplicatedStore {
  const [primary, replica] = [memoryStore(), memoryStore()];
  let current = primary;
  let isReplicating = true;
  return {
    maxChecks: primary.maxChecks,
    get: (key) => current.get(key),
    getMany: (keys) => current.getMany(keys),
    list: (prefix, options) => current.list(prefix, options),
    async commit(checks, writes) {
      const version = await current.commit(checks, writes);
      if (version !== undefined && isReplicating && current === primary) {
        await replica.commit([], writes);
      }
      return version;
    },
    watch: () => () => {},
    close: () => {},
    stopReplication: () => void (isReplicating = false),
    failOver: () => void (current = replica),
  };
}

/** A store for whose operations a fake clock waits. */
function settlingStore(store: Store): Store {
  return {
    ...delegate(store),
    get: (key) => settleAfter(store.get(key)),
    getMany: (keys) => settleAfter(store.getMany(keys)),
    list: (prefix, options) => settleAfter(store.list(prefix, options)),
    commit: (checks, writes) => settleAfter(store.commit(checks, writes)),
  };
}

/** Registers a test with a store in memory, and with Deno KV. */
export function testWithStores(
  name: string,
  run: (store: Store) => Promise<void>,
): void {
  Deno.test(`${name} (memory)`, () => run(memoryStore()));
  Deno.test(`${name} (kv)`, async () => {
    const store = kvStore(await Deno.openKv(":memory:"));
    try {
      await run(settlingStore(store));
    } finally {
      store.close();
    }
  });
}
