import type { Entry, Key, Store } from "../../core/store/store.ts";

/** How many keys any store reads at the same moment. */
const READ_AT_ONCE = 10;

/**
 * Returns a store that joins what many sites read in the same turn of the event loop: on a server, two hundred polls are one
 * query. What one site reads together is still read at the same moment.
 */
export function joinedReads(store: Store): Store {
  let keys: Key[] = [];
  let reading: Promise<(Entry | undefined)[]> | undefined;

  async function readAll(): Promise<(Entry | undefined)[]> {
    await nextTurn();
    const all = keys;
    keys = [];
    reading = undefined;
    return await store.getMany(all);
  }

  async function getMany<T>(own: readonly Key[]) {
    const rest = READ_AT_ONCE - keys.length % READ_AT_ONCE;
    if (own.length > rest) keys.push(...own.slice(0, rest)); // so that its own begin the next ten
    const first = keys.length;
    keys.push(...own);
    reading ??= readAll();
    const entries: unknown[] = await reading;
    return entries.slice(first, first + own.length) as (Entry<T> | undefined)[];
  }

  return {
    engine: store.engine,
    maxChecks: store.maxChecks,
    getMany,
    async get<T>(key: Key) {
      const [entry] = await getMany<T>([key]);
      return entry;
    },
    list: (prefix, options) => store.list(prefix, options),
    commit: (checks, writes) => store.commit(checks, writes),
    watch: (key, hint) => store.watch(key, hint),
    close: () => store.close(),
  };
}

/** Resolves when the current turn of the event loop is over. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
