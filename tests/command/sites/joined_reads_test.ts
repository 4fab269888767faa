import { assertEquals, assertRejects } from "@std/assert";
import { joinedReads } from "../../../src/command/sites/joined_reads.ts";
import { memoryStore } from "../../../src/engines/memory.ts";

/** A joined store on one in memory that records what it reads. */
function setUp() {
  const inner = memoryStore();
  const reads: string[] = [];
  const state = { error: undefined as unknown };
  const store = joinedReads({
    ...inner,
    getMany(keys) {
      reads.push(keys.map(String).join(" "));
      if (state.error !== undefined) return Promise.reject(state.error);
      return inner.getMany(keys);
    },
  });
  return { store, reads, state };
}

Deno.test("joinedReads() reads at one go what is asked for in one turn", async () => {
  const { store, reads } = setUp();
  await store.commit([], [{ key: ["b"], value: 2 }]);
  const [a, [b, c]] = await Promise.all([
    store.get(["a"]),
    store.getMany([["b"], ["c"]]),
  ]);
  assertEquals([a, b?.value, c], [undefined, 2, undefined]);
  assertEquals(reads, ["a b c"]);
  await store.get(["d"]);
  assertEquals(reads.length, 2);
});

Deno.test("joinedReads() does not divide what is read together, of which a store reads ten keys at the same moment", async () => {
  const { store, reads } = setUp();
  await store.commit([], [{ key: ["d", 3], value: 3 }]);
  const keysOf = (name: string) => [1, 2, 3].map((index) => [name, index]);
  const all = await Promise.all(
    [..."abcd"].map((it) => store.getMany(keysOf(it))),
  );
  const keys = reads[0]?.split(" ") ?? [];
  assertEquals(keys.slice(10), ["d,1", "d,2", "d,3"]);
  assertEquals(all[3]?.map((entry) => entry?.value), [undefined, undefined, 3]);
});

Deno.test("joinedReads() rejects all reads that were joined if the store fails, and reads again for the next ones", async () => {
  const { store, state } = setUp();
  state.error = new TypeError("broken");
  await Promise.all(
    ["a", "b"].map((key) => assertRejects(() => store.get([key]), TypeError)),
  );
  state.error = undefined;
  assertEquals(await store.get(["a"]), undefined);
});
