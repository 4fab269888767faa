import { assertEquals, assertRejects } from "@std/assert";
import { kvStore } from "../../src/store/kv.ts";
import { retryConflicts } from "../../src/store/commits.ts";
import type { Store } from "../../src/store/store.ts";
import { systemClock } from "../../src/values/clock.ts";
import { FakeClock } from "../../tools/fake_clock.ts";

/** Replaces one method of an object. */
function withMethod<T extends object>(
  target: T,
  replaced: string,
  method: (...args: never[]) => unknown,
): T {
  return new Proxy(target, {
    get(_, name) {
      if (name === replaced) return method;
      const value = Reflect.get(target, name);
      return value instanceof Function ? value.bind(target) : value;
    },
  });
}

/** A store whose commits are rejected with an error. */
function failingStore(kv: Deno.Kv, error: Error): Store {
  const commit = () => Promise.reject(error);
  return kvStore(
    withMethod(kv, "atomic", () => withMethod(kv.atomic(), "commit", commit)),
  );
}

Deno.test("kvStore() treats a locked database as a conflict", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = failingStore(kv, new TypeError("database is locked"));
  const writes = [{ key: ["a"], value: 1 }];
  assertEquals(await store.commit([], writes), undefined);
});

Deno.test("kvStore() rethrows any other error", async () => {
  using kv = await Deno.openKv(":memory:");
  for (
    const error of [
      new TypeError("disk I/O error"),
      new TypeError("database or disk is full"),
      new Error("database is locked"), // not what Deno throws
      new Deno.errors.BadResource("Bad resource ID"),
    ]
  ) {
    const store = failingStore(kv, error);
    const commit = () => store.commit([], [{ key: ["a"], value: 1 }]);
    assertEquals(await assertRejects(commit), error);
  }
});

Deno.test("kvStore() prefixes all keys, so that it can share a database", async () => {
  using kv = await Deno.openKv(":memory:");
  await kv.set(["event", 1], "of the application");
  const store = kvStore(kv);
  assertEquals(await store.get(["event", 1]), undefined);
  await store.commit([], [{ key: ["event", 1], value: "ours" }]);
  const entries = await Array.fromAsync(kv.list({ prefix: [] }));
  assertEquals(entries.map(({ key }) => key), [["event", 1], [
    "rep",
    "event",
    1,
  ]]);
  assertEquals((await kv.get(["event", 1])).value, "of the application");
});

Deno.test("kvStore() closes its database", async () => {
  const kv = await Deno.openKv(":memory:");
  kvStore(kv).close();
  await assertRejects(() => kv.get(["a"]));
});

async function add(store: Store, amount: number): Promise<string | undefined> {
  const entry = await store.get<number>(["sum"]);
  const check = { key: ["sum"], version: entry?.version ?? null };
  return await store.commit([check], [{
    key: ["sum"],
    value: (entry?.value ?? 0) + amount,
  }]);
}

Deno.test("kvStore() loses no commit of two connections to one file", async () => {
  const folder = await Deno.makeTempDir();
  const stores = await Promise.all(
    [1, 2].map(async () => kvStore(await Deno.openKv(`${folder}/kv.sqlite3`))),
  );
  try {
    const options = { clock: systemClock, random: Math.random };
    const commits = Array.from({ length: 50 });
    await Promise.all(
      stores.flatMap((store) =>
        commits.map(() => retryConflicts(() => add(store, 1), options))
      ),
    );
    assertEquals((await stores[0]?.get<number>(["sum"]))?.value, 100);
  } finally {
    for (const store of stores) store.close();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("kvStore() ignores an error of a watch", async () => {
  using kv = await Deno.openKv(":memory:");
  const watch = () => ReadableStream.from(oneThenError());
  const broken = withMethod(kv, "watch", watch);
  const clock = new FakeClock();
  let hints = 0;
  const stop = kvStore(broken).watch(["a"], () => hints++);
  await clock.tick(0);
  stop();
  assertEquals(hints, 1);
});

async function* oneThenError() {
  yield await Promise.resolve([]);
  throw new TypeError("The server denies access");
}
