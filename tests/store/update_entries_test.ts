import { assertEquals, assertRejects } from "@std/assert";
import { memoryStore } from "../../src/store/memory.ts";
import {
  type Check,
  type Store,
  StoreUnavailableError,
  type Write,
} from "../../src/store/store.ts";
import {
  type EntryUpdate,
  updateEntries,
} from "../../src/store/update_entries.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { countedStore, delegate } from "../_store.ts";

/** Adds one to the entry of each name. */
function increments(...names: readonly string[]): EntryUpdate<number>[] {
  return names.map((name) => ({
    key: ["n", name],
    update: (stored = 0) => stored + 1,
  }));
}

/** Updates, and returns the names that were left out. */
async function update(
  store: Store,
  updates: readonly EntryUpdate<number>[],
): Promise<unknown[]> {
  const clock = new FakeClock();
  const updating = updateEntries<number, EntryUpdate<number>>(store, updates, {
    clock,
    random: () => 1,
    areNew: false,
  });
  let isDone = false;
  const end = () => void (isDone = true);
  updating.then(end, end);
  while (!isDone) await clock.tick(100); // the longest pause
  return (await updating).map(({ key }) => key[1]);
}

async function numbers(store: Store): Promise<Record<string, unknown>> {
  return Object.fromEntries(
    (await store.list(["n"])).map(({ key, value }) => [key[1], value]),
  );
}

/** A store in which something happens before each commit. */
function withHook(
  store: Store,
  beforeCommit: (attempt: number) => unknown,
): Store {
  let attempts = 0;
  const commit = async (checks: readonly Check[], writes: readonly Write[]) => {
    await beforeCommit(++attempts);
    return await store.commit(checks, writes);
  };
  return { ...delegate(store), commit };
}

const increment = (store: Store, name: string) =>
  update(store, increments(name));

Deno.test("updateEntries() reads and commits all entries together", async () => {
  const store = countedStore(memoryStore());
  await increment(store, "b");
  store.reset();
  assertEquals(await update(store, increments("a", "b", "c")), []);
  assertEquals(await numbers(store), { a: 1, b: 2, c: 1 });
  assertEquals(store.counts, { get: 0, getMany: 1, list: 1, commit: 1 }); // the list is this test's
});

Deno.test("updateEntries() leaves entries as they are for which there is no new value", async () => {
  const store = countedStore(memoryStore());
  const keep = { key: ["n", "a"], update: () => undefined };
  assertEquals(await update(store, [keep, ...increments("b")]), []);
  assertEquals(await numbers(store), { b: 1 });
  store.reset();
  assertEquals(await update(store, [keep]), []);
  assertEquals(store.counts.commit, 0);
});

Deno.test("updateEntries() leaves out the entries that another writer has changed, and commits the others", async () => {
  const inner = countedStore(memoryStore());
  const store = withHook(inner, async (attempt) => {
    if (attempt === 1) await increment(inner, "b");
  });
  assertEquals(await update(store, increments("a", "b", "c")), ["b"]);
  assertEquals(await numbers(inner), { a: 1, b: 1, c: 1 });
});

Deno.test("updateEntries() leaves out nothing if the database was only locked", async () => {
  const inner = memoryStore();
  let locked = 3;
  const store: Store = {
    ...delegate(inner),
    commit: (checks, writes) =>
      locked-- > 0 ? Promise.resolve(undefined) : inner.commit(checks, writes),
  };
  assertEquals(await update(store, increments("a", "b", "c")), []);
  assertEquals(await numbers(inner), { a: 1, b: 1, c: 1 });
});

Deno.test("updateEntries() reads no entries that are expected to be new, unless one exists", async () => {
  const store = countedStore(memoryStore());
  const options = { clock: new FakeClock(), random: () => 0, areNew: true };
  const add = (...names: readonly string[]) =>
    updateEntries<number, EntryUpdate<number>>(
      store,
      increments(...names),
      options,
    );
  assertEquals(await add("a", "b"), []);
  assertEquals([store.counts.getMany, store.counts.commit], [0, 1]);
  assertEquals(await add("b", "c"), []);
  assertEquals([store.counts.getMany, store.counts.commit], [1, 3]);
  assertEquals(await numbers(store), { a: 1, b: 2, c: 1 });
});

Deno.test("updateEntries() repeats a single entry until it is stored", async () => {
  const inner = memoryStore();
  const store = withHook(
    inner,
    (attempt) => attempt < 5 ? increment(inner, "a") : undefined,
  );
  assertEquals(await update(store, increments("a")), []);
  assertEquals(await numbers(inner), { a: 5 });
});

Deno.test("updateEntries() leaves out all entries if another writer changes all", async () => {
  const inner = memoryStore();
  const store = withHook(inner, () => update(inner, increments("a", "b")));
  assertEquals(await update(store, increments("a", "b")), ["a", "b"]);
  assertEquals(await numbers(inner), { a: 1, b: 1 });
});

Deno.test("updateEntries() throws after too many conflicts, and if the store is unavailable, and stores nothing", async () => {
  const inner = memoryStore();
  const locked = {
    ...delegate(inner),
    commit: () => Promise.resolve(undefined),
  };
  await assertRejects(
    () => update(locked, increments("a", "b")),
    StoreUnavailableError,
    "40 attempts conflicted",
  );
  const down = {
    ...delegate(inner),
    getMany: () => Promise.reject(new StoreUnavailableError("down")),
  };
  await assertRejects(
    () => update(down, increments("a")),
    StoreUnavailableError,
    "down",
  );
  assertEquals(await numbers(inner), {});
});
