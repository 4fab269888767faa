import { assertEquals, assertRejects } from "@std/assert";
import { joinedStore } from "../../../src/command/sites/joined_store.ts";
import { memoryStore } from "../../../src/core/store/memory.ts";
import type { Key } from "../../../src/core/store/store.ts";

/** A joined store on one in memory that records its operations. */
function setUp({ maxChecks = 100 } = {}) {
  const inner = memoryStore();
  const operations: unknown[] = [];
  const state = { error: undefined as unknown };
  const store = joinedStore({
    ...inner,
    maxChecks,
    getMany(keys) {
      operations.push(["read", keys.map(String).join()]);
      return inner.getMany(keys);
    },
    commit(checks, writes) {
      operations.push(["commit", writes.map(({ key }) => String(key)).join()]);
      if (state.error !== undefined) return Promise.reject(state.error);
      return inner.commit(checks, writes);
    },
  });
  const write = (key: Key, version: string | null = null) =>
    store.commit([{ key, version }], [{ key, value: String(key) }]);
  return { store, operations, state, write };
}

Deno.test("joinedStore() reads at one go what is asked for in one turn", async () => {
  const { store, operations, write } = setUp();
  await write(["b"]);
  operations.length = 0;
  const [a, [b, c]] = await Promise.all([
    store.get(["a"]),
    store.getMany([["b"], ["c"]]),
  ]);
  assertEquals([a, b?.value, c], [undefined, "b", undefined]);
  assertEquals(operations, [["read", "a,b,c"]]);
  await store.get(["d"]);
  assertEquals(operations.length, 2);
});

Deno.test("joinedStore() does not divide what is read together, of which a store reads ten keys at the same moment", async () => {
  const { store, operations } = setUp();
  const keysOf = (name: string) => [1, 2, 3].map((index) => [name, index]);
  await Promise.all([..."abcd"].map((name) => store.getMany(keysOf(name))));
  const [[, keys]] = operations as [[string, string]];
  assertEquals(keys.split(",").length / 2, 13);
  assertEquals(keys.endsWith("c,3,d,1,d,1,d,2,d,3"), true);
});

Deno.test("joinedStore() makes one commit of those without a key in common", async () => {
  const { store, operations, write } = setUp();
  const versions = await Promise.all([
    write(["a"]),
    write(["b"]),
    store.commit([], [{ key: ["a"], value: 2 }]),
  ]);
  assertEquals(versions.every((version) => typeof version === "string"), true);
  assertEquals(operations, [["commit", "a,b"], ["commit", "a"]]);
  assertEquals((await store.get(["a"]))?.value, 2);
});

Deno.test("joinedStore() makes the others if one of the joined commits fails its checks", async () => {
  const { operations, write } = setUp();
  await write(["b"]);
  operations.length = 0;
  const results = await Promise.all([write(["a"]), write(["b"]), write(["c"])]);
  assertEquals(results.map((version) => version !== undefined), [
    true,
    false,
    true,
  ]);
  assertEquals(operations, [
    ["commit", "a,b,c"],
    ["commit", "a"],
    ["commit", "b"],
    ["commit", "c"],
  ]);
});

Deno.test("joinedStore() rejects all joined commits if the store fails, and tries none of them again", async () => {
  const { operations, state, write } = setUp();
  state.error = new TypeError("broken");
  await Promise.all(
    ["a", "b"].map((key) => assertRejects(() => write([key]), TypeError)),
  );
  assertEquals(operations.length, 1);
});

Deno.test("joinedStore() keeps within the checks of a store, and leaves large commits alone", async () => {
  const { store, operations, write } = setUp({ maxChecks: 2 });
  const large = { key: ["large"], value: "x".repeat(10_000) };
  await Promise.all([
    write(["a"]),
    write(["b"]),
    write(["c"]),
    store.commit([], [large]),
  ]);
  assertEquals(operations, [
    ["commit", "large"],
    ["commit", "a,b"],
    ["commit", "c"],
  ]);
});
