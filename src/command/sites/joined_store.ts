import type {
  Check,
  Entry,
  Key,
  Store,
  Write,
} from "../../core/store/store.ts";

/** How much a commit may write to be joined with others. Deno KV accepts 800 KiB and 1,000 writes in all. */
const MAX_WRITES = 10;
const MAX_BYTES = 8_000;
/** How many commits are joined at most. */
const MAX_JOINED = 50;
/** How many keys any store reads at the same moment. */
const READ_AT_ONCE = 10;

/** A commit that waits for others. */
interface Waiting {
  readonly checks: readonly Check[];
  readonly writes: readonly Write[];
  readonly result: PromiseWithResolvers<string | undefined>;
}

/**
 * Returns a store that joins what many sites read and write in the same turn of the event loop: two hundred polls become
 * one read, and their heartbeats a few commits. The commits of different sites have no key in common. If one of them has to
 * be repeated, all are made one by one.
 *
 * @param turn Resolves when the current turn of the event loop is over.
 */
export function joinedStore(
  store: Store,
  turn: () => Promise<void> = nextTurn,
): Store {
  const { engine, maxChecks } = store;
  let keys: Key[] = [];
  let reading: Promise<(Entry | undefined)[]> | undefined;
  let waiting: Waiting[] | undefined;

  async function readAll(): Promise<(Entry | undefined)[]> {
    await turn();
    const all = keys;
    keys = [];
    reading = undefined;
    return await store.getMany(all);
  }

  async function getMany<T>(own: readonly Key[]) {
    const [filler] = own;
    const isSplit = () =>
      keys.length % READ_AT_ONCE + own.length > READ_AT_ONCE;
    while (
      filler !== undefined && keys.length % READ_AT_ONCE > 0 && isSplit()
    ) {
      keys.push(filler); // what one site reads together is read at the same moment
    }
    const first = keys.length;
    keys.push(...own);
    reading ??= readAll();
    const entries: unknown[] = await reading;
    return entries.slice(first, first + own.length) as (Entry<T> | undefined)[];
  }

  async function commitAll(): Promise<void> {
    await turn();
    const all = waiting ?? [];
    waiting = undefined;
    for (const batch of batchesOf(all, maxChecks)) await commitBatch(batch);
  }

  async function commitBatch(batch: readonly Waiting[]): Promise<void> {
    const checks = batch.flatMap(({ checks }) => checks);
    const writes = batch.flatMap(({ writes }) => writes);
    try {
      const version = await store.commit(checks, writes);
      const isAlone = batch.length === 1;
      if (version === undefined && !isAlone) return await commitEach(batch);
      for (const { result } of batch) result.resolve(version);
    } catch (error) {
      for (const { result } of batch) result.reject(error);
    }
  }

  async function commitEach(batch: readonly Waiting[]): Promise<void> {
    for (const { checks, writes, result } of batch) {
      await store.commit(checks, writes).then(result.resolve, result.reject);
    }
  }

  return {
    engine,
    maxChecks,
    getMany,
    async get<T>(key: Key) {
      const [entry] = await getMany<T>([key]);
      return entry;
    },
    list: (prefix, options) => store.list(prefix, options),
    async commit(checks, writes) {
      if (!isSmall(writes)) return await store.commit(checks, writes);
      const result = Promise.withResolvers<string | undefined>();
      const own = { checks, writes, result };
      if (waiting === undefined) {
        waiting = [own];
        void commitAll();
      } else waiting.push(own);
      return await result.promise;
    },
    watch: (key, hint) => store.watch(key, hint),
    close: () => store.close(),
  };
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

function isSmall(writes: readonly Write[]): boolean {
  const bytes = () => JSON.stringify(writes).length;
  return writes.length <= MAX_WRITES && bytes() <= MAX_BYTES;
}

/** Divides commits so that each part is one commit of the store: within its checks, and without a key in common. */
function batchesOf(all: readonly Waiting[], maxChecks: number): Waiting[][] {
  const batches: Waiting[][] = [];
  let checks = Infinity; // the first commit begins a batch
  let keys = new Set<string>();
  for (const commit of all) {
    const own = [...commit.checks, ...commit.writes].map(({ key }) =>
      JSON.stringify(key)
    );
    checks += commit.checks.length;
    const isFull = checks > maxChecks || batches.at(-1)?.length === MAX_JOINED;
    if (isFull || own.some((key) => keys.has(key))) {
      batches.push([]);
      checks = commit.checks.length;
      keys = new Set();
    }
    batches.at(-1)?.push(commit);
    for (const key of own) keys.add(key);
  }
  return batches;
}
