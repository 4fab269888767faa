import { assertEquals } from "@std/assert";
import { memoryStore } from "../../../src/core/store/memory.ts";
import { seededRandom } from "../../../tools/seeded_random.ts";

Deno.test("memoryStore() lists what a sorted array of thousands of entries contains, whatever was written", async () => {
  const random = seededRandom(1);
  const between = (max: number) => Math.floor(random() * max);
  const store = memoryStore();
  const expected = new Map<number, number>();
  for (let write = 0; write < 20_000; write++) {
    const name = random() < 0.3 ? 10_000 + write : between(10_000);
    const key = ["prefix", name];
    if (random() < 0.4) {
      await store.commit([], [{ key }]);
      expected.delete(name);
    } else {
      await store.commit([], [{ key, value: write }]);
      expected.set(name, write);
    }
    if (write % 500 > 0) continue;
    const from = between(12_000);
    const limit = between(2_000);
    const reverse = random() < 0.5;
    const options = { from, limit, reverse };
    const found = await store.list<number>(["prefix"], options);
    const selected = [...expected]
      .filter(([name]) => name >= from)
      .sort(([a], [b]) => reverse ? b - a : a - b)
      .map(([, value]) => value);
    assertEquals(found.map(({ value }) => value), selected.slice(0, limit));
  }
  for (const name of expected.keys()) {
    assertEquals(
      (await store.get(["prefix", name]))?.value,
      expected.get(name),
    );
    await store.commit([], [{ key: ["prefix", name] }]);
  }
  assertEquals(await store.list(["prefix"]), []);
});
