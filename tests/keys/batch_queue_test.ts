import { assertEquals } from "@std/assert";
import { BatchQueue } from "../../src/keys/batch_queue.ts";
import { settle } from "../../tools/fake_clock.ts";

/** A queue whose batches end when the test says so. */
function setUp(maxSize: number) {
  const batches: Record<string, readonly number[]>[] = [];
  const running: (() => void)[] = [];
  const run = (batch: ReadonlyMap<string, readonly number[]>) => {
    batches.push(Object.fromEntries(batch));
    return new Promise<void>((resolve) => running.push(resolve));
  };
  const queue = new BatchQueue<number>({ maxSize: () => maxSize, run });
  /** Ends a batch, and returns those that have begun since the last call. */
  const end = async (index = 0) => {
    running.splice(index, 1)[0]?.();
    await settle();
    return batches.splice(0);
  };
  return { queue, begun: () => batches.splice(0), end };
}

Deno.test("BatchQueue runs an item at once, and what is added meanwhile in the next batch", async () => {
  const { queue, begun, end } = setUp(10);
  queue.add("a", 1);
  assertEquals(begun(), [{ a: [1] }]);
  for (const key of ["b", "c", "b"]) queue.add(key, 2);
  assertEquals(begun(), []);
  assertEquals(await end(), [{ b: [2, 2], c: [2] }]);
  assertEquals(await end(), []);
});

Deno.test("BatchQueue runs full batches beside each other, up to four", async () => {
  const { queue, begun, end } = setUp(2);
  for (let index = 0; index < 11; index++) queue.add(`${index}`, index);
  const sizes = (list: readonly object[]) =>
    list.map((batch) => Object.keys(batch).length);
  assertEquals(sizes(begun()), [1, 2, 2, 2]);
  assertEquals(await end(), [{ 7: [7], 8: [8] }]);
  assertEquals(await end(), [{ 9: [9], 10: [10] }]);
});

Deno.test("BatchQueue runs the items of one key one batch after the other", async () => {
  const { queue, begun, end } = setUp(1);
  queue.add("a", 1);
  queue.add("a", 2);
  queue.add("b", 3);
  assertEquals(begun(), [{ a: [1] }, { b: [3] }]);
  assertEquals(await end(1), []); // b has ended, a runs
  queue.add("a", 4);
  assertEquals(await end(), [{ a: [2, 4] }]);
});
