import { assertEquals, assertRejects } from "@std/assert";
import { kvStore } from "../../src/store/kv.ts";
import { retryConflicts } from "../../src/store/commits.ts";
import type { Store } from "../../src/store/store.ts";
import { systemClock } from "../../src/values/clock.ts";
import { FakeClock } from "../../tools/fake_clock.ts";

/** A database with the given result for every commit. */
function withCommit(
  kv: Deno.Kv,
  commit: () => Promise<Deno.KvCommitResult | Deno.KvCommitError>,
): Deno.Kv {
  return new Proxy(kv, {
    get(target, name) {
      if (name === "atomic") {
        return () => atomicWithCommit(target.atomic(), commit);
      }
      const value = Reflect.get(target, name);
      return value instanceof Function ? value.bind(target) : value;
    },
  });
}

function atomicWithCommit(
  atomic: Deno.AtomicOperation,
  commit: () => Promise<unknown>,
): Deno.AtomicOperation {
  return new Proxy(atomic, {
    get(target, name) {
      if (name === "commit") return commit;
      const value = Reflect.get(target, name);
      return value instanceof Function ? value.bind(target) : value;
    },
  });
}

Deno.test("kvStore() treats a locked database as a conflict", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = kvStore(
    withCommit(kv, () => Promise.reject(new TypeError("database is locked"))),
  );
  assertEquals(
    await store.commit([{ key: ["a"], version: null }], [{
      key: ["a"],
      value: 1,
    }]),
    undefined,
  );
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
    const store = kvStore(withCommit(kv, () => Promise.reject(error)));
    const thrown = await assertRejects(() =>
      store.commit([], [{ key: ["a"], value: 1 }])
    );
    assertEquals(thrown, error);
  }
});

Deno.test("kvStore() is retried by retryConflicts() while the database is locked", async () => {
  using kv = await Deno.openKv(":memory:");
  let lockedAttempts = 3;
  const store = kvStore(withCommit(kv, () => {
    if (lockedAttempts-- > 0) {
      return Promise.reject(new TypeError("database is locked"));
    }
    return kv.atomic().set(["rep", "a"], 1).commit();
  }));
  const options = { clock: systemClock, random: () => 0 };
  const version = await retryConflicts(
    () => store.commit([], [{ key: ["a"], value: 1 }]),
    options,
  );
  assertEquals(await store.get(["a"]), { key: ["a"], value: 1, version });
});

Deno.test("kvStore() prefixes all keys, so that it can share a database", async () => {
  using kv = await Deno.openKv(":memory:");
  await kv.set(["event", 1], "of the application");
  const store = kvStore(kv);
  assertEquals(await store.get(["event", 1]), undefined);
  await store.commit([{ key: ["event", 1], version: null }], [{
    key: ["event", 1],
    value: "ours",
  }]);
  const keys = (await Array.fromAsync(kv.list({ prefix: [] }))).map(({ key }) =>
    key
  );
  assertEquals(keys, [["event", 1], ["rep", "event", 1]]);
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
  const broken = new Proxy(kv, {
    get(target, name) {
      if (name === "watch") return () => ReadableStream.from(oneThenError());
      const value = Reflect.get(target, name);
      return value instanceof Function ? value.bind(target) : value;
    },
  });
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
