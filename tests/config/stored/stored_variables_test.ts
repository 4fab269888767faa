import { assert, assertEquals, assertRejects } from "@std/assert";
import { MAX_NAME_BYTES } from "../../../src/config/variables/snapshot.ts";
import { MAX_PUBLIC_BYTES } from "../../../src/config/variables/tiers.ts";
import {
  ConflictError,
  listVariables,
  MAX_HISTORY,
  newestWrite,
  readHistory,
  readWrites,
  storedEnvironment,
  type WriteOptions,
  writeVariables,
} from "../../../src/config/stored/stored_variables.ts";
import { kvStore } from "../../../src/store/kv.ts";
import {
  type Store,
  StoreFullError,
  StoreUnavailableError,
} from "../../../src/store/store.ts";
import { memoryStore } from "../../../src/store/memory.ts";
import { systemClock } from "../../../src/values/clock.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { delegate, fallibleStore, testWithStores } from "../../_store.ts";

const START = 1_700_000_000_000;

interface Fixture {
  store: Store;
  clock: FakeClock;
  set: (
    values: Record<string, string>,
    options?: Partial<WriteOptions>,
  ) => ReturnType<typeof writeVariables>;
  unset: (
    names: string[],
    options?: Partial<WriteOptions>,
  ) => ReturnType<typeof writeVariables>;
}

function setUp(store: Store) {
  const clock = new FakeClock(START);
  const common = { clock, random: () => 0, ifId: undefined };
  return {
    store,
    clock,
    set: (values, options) =>
      writeVariables(store, new Map(Object.entries(values)), {
        ...common,
        ...options,
      }),
    unset: (names, options) =>
      writeVariables(store, new Map(names.map((name) => [name, undefined])), {
        ...common,
        ...options,
      }),
  };
}

/** Runs one test with each store. */
function testStored(
  name: string,
  run: (fixture: Fixture) => Promise<void>,
) {
  testWithStores(name, (store) => run(setUp(store)));
}

function namesUpTo(count: number): Record<string, string> {
  return Object.fromEntries(
    Array.from(
      { length: count },
      (_, index) => [`N${String(index).padStart(4, "0")}`, "x"],
    ),
  );
}

testStored(
  "writeVariables() returns ids that are times, and ascend even where the time does not",
  async ({ set, clock, store }) => {
    assertEquals(await set({ B: "1", A: "2" }), [
      { name: "B", value: "1", id: START, at: START },
      { name: "A", value: "2", id: START + 1, at: START },
    ]);
    assertEquals(await set({ B: "3" }), [{
      name: "B",
      value: "3",
      id: START + 2,
      at: START,
    }]);
    await clock.tick(500);
    assertEquals(await set({ C: "4" }), [{
      name: "C",
      value: "4",
      id: START + 500,
      at: START + 500,
    }]);
    assertEquals(await listVariables(store), [
      { name: "A", value: "2", id: START + 1, at: START },
      { name: "B", value: "3", id: START + 2, at: START },
      { name: "C", value: "4", id: START + 500, at: START + 500 },
    ]);
    assertEquals(await newestWrite(store), START + 500);
  },
);

testStored(
  "writeVariables() returns ascending ids for a writer whose clock is behind",
  async ({ set, store }) => {
    await set({ A: "1" });
    const behind = {
      clock: new FakeClock(5),
      random: () => 0,
      ifId: undefined,
    };
    assertEquals(await writeVariables(store, new Map([["A", "2"]]), behind), [{
      name: "A",
      value: "2",
      id: START + 1,
      at: 5,
    }]);
  },
);

testStored(
  "writeVariables() keeps values unchanged, up to the maximum size",
  async ({ set, store }) => {
    const values = {
      A_EMPTY: "",
      B_MARK: "\ufeffbegins with a mark",
      C_LINES: "one\r\ntwo\0\x1b[31m",
      D_OTHER: "ä\u{1f600}日本",
      E_LARGE: "€".repeat(Math.floor(MAX_PUBLIC_BYTES / 3)),
      [`F${"_".repeat(MAX_NAME_BYTES - 1)}`]: "x".repeat(MAX_PUBLIC_BYTES),
    };
    await set(values);
    assertEquals(
      (await listVariables(store)).map(({ name, value }) => [name, value]),
      Object.entries(values),
    );
    assertEquals(
      (await readWrites(store, 0)).map(({ name, value }) => [name, value]),
      Object.entries(values),
    );
  },
);

testStored(
  "writeVariables() removes variables that exist and ignores others",
  async ({ set, unset, store }) => {
    await set({ A: "1", B: "2" });
    assertEquals(await unset(["B", "C"]), [{
      name: "B",
      value: undefined,
      id: START + 2,
      at: START,
    }]);
    assertEquals(await unset(["B", "C"]), []);
    assertEquals((await listVariables(store)).map(({ name }) => name), ["A"]);
    assertEquals(await newestWrite(store), START + 2);
  },
);

testStored(
  "readHistory() returns the newest writes first, readWrites() those after an id in order",
  async (fixture) => {
    const { set, unset, store } = fixture;
    await set({ A: "1", B: "2" });
    await unset(["A"]);
    const [first, second, third] = [
      { name: "A", value: "1", id: START, at: START },
      { name: "B", value: "2", id: START + 1, at: START },
      { name: "A", value: undefined, id: START + 2, at: START },
    ];
    assertEquals(await readHistory(store, 10), [third, second, first]);
    assertEquals(await readHistory(store, 2), [third, second]);
    assertEquals(await readWrites(store, START), [second, third]);
    assertEquals(await readWrites(store, START + 2), []);
  },
);

testStored(
  "writeVariables() keeps the newest 1,000 writes and all variables",
  async ({ set, unset, store }) => {
    await set({ OLD: "stays" });
    for (let round = 0; round < 5; round++) await set(namesUpTo(199));
    assertEquals((await readHistory(store, Infinity)).length, 996);
    await set(namesUpTo(199));
    const history = await readHistory(store, Infinity);
    assertEquals([history.length, history[0]?.id, history.at(-1)?.id], [
      MAX_HISTORY,
      START + 1_194,
      START + 195,
    ]);
    await unset(["OLD"]);
    assertEquals((await readHistory(store, Infinity)).map(({ id }) => id), [
      START + 1_195,
      ...history.slice(0, -1).map(({ id }) => id),
    ]);
    assertEquals((await listVariables(store)).length, 199);
  },
);

testStored(
  "writeVariables() splits writes that exceed the limits of a commit",
  async ({ set, store }) => {
    const long = Array.from(
      { length: 150 },
      (_, index) => [String(index).padStart(MAX_NAME_BYTES, "_"), "long"],
    );
    const large = Array.from(
      { length: 12 },
      (_, index) => [`L${index}`, "y".repeat(MAX_PUBLIC_BYTES)],
    );
    const values = {
      ...namesUpTo(450),
      ...Object.fromEntries([...long, ...large]),
    };
    const writes = await set(values);
    assertEquals(
      writes.map(({ id }) => id),
      Object.keys(values).map((_, index) => START + index),
    );
    const { environment } = await storedEnvironment(store);
    assertEquals(environment, environmentOf(values));
    assertEquals((await readHistory(store, 1_000)).length, 612);
  },
);

function environmentOf(values: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).map((
      [name, value],
    ) => [`REP_PUBLIC_${name}`, value]),
  );
}

testStored(
  "writeVariables() without variables writes nothing",
  async ({ set, unset, store }) => {
    assertEquals(await set({}), []);
    assertEquals(await unset([]), []);
    assertEquals(await newestWrite(store), 0);
    assertEquals(await listVariables(store), []);
    assertEquals(await readHistory(store, 10), []);
  },
);

testStored(
  "writeVariables() with ifId writes if the variable has that id",
  async ({ set, unset, store }) => {
    assertEquals((await set({ A: "1" }, { ifId: 0 }))[0]?.id, START);
    assertEquals((await set({ A: "2" }, { ifId: START }))[0]?.id, START + 1);
    assertEquals((await unset(["A"], { ifId: START + 1 }))[0]?.id, START + 2);
    assertEquals((await set({ A: "3" }, { ifId: 0 }))[0]?.id, START + 3);
    assertEquals((await listVariables(store)).map(({ value }) => value), ["3"]);
  },
);

testStored(
  "writeVariables() with ifId throws the current state if the variable has another id",
  async ({ set, unset, store }) => {
    await set({ A: "1" });
    await set({ A: "2" });
    const current = { name: "A", value: "2", id: START + 1, at: START };
    const now = `but its id is ${
      START + 1
    }, with the value "2", written at 2023-11-14T22:13:20.000Z`;
    const stale = await assertRejects(
      () => set({ A: "3" }, { ifId: START }),
      ConflictError,
    );
    assertEquals(
      stale.message,
      `Cannot write REP_PUBLIC_A: expected its id to be ${START}, ${now}`,
    );
    assertEquals(stale.current, current);
    const existing = await assertRejects(
      () => set({ A: "3" }, { ifId: 0 }),
      ConflictError,
    );
    assertEquals(
      existing.message,
      `Cannot write REP_PUBLIC_A: expected it not to exist, ${now}`,
    );
    const missing = await assertRejects(
      () => unset(["B"], { ifId: 7 }),
      ConflictError,
    );
    assertEquals(
      missing.message,
      "Cannot write REP_PUBLIC_B: expected its id to be 7, but it does not exist",
    );
    assertEquals(missing.current, undefined);
    assertEquals(await listVariables(store), [current]);
    assertEquals((await readHistory(store, 10)).length, 2);
  },
);

testStored(
  "writeVariables() with ifId requires exactly one variable",
  async ({ set, store }) => {
    for (const values of [{ A: "1", B: "2" }, {}]) {
      await assertRejects(
        async () => await set(values, { ifId: 0 }),
        RangeError,
        "expected one variable",
      );
    }
    assertEquals(await listVariables(store), []);
  },
);

testStored(
  "writeVariables() with ifId throws if another writer commits between its read and its commit",
  async ({ store }) => {
    const other = setUp(store);
    let isFirst = true;
    const { set } = setUp({
      ...delegate(store),
      async commit(checks, writes) {
        if (isFirst) await other.set({ A: "theirs" });
        isFirst = false;
        return await store.commit(checks, writes);
      },
    });
    // A FakeClock would not fire the timer of the retry, whose pause is 0 ms.
    const mine = set({ A: "mine" }, { ifId: 0, clock: systemClock });
    await assertRejects(
      () => mine,
      ConflictError,
      "expected it not to exist, but its id is",
    );
    assertEquals((await listVariables(store)).map(({ value }) => value), [
      "theirs",
    ]);
  },
);

testStored(
  "writeVariables() throws if every attempt conflicts",
  async ({ store }) => {
    const busy = {
      ...delegate(store),
      commit: () => Promise.resolve(undefined),
    };
    await assertRejects(
      () => setUp(busy).set({ A: "1" }, { clock: systemClock }),
      StoreUnavailableError,
    );
  },
);

testStored(
  "storedEnvironment() returns the names as in an environment",
  async ({ set, store }) => {
    await set({ THEME: "dark", ["__proto__"]: "an ordinary name" });
    const stored = await storedEnvironment(store);
    assertEquals(Object.entries(stored.environment), [
      ["REP_PUBLIC_THEME", "dark"],
      ["REP_PUBLIC___proto__", "an ordinary name"],
    ]);
  },
);

/** Increments a number with optimistic concurrency control. */
async function increment(store: Store) {
  for (;;) {
    const [counter] = await listVariables(store);
    const next = new Map([["COUNT", String(Number(counter?.value ?? 0) + 1)]]);
    try {
      await writeVariables(store, next, {
        clock: systemClock,
        random: Math.random,
        ifId: counter?.id ?? 0,
      });
      return;
    } catch (error) {
      if (!(error instanceof ConflictError)) throw error; // another writer was faster: read again
    }
  }
}

testStored(
  "writeVariables() with ifId loses none of 20 concurrent increments",
  async ({ store }) => {
    await Promise.all(Array.from({ length: 20 }, () => increment(store)));
    assertEquals((await listVariables(store)).map(({ value }) => value), [
      "20",
    ]);
    const values = (await readWrites(store, 0)).map(({ value }) =>
      Number(value)
    );
    assertEquals(values, Array.from({ length: 20 }, (_, index) => index + 1));
  },
);

/** Opens two connections to one file, like two processes. */
async function onOneFile(
  run: (stores: Store[]) => Promise<void>,
) {
  const folder = await Deno.makeTempDir();
  const stores = await Promise.all(
    [1, 2].map(async () => kvStore(await Deno.openKv(`${folder}/kv.sqlite3`))),
  );
  try {
    await run(stores);
  } finally {
    for (const store of stores) store.close();
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("writeVariables() loses no write of two connections to one file", async () => {
  await onOneFile(async (stores) => {
    const options = {
      clock: systemClock,
      random: Math.random,
      ifId: undefined,
    };
    const written = await Promise.all(stores.map(async (store, writer) => {
      const writes = [];
      for (let index = 0; index < 20; index++) {
        const names = [`W${writer}_${index}`, `W${writer}_GONE`];
        writes.push(
          ...await writeVariables(
            store,
            new Map(names.map((name) => [name, `${index}`])),
            options,
          ),
        );
        writes.push(
          ...await writeVariables(
            store,
            new Map(names.slice(1).map((name) => [name, undefined])),
            options,
          ),
        );
      }
      return writes;
    }));
    const all = written.flat().sort((a, b) => a.id - b.id);
    assertEquals([all.length, new Set(all.map(({ id }) => id)).size], [
      120,
      120,
    ]);
    for (const store of stores) {
      assertEquals(await readWrites(store, 0), all);
      const names = (await listVariables(store)).map(({ name }) => name);
      const expected = [0, 1].flatMap((writer) =>
        Array.from({ length: 20 }, (_, index) => `W${writer}_${index}`)
      );
      assertEquals(names, expected.sort());
      assert(await newestWrite(store) === all.at(-1)?.id);
    }
  });
});

const DOWN = new StoreUnavailableError("down");
const NOTHING = "nothing was written: repeat it once the store is available";
const PERHAPS =
  "it may have been written, or a part of it: compare with the history, or repeat it";

Deno.test("writeVariables() says whether something may have been written when the store fails", async () => {
  const failures = [
    [{ error: DOWN }, `down; ${NOTHING}`],
    [{ error: DOWN, operations: ["commit"] }, `down; ${PERHAPS}`],
    [
      { error: new StoreFullError("disk full"), operations: ["commit"] },
      `Cannot use the store: disk full; ${NOTHING}`,
    ],
  ] as const;
  for (const [failure, message] of failures) {
    const { set } = setUp(fallibleStore(memoryStore(), () => true, failure));
    await assertRejects(() => set({ A: "1" }), StoreUnavailableError, message);
  }
});

Deno.test("writeVariables() says that a part may have been written when the store fails between two commits", async () => {
  const store = memoryStore();
  let commits = 0;
  const failing = fallibleStore(store, () => commits > 0, { error: DOWN });
  const { set } = setUp({
    ...failing,
    async commit(...args) {
      const version = await failing.commit(...args);
      commits++;
      return version;
    },
  });
  const names = Array.from({ length: 400 }, (_, index) => [`A${index}`, ""]);
  await assertRejects(
    () => set(Object.fromEntries(names)),
    StoreUnavailableError,
    `down; ${PERHAPS}`,
  );
  assertEquals((await listVariables(store)).length, 330);
});
