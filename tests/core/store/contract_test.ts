import { assertEquals, assertNotEquals } from "@std/assert";
import { storeOfApp } from "../../../src/core/store/app_store.ts";
import { silentLog } from "../../../src/core/observe/log.ts";
import { kvStore } from "../../../src/engines/kv.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { openStore } from "../../../src/engines/open.ts";
import type { Key, ListOptions, Store } from "../../../src/core/store/store.ts";
import { findPostgres, PostgresServer } from "../../../tools/postgres.ts";
import { FAST, MISSING } from "../../_postgres.ts";

/** The stores that have to satisfy the contract, each empty. */
const STORES: { name: string; open?: () => Promise<Store> }[] = [
  { name: "memoryStore()", open: () => Promise.resolve(memoryStore()) },
  {
    name: "kvStore()",
    open: async () => kvStore(await Deno.openKv(":memory:")),
  },
  { name: "openPostgresStore()", ...await startPostgres() },
];

const CONTRACT_STORES = STORES.flatMap((store) => [store, ofApp(store)]);

/** The same store, of which an app has a part. */
function ofApp({ name, open }: (typeof STORES)[number]) {
  return {
    name: `storeOfApp(${name})`,
    ...(open && { open: async () => storeOfApp(await open(), "shop") }),
  };
}

/**
 * Returns a function that opens an empty schema of a PostgreSQL server for each test; nothing if there is no
 * PostgreSQL.
 */
async function startPostgres(): Promise<{ open?: () => Promise<Store> }> {
  const bin = await findPostgres();
  if (bin === undefined) return {};
  let server: PostgresServer;
  Deno.test.beforeAll(async () =>
    void (server = await PostgresServer.create(bin, FAST))
  );
  Deno.test.afterAll(() => server[Symbol.asyncDispose]());
  let schemas = 0;
  return {
    open: () => openStore(server.url(`schema=test_${schemas++}`), silentLog),
  };
}

function contract(rule: string, test: (store: Store) => Promise<void>) {
  for (const { name, open } of CONTRACT_STORES) {
    if (open === undefined) {
      Deno.test({
        name: `without ${MISSING}: ${name} ${rule}`,
        ignore: true,
        fn() {},
      });
      continue;
    }
    Deno.test(`${name} ${rule}`, async () => {
      const store = await open();
      try {
        await test(store);
      } finally {
        store.close();
      }
    });
  }
}

/** Stores several values in one commit. */
async function put(
  store: Store,
  entries: readonly (readonly [Key, unknown])[],
) {
  const version = await store.commit(
    [],
    entries.map(([key, value]) => ({ key, value })),
  );
  if (version === undefined) throw new Error("The commit conflicted");
  return version;
}

async function lastParts(store: Store, prefix: Key, options?: ListOptions) {
  return (await store.list(prefix, options)).map(({ key }) => key.at(-1));
}

/**
 * Reads a key after each hint. Returns a function that stops that and waits for the reads in progress, which would fail
 * when the store is closed: a commit may cause several hints.
 */
function watchValues(
  store: Store,
  key: Key,
  onValue: (value: unknown) => void,
): () => Promise<unknown> {
  const reads: Promise<void>[] = [];
  const stop = store.watch(
    key,
    () =>
      void reads.push(store.get(key).then((entry) => onValue(entry?.value))),
  );
  return () => {
    stop();
    return Promise.all(reads);
  };
}

contract("returns what was stored, with its key and version", async (store) => {
  const version = await put(store, [[["folder", "name"], {
    text: "ä\u{1f600}\0",
    list: [1, 2],
  }]]);
  const expected = {
    key: ["folder", "name"],
    value: { text: "ä\u{1f600}\0", list: [1, 2] },
    version,
  };
  assertEquals(await store.get<unknown>(["folder", "name"]), expected);
  assertEquals(await store.list<unknown>(["folder"]), [expected]);
});

contract(
  "getMany() returns entries in the order of the keys, and nothing for a key that does not exist",
  async (store) => {
    const version = await put(store, [
      [["a"], 1],
      [["f", "b"], { text: "\0" }],
      [["f", 2], 3],
      [["f", "2"], 4],
    ]);
    assertEquals(
      await store.getMany<unknown>([["f", 2], ["nowhere"], ["a"], ["f", "2"], [
        "f",
        "b",
      ], ["a"]]),
      [
        { key: ["f", 2], value: 3, version },
        undefined,
        { key: ["a"], value: 1, version },
        { key: ["f", "2"], value: 4, version },
        { key: ["f", "b"], value: { text: "\0" }, version },
        { key: ["a"], value: 1, version },
      ],
    );
    assertEquals(await store.getMany([]), []);
  },
);

contract(
  "getMany() reads more keys than a database accepts at once",
  async (store) => {
    const keys = Array.from({ length: 101 }, (_, index): Key => ["f", index]);
    await put(store, keys.map((key, index) => [key, index]));
    assertEquals(
      (await store.getMany(keys.toReversed())).map((entry) => entry?.value),
      [...keys.keys()].toReversed(),
    );
  },
);

contract("commit() accepts maxChecks checks", async (store) => {
  const keys = Array.from(
    { length: store.maxChecks },
    (_, index): Key => ["f", index],
  );
  const write = (version: string | null) =>
    store.commit(
      keys.map((key) => ({ key, version })),
      keys.map((key) => ({ key, value: version })),
    );
  const version = await write(null);
  assertNotEquals(version, undefined);
  assertNotEquals(await write(version ?? null), undefined);
  assertEquals(await write(null), undefined);
});

contract("preserves values of every type", async (store) => {
  const bytes = new Uint8Array([0, 255]);
  const values = [
    "",
    "ä\0",
    0,
    -1.5,
    { a: { b: "c" } },
    { a: bytes },
    [1],
    bytes,
    null,
    false,
  ];
  await put(store, values.map((value, index) => [["values", index], value]));
  const stored = await store.list(["values"]);
  assertEquals(stored.map(({ value }) => value), values);
});

contract(
  "separates the parts of a key whatever their content",
  async (store) => {
    const keys: Key[] = [
      ["a", "b,c"],
      ["a,b", "c"],
      ["a", 'b","c'],
      ["a", "b", "c"],
      ["a", 1],
      ["a", "1"],
    ];
    await put(store, keys.map((key, index) => [key, index]));
    const entries = await Promise.all(
      keys.map((key) => store.get<number>(key)),
    );
    assertEquals(entries.map((entry) => entry?.value), [...keys.keys()]);
    assertEquals(await lastParts(store, ["a,b"]), ["c"]);
    assertEquals(await lastParts(store, ["a", "b"]), ["c"]);
  },
);

contract(
  "commit() changes the version even if the value stays the same",
  async (store) => {
    const before = await put(store, [[["a"], 1]]);
    assertNotEquals(await put(store, [[["a"], 1]]), before);
  },
);

contract(
  "commit() never repeats a version, also not for a key that was deleted",
  async (store) => {
    const versions = new Set<string>();
    for (let commits = 0; commits < 3; commits++) {
      versions.add(await put(store, [[["a"], 1]]));
      const deleted = await store.commit([], [{ key: ["a"] }]);
      versions.add(deleted ?? "conflict");
      versions.add(await put(store, [[["b"], 1]]));
    }
    assertEquals(versions.size, 9);
  },
);

contract(
  "commit() writes if every check passes, and nothing otherwise",
  async (store) => {
    const old = await put(store, [[["a"], 0], [["b"], 0], [["deleted"], 0]]);
    const version = await put(store, [[["a"], 1]]);
    await store.commit([], [{ key: ["deleted"] }]);
    const cases: [passes: boolean, checks: Record<string, string | null>][] = [
      [true, { a: version }],
      [true, { a: version, b: old, nowhere: null }],
      [true, { deleted: null }],
      [false, { a: old }],
      [false, { a: null }],
      [false, { nowhere: version }],
      [false, { deleted: old }],
      [false, { a: version, b: old, nowhere: version }],
    ];
    const kept = await store.getMany<unknown>([["a"], ["b"], ["deleted"]]);
    for (const [passes, versions] of cases) {
      await put(store, [[["x"], "before"], [["y"], "before"]]);
      const checks = Object.entries(versions)
        .map(([name, version]) => ({ key: [name], version }));
      const writes = ["x", "y"].map((name) => ({
        key: [name],
        value: "after",
      }));
      const written = await store.commit(checks, writes);
      const values = await Promise.all([store.get(["x"]), store.get(["y"])]);
      const expected = passes ? "after" : "before";
      assertEquals(
        [versions, written !== undefined, ...values.map((it) => it?.value)],
        [versions, passes, expected, expected],
      );
    }
    assertEquals(await store.getMany([["a"], ["b"], ["deleted"]]), kept);
  },
);

contract(
  "commit() deletes a key that is written without a value",
  async (store) => {
    await put(store, [[["f", "a"], 1], [["f", "b"], 2]]);
    await store.commit([], [{ key: ["f", "a"] }]);
    assertEquals(await store.get(["f", "a"]), undefined);
    assertEquals(await lastParts(store, ["f"]), ["b"]);
  },
);

contract(
  "commit() ignores a delete of a key that does not exist, and applies the last of two writes to one",
  async (store) => {
    const writes = [
      { key: ["nowhere"] },
      { key: ["a"], value: 1 },
      { key: ["a"], value: 2 },
      { key: ["deleted first"] },
      { key: ["deleted first"], value: 3 },
      { key: ["deleted last"], value: 4 },
      { key: ["deleted last"] },
    ];
    assertNotEquals(await store.commit([], writes), undefined);
    assertEquals(await store.get(["nowhere"]), undefined);
    assertEquals((await store.get(["a"]))?.value, 2);
    assertEquals((await store.get(["deleted first"]))?.value, 3);
    assertEquals(await store.get(["deleted last"]), undefined);
  },
);

contract(
  "commit() succeeds for one of many writers with the same version",
  async (store) => {
    const version = await put(store, [[["a"], 0]]);
    const attempts = Array.from(
      { length: 20 },
      (_, index) =>
        store.commit([{ key: ["a"], version }], [{
          key: ["a"],
          value: index + 1,
        }]),
    );
    const winners = (await Promise.all(attempts)).flatMap((result, index) =>
      result === undefined ? [] : [index + 1]
    );
    assertEquals(winners.length, 1);
    assertEquals((await store.get(["a"]))?.value, winners[0]);
  },
);

contract(
  "list() orders entries by the last part of the key, strings before numbers",
  async (store) => {
    const strings = ["", "B", "a", "a\0", "aa", "b"];
    const sorted = [...strings, 0, 1.5, 9, 10, 1_700_000_000_000];
    const shuffled = [3, 9, 0, 7, 5, 1, 10, 8, 2, 6, 4];
    await put(store, shuffled.map((index) => [["f", sorted[index] ?? ""], 1]));
    assertEquals(await lastParts(store, ["f"]), sorted);
    const reversed = await lastParts(store, ["f"], { reverse: true });
    assertEquals(reversed, sorted.toReversed());
  },
);

contract(
  "list() returns only entries directly under the prefix",
  async (store) => {
    const keys = [["f"], ["f", "a"], ["f", "a", "deep"], ["f", "b"], [
      "ff",
      "c",
    ]];
    await put(store, keys.map((key) => [key, 0]));
    assertEquals(await lastParts(store, ["f"]), ["a", "b"]);
    assertEquals(await lastParts(store, ["f"], { limit: 2 }), ["a", "b"]);
    const reversed = await lastParts(store, ["f"], { limit: 2, reverse: true });
    assertEquals(reversed, ["b", "a"]);
  },
);

contract(
  "list() starts at `from`, and ends after `limit` entries",
  async (store) => {
    await put(store, [1, 2, 3, 4].map((name) => [["f", name], name]));
    const cases: [options: ListOptions, names: number[]][] = [
      [{ from: 3 }, [3, 4]],
      [{ from: 2.5 }, [3, 4]],
      [{ from: 0 }, [1, 2, 3, 4]],
      [{ from: 5 }, []],
      [{ limit: 2 }, [1, 2]],
      [{ limit: 9 }, [1, 2, 3, 4]],
      [{ limit: 0 }, []],
      [{ limit: 2, reverse: true }, [4, 3]],
      [{ from: 2, limit: 2 }, [2, 3]],
      [{ from: 2, limit: 2, reverse: true }, [4, 3]],
      [{ from: 4, limit: 2, reverse: true }, [4]],
    ];
    for (const [options, names] of cases) {
      assertEquals([options, await lastParts(store, ["f"], options)], [
        options,
        names,
      ]);
    }
  },
);

contract(
  "list() starts right after a name if `from` is that name and a NUL",
  async (store) => {
    await put(store, ["", "a", "a\0", "b"].map((name) => [["f", name], 1]));
    assertEquals(await lastParts(store, ["f"], { from: "a\0" }), ["a\0", "b"]);
  },
);

contract(
  "list() returns everything without a limit, across pages of a database",
  async (store) => {
    const names = Array.from({ length: 1_200 }, (_, index) => index);
    for (let first = 0; first < names.length; first += 400) {
      await put(
        store,
        names.slice(first, first + 400).map((name) => [["f", name], name]),
      );
    }
    assertEquals(await lastParts(store, ["f"]), names);
    assertEquals(
      await lastParts(store, ["f"], { limit: 700 }),
      names.slice(0, 700),
    );
  },
);

contract(
  "list() returns a copy that later commits do not modify",
  async (store) => {
    await put(store, [[["f", "a"], 1]]);
    const before = await store.list(["f"]);
    await put(store, [[["f", "b"], 2]]);
    assertEquals(before.length, 1);
  },
);

contract(
  "watch() calls back after a commit to the key, and after a delete",
  async (store) => {
    for (const value of [1, undefined]) {
      const hinted = Promise.withResolvers<void>();
      const stop = watchValues(store, ["a"], (found) => {
        if (found === value) hinted.resolve();
      });
      await store.commit([], [{ key: ["a"], value }]);
      await hinted.promise;
      await stop();
    }
  },
);

contract("watch() does not call back after it was stopped", async (store) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  let late = 0;
  const stopFirst = store.watch(["a"], () => late++);
  stopFirst();
  stopFirst();
  const before = late;
  const stop = watchValues(store, ["a"], (value) => value === 2 && resolve());
  await put(store, [[["a"], 2]]);
  await promise;
  assertEquals(late, before);
  await stop();
});

contract("close() stops all watches", async (store) => {
  await put(store, [[["a"], 1]]);
  store.watch(["a"], () => {});
}); // the leak check would report one that continues
