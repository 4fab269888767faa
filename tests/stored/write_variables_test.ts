import { assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { MAX_NAME_BYTES } from "../../src/core/config/variables/snapshot.ts";
import { MAX_PUBLIC_BYTES } from "../../src/core/config/variables/tiers.ts";
import {
  listVariables,
  MAX_HISTORY,
  newestWrite,
  readHistory,
  storedEnvironment,
  VARIABLES_HEAD_KEY,
  writeBackVariables,
} from "../../src/core/config/stored/stored_variables.ts";
import {
  ConflictError,
  type WriteOptions,
  writeVariables,
} from "../../src/stored/write_variables.ts";
import { kvStore } from "../../src/engines/kv.ts";
import {
  type Store,
  StoreUnavailableError,
} from "../../src/core/store/store.ts";
import { memoryStore } from "../../src/engines/memory.ts";
import { systemClock } from "../../src/core/values/clock.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { delegate, fallibleStore, testWithStores } from "../_store.ts";
import { TempDirectory } from "../_temp.ts";

const START = 1_700_000_000_000;

/** Writes of variables to a store, with a clock of its own. */
function setUp(store: Store) {
  const clock = new FakeClock(START);
  const write = (
    values: readonly [string, string | undefined][],
    options: Partial<WriteOptions> = {},
  ) => {
    const defaults = { clock, random: () => 0, ifId: undefined };
    return writeVariables(store, new Map(values), { ...defaults, ...options });
  };
  return {
    store,
    clock,
    set: (values: Record<string, string>, options?: Partial<WriteOptions>) =>
      write(Object.entries(values), options),
    unset: (names: string[], options?: Partial<WriteOptions>) =>
      write(names.map((name) => [name, undefined]), options),
    /** Deletes everything. */
    async clear() {
      for (const prefix of ["variable", "write", "cause"]) {
        const entries = await store.list([prefix]);
        await store.commit([], entries.map(({ key }) => ({ key })));
      }
      await store.commit([], [{ key: VARIABLES_HEAD_KEY }]);
    },
  };
}

/** Returns all writes that the history contains, the oldest first. */
async function allWrites(store: Store) {
  return (await readHistory(store, MAX_HISTORY)).toReversed();
}

/** Runs one test with each store. */
function testStored(
  name: string,
  run: (fixture: ReturnType<typeof setUp>) => Promise<void>,
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
  async ({ set }) => {
    await set({ A: "1" });
    const clock = new FakeClock(5);
    assertEquals(await set({ A: "2" }, { clock }), [
      { name: "A", value: "2", id: START + 1, at: 5 },
    ]);
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
      (await allWrites(store)).map(({ name, value }) => [name, value]),
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
  "readHistory() returns the newest writes first",
  async (fixture) => {
    const { set, unset, store } = fixture;
    await set({ A: "1", B: "2" });
    await unset(["A"]);
    const nothing = {
      previous: undefined,
      command: undefined,
      by: undefined,
      why: undefined,
      undoes: undefined,
    };
    const [first, second, third] = [
      { ...nothing, name: "A", value: "1", id: START, at: START },
      { ...nothing, name: "B", value: "2", id: START + 1, at: START },
      {
        ...nothing,
        name: "A",
        value: undefined,
        id: START + 2,
        at: START,
        previous: "1",
      },
    ];
    assertEquals(await readHistory(store, 10), [third, second, first]);
    assertEquals(await readHistory(store, 2), [third, second]);
  },
);

testStored(
  "readHistory() returns the value before, and the cause with each write of a commit",
  async ({ set, unset, store }) => {
    const why = "€".repeat(512);
    await set({ A: "1", B: "x" }, { cause: { command: "set", by: "al", why } });
    await set({ A: "" }, { cause: { command: "module" } });
    await unset(["A", "B"], { cause: { command: "unset", by: "bo" } });
    const shown = (await allWrites(store)).map(
      ({ name, previous, command, by, why }) => {
        return [name, previous, command, by, why];
      },
    );
    assertEquals(shown, [
      ["A", undefined, "set", "al", why],
      ["B", undefined, "set", "al", why],
      ["A", "1", "module", undefined, undefined],
      ["A", "", "unset", "bo", undefined],
      ["B", "x", "unset", "bo", undefined],
    ]);
    const [newest] = await readHistory(store, 1);
    assertEquals([newest?.by, newest?.previous], ["bo", "x"]);
  },
);

testStored(
  "writeVariables() keeps values before as far as one commit and one entry have room",
  async ({ set, store }) => {
    const names = Array.from({ length: 100 }, (_, index) => `N${index}`);
    const all = (value: string) =>
      Object.fromEntries(names.map((name) => [name, value]));
    await set({ LONG: "x".repeat(MAX_PUBLIC_BYTES) });
    await set({ LONG: "y".repeat(MAX_PUBLIC_BYTES), OTHER: "" });
    await set(all("x".repeat(1_500)));
    await set(all("")); // one commit, of 150,000 bytes of values before
    const history = await readHistory(store, 102);
    const kept = history.filter(({ previous }) => previous !== undefined);
    assertEquals(kept.length, 80);
    assertEquals(kept[0]?.previous?.length, 1_500);
  },
);

testStored(
  "writeVariables() keeps the cause of a commit until the last of its writes is removed",
  async ({ set, store }) => {
    const cause = { by: "al" };
    await set({ A: "", B: "" }, { cause });
    for (const count of [323, 323, 323, 29]) await set(namesUpTo(count));
    for (const first of ["B", "N0000"]) {
      await set({ C: "" });
      const [oldest] = await allWrites(store);
      const by = first === "B" ? "al" : undefined;
      assertEquals([oldest?.name, oldest?.by], [first, by]);
    }
    const [oldest] = await store.list<{ writes: number }>(["cause"]);
    assertEquals(oldest?.value.writes, 323);
  },
);

testStored(
  "writeVariables() removes causes with their writes, a few with each commit",
  async ({ set, store }) => {
    const count = async () => (await store.list(["cause"])).length;
    for (let index = 0; index < MAX_HISTORY; index++) {
      await set({ [`S${index}`]: "" });
    }
    assertEquals(await count(), MAX_HISTORY);
    await set(namesUpTo(323)); // as many as one commit contains
    assertEquals(await count(), MAX_HISTORY - 3);
    await set({ A: "1" });
    assertEquals(await count(), MAX_HISTORY - 6);
    assertEquals((await readHistory(store, 2)).length, 2);
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
    const values = namesUpTo(450);
    for (let index = 0; index < 150; index++) {
      values[String(index).padStart(MAX_NAME_BYTES, "_")] = "long";
    }
    for (let index = 0; index < 12; index++) {
      values[`L${index}`] = "y".repeat(MAX_PUBLIC_BYTES);
    }
    const names = Object.keys(values);
    const writes = await set(values);
    assertEquals(
      writes.map(({ id }) => id),
      names.map((_, index) => START + index),
    );
    const stored = await listVariables(store);
    const found = stored.map(({ name, value }) => [name, value]);
    assertEquals(Object.fromEntries(found), values);
    assertEquals((await readHistory(store, 1_000)).length, 612);
  },
);

testStored(
  "writeVariables() with ifId writes if the variable has that id, and throws the current state if not",
  async ({ set, unset, store }) => {
    await set({ A: "1" }, { ifId: 0 });
    await set({ A: "2" }, { ifId: START });
    const now = `but its id is ${
      START + 1
    }, with the value "2", written at 2023-11-14T22:13:20.000Z`;
    const conflicts = [
      [
        () => set({ A: "3" }, { ifId: START }),
        "A",
        `its id to be ${START}, ${now}`,
      ],
      [
        () => set({ A: "3" }, { ifId: 0 }),
        "A",
        `it not to exist, ${now}`,
      ],
      [
        () => unset(["B"], { ifId: 7 }),
        "B",
        "its id to be 7, but it does not exist",
      ],
    ] as const;
    for (const [write, name, expected] of conflicts) {
      const message = `Cannot write REP_PUBLIC_${name}: expected ${expected}`;
      await assertRejects(write, ConflictError, message);
    }
    assertEquals((await readHistory(store, 10)).length, 2);
    await unset(["A"], { ifId: START + 1 });
    await set({ A: "3" }, { ifId: 0 });
    assertEquals((await listVariables(store)).map(({ value }) => value), ["3"]);
  },
);

testStored(
  "writeVariables() with ifId requires exactly one variable",
  async ({ set, store }) => {
    assertEquals(await set({}), []);
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

testStored(
  "storedEnvironment() returns what is known until there is another write, also one that has the same version",
  async ({ set, store }) => {
    await set({ THEME: "dark" });
    const known = await storedEnvironment(store);
    assertEquals(await storedEnvironment(store, known) === known, true);
    const restored = { ...known, newestWrite: 1, environment: {} };
    assertEquals(await storedEnvironment(store, restored), known);
    await set({ THEME: "light" });
    const { environment } = await storedEnvironment(store, known);
    assertEquals(environment, { REP_PUBLIC_THEME: "light" });
  },
);

testStored(
  "writeBackVariables() restores values and ids, in as many commits as that takes",
  async ({ set, store, clear }) => {
    await set(namesUpTo(700));
    const lost = await storedEnvironment(store);
    await clear();
    await writeBackVariables(store, lost, await storedEnvironment(store));
    const { lineage, version: _, ...found } = await storedEnvironment(store);
    const { version: __, newestWrite, ...known } = lost;
    assertNotEquals(lineage, known.lineage);
    const expected = { ...known, newestWrite: newestWrite + 1, lineage };
    assertEquals({ ...found, lineage }, expected);
    assertEquals((await readHistory(store, 1_000)).length, 700);
  },
);

testStored(
  "writeBackVariables() restores more variables than the history keeps, and the next write succeeds",
  async ({ set, store }) => {
    const variables = Array.from({ length: 2_100 }, (_, index) => {
      return { name: `V${index}`, value: "1", id: index + 1, at: 0 };
    });
    const lost = { ...await storedEnvironment(store), variables };
    const known = { ...lost, newestWrite: 2_100 };
    await writeBackVariables(store, known, lost);
    await set({ THEME: "dark" });
    const { environment } = await storedEnvironment(store);
    assertEquals(environment["REP_PUBLIC_THEME"], "dark");
  },
);

testStored(
  "writeBackVariables() writes nothing over variables that were set since",
  async ({ set, store, clear }) => {
    await set({ THEME: "lost" });
    const lost = await storedEnvironment(store);
    await clear();
    await set({ THEME: "newer" });
    const newer = await storedEnvironment(store);
    assertEquals(await writeBackVariables(store, lost, newer), false);
    assertEquals(await storedEnvironment(store), newer);
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
    const values = (await allWrites(store)).map(({ value }) => Number(value));
    assertEquals(values, Array.from({ length: 20 }, (_, index) => index + 1));
  },
);

Deno.test("writeVariables() loses no write of two connections to one file", async () => {
  await using directory = await TempDirectory.make();
  const open = async () =>
    kvStore(await Deno.openKv(directory.at("kv.sqlite3")));
  const stores = [await open(), await open()];
  const options = { clock: systemClock, random: Math.random };
  const written = await Promise.all(stores.map(async (store, writer) => {
    const { set, unset } = setUp(store);
    const writes = [];
    for (let index = 0; index < 20; index++) {
      const gone = `GONE${writer}`;
      const both = { [`W${writer}_${index}`]: "", [gone]: "" };
      writes.push(...await set(both, options));
      writes.push(...await unset([gone], options));
    }
    return writes;
  }));
  const all = written.flat().sort((a, b) => a.id - b.id);
  assertEquals(all.length, 120);
  for (const store of stores) {
    const writes = await allWrites(store);
    assertEquals(
      writes.map(({ name, value, id, at }) => ({ name, value, id, at })),
      all,
    );
    assertEquals((await listVariables(store)).length, 40);
    assertEquals(await newestWrite(store), all.at(-1)?.id);
    store.close();
  }
});

const DOWN = new StoreUnavailableError("down");
const PERHAPS =
  "some of it may have been written: repeat it once the store is available";

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
  assertEquals((await listVariables(store)).length, 326);
});
