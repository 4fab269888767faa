import { assertEquals, assertRejects } from "@std/assert";
import { MAX_PUBLIC_BYTES } from "../../src/core/config/variables/tiers.ts";
import {
  listVariables,
  newestWrite,
  readHistory,
} from "../../src/core/config/stored/stored_variables.ts";
import {
  ConflictError,
  writeVariables,
} from "../../src/stored/write_variables.ts";
import { undoWrite } from "../../src/stored/undo_write.ts";
import {
  type Store,
  StoreUnavailableError,
} from "../../src/core/store/store.ts";
import { type Clock, systemClock } from "../../src/core/values/clock.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { delegate, testWithStores } from "../_store.ts";

const START = 1_700_000_000_000;
const AT = "2023-11-14T22:13:20.000Z";

type Values = Record<string, string | undefined>;

/** Writes to a store, and takes them back. */
function setUp(store: Store, clock: Clock = new FakeClock(START)) {
  const options = { clock, random: () => 0 };
  return {
    store,
    write: (values: Values, cause = {}) =>
      writeVariables(store, new Map(Object.entries(values)), {
        ...options,
        ifId: undefined,
        cause,
      }),
    /** @param id The newest write by default. */
    undo: async (
      id?: number,
      validate: (values: Values) => unknown = () => {},
    ) => {
      const { writes } = await undoWrite(store, {
        ...options,
        id: id ?? await newestWrite(store),
        cause: { command: "undo", by: "bob" },
        validate: async (values) =>
          void await validate(Object.fromEntries(values)),
      });
      return writes;
    },
    async values() {
      const variables = await listVariables(store);
      return Object.fromEntries(
        variables.map(({ name, value }) => [name, value]),
      );
    },
  };
}

function testUndo(
  name: string,
  run: (fixture: ReturnType<typeof setUp>) => Promise<void>,
) {
  testWithStores(name, (store) => run(setUp(store)));
}

testUndo(
  "undoWrite() takes back all variables of a commit, by the id of any, and names it in the history",
  async ({ write, undo, values, store }) => {
    await write({ A: "1", B: "1", C: "1" });
    await write({ A: "2", C: undefined, D: "2" });
    await write({ B: "2" });
    const validated: Values[] = [];
    const writes = await undo(START + 4, (it) => validated.push(it));
    assertEquals(writes, [
      { name: "A", value: "1", id: START + 7, at: START },
      { name: "C", value: "1", id: START + 8, at: START },
      { name: "D", value: undefined, id: START + 9, at: START },
    ]);
    assertEquals(validated, [{ A: "1", C: "1", D: undefined }]);
    assertEquals(await values(), { A: "1", B: "2", C: "1" });
    const history = await readHistory(store, 3);
    assertEquals(
      history.map(({ command, by, undoes, previous }) => {
        return { command, by, undoes, previous };
      }),
      ["2", undefined, "2"].map((previous) => {
        return { command: "undo", by: "bob", undoes: START + 5, previous };
      }),
    );
  },
);

testUndo(
  "undoWrite() takes back an undo by redoing it",
  async ({ write, undo, values }) => {
    await write({ A: "1" });
    await write({ A: undefined, B: "2" });
    const states = [{ A: "1" }, { B: "2" }, { A: "1" }];
    for (const state of states) {
      await undo();
      assertEquals(await values(), state);
    }
  },
);

testUndo(
  "undoWrite() writes nothing if a variable was written since, also to the same state, and says what was",
  async ({ write, undo, values, store }) => {
    await write({ A: "1", B: "1", C: "1" });
    await write({ A: "2" });
    await write({ A: "3" });
    await write({ B: undefined });
    await write({ D: "1" });
    await assertRejects(
      () => undo(START),
      ConflictError,
      `Cannot undo ${
        START + 2
      }: expected no later write, but REP_PUBLIC_A was set to "3" at ${AT} (id ${
        START + 4
      }); REP_PUBLIC_B was removed at ${AT} (id ${START + 5})`,
    );
    await write({ B: "2" });
    await write({ B: undefined });
    await assertRejects(() => undo(START + 5), ConflictError, "no later write");
    assertEquals(await values(), { A: "3", C: "1", D: "1" });
    assertEquals((await readHistory(store, 99)).length, 9);
  },
);

testUndo(
  "undoWrite() writes nothing if the values before are not valid any more",
  async ({ write, undo, values }) => {
    await write({ A: "1" });
    await write({ A: "2" });
    const validate = () => Promise.reject(new TypeError("invalid"));
    await assertRejects(() => undo(undefined, validate), TypeError);
    assertEquals(await values(), { A: "2" });
  },
);

testUndo(
  "undoWrite() restores values that are too long to be kept twice, while the write that set them is known",
  async ({ write, undo, values }) => {
    const long = "x".repeat(MAX_PUBLIC_BYTES);
    await write({ A: long });
    await write({ A: "y".repeat(MAX_PUBLIC_BYTES) });
    await undo();
    assertEquals(await values(), { A: long });
  },
);

testUndo(
  "undoWrite() does not undo a part: if writes or values are not in the history any more",
  async ({ write, undo, store }) => {
    const long = "x".repeat(MAX_PUBLIC_BYTES);
    await write({ LONG: long, A: "1" });
    await write({ LONG: `y${long.slice(1)}`, A: "2" });
    const forget = (id: number) => store.commit([], [{ key: ["write", id] }]);
    const incomplete = "does not contain all values before it";
    await forget(START);
    await assertRejects(() => undo(), ConflictError, incomplete);
    await forget(START + 2);
    await assertRejects(() => undo(), ConflictError, incomplete);
    await forget(START + 3);
    await assertRejects(
      () => undo(),
      ConflictError,
      `Cannot undo ${
        START + 3
      }: expected the id of one of the last 1000 writes`,
    );
  },
);

testUndo(
  "undoWrite() does not undo what a version wrote that recorded no values before",
  async ({ write, undo, store }) => {
    await write({ A: "1" });
    const value = new TextEncoder().encode("2");
    const id = START + 1;
    await store.commit([], [
      { key: ["variables"], value: { id, writes: 2 } },
      { key: ["write", id], value: { name: "A", value, at: START } },
      { key: ["variable", "A"], value: { value, id, at: START } },
    ]);
    await assertRejects(() => undo(), ConflictError, "does not contain all");
    await assertRejects(() => undo(START), ConflictError, "no later write");
  },
);

testUndo(
  "undoWrite() has nothing to undo in an empty store",
  async ({ undo }) => {
    await assertRejects(() => undo(), ConflictError, "Cannot undo 0: expected");
  },
);

testWithStores(
  "undoWrite() looks again if another writer commits between its read and its commit",
  async (store) => {
    const other = setUp(store);
    await other.write({ A: "1", B: "1" });
    const taken = ["B", "A"];
    const interrupted: Store = {
      ...delegate(store),
      async commit(checks, writes) {
        const name = taken.pop();
        if (name === "A") await other.write({ C: "1" });
        if (name === "B") await other.write({ B: "2" });
        return await store.commit(checks, writes);
      },
    };
    // A FakeClock would not fire the timer of the retry, whose pause is 0 ms.
    const { undo } = setUp(interrupted, systemClock);
    await assertRejects(
      () => undo(), // not what the other has written meanwhile
      ConflictError,
      `but REP_PUBLIC_B was set to "2"`,
    );
    assertEquals(await other.values(), { A: "1", B: "2", C: "1" });
  },
);

testWithStores(
  "undoWrite() needs values that fit into one commit, and says if it may have written before the store failed",
  async (store) => {
    const { write, undo, values } = setUp(store);
    const long = "x".repeat(MAX_PUBLIC_BYTES);
    const names = ["A", "B", "C", "D", "E"];
    for (const name of names) await write({ [name]: long });
    await write(Object.fromEntries(names.map((name) => [name, undefined])));
    await assertRejects(() => undo(), ConflictError, "fit into one commit");
    assertEquals(await values(), {});
    const failing: Store = {
      ...delegate(store),
      commit: () => Promise.reject(new StoreUnavailableError("gone")),
    };
    await write({ F: "1" });
    await assertRejects(
      () => setUp(failing).undo(),
      StoreUnavailableError,
      "gone; it may have been undone: look at history",
    );
  },
);
