import { assertEquals, assertLess } from "@std/assert";
import { memoryStore } from "../../src/engines/memory.ts";
import { settle } from "../../tools/fake_clock.ts";
import { seededRandom } from "../../tools/seeded_random.ts";
import { medianOf } from "../_time.ts";

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

Deno.test("memoryStore() lists many entries page by page in less time than sorting them ten times takes", async () => {
  const store = memoryStore();
  const names: string[] = [];
  for (let client = 0; client < 40_000; client++) {
    names.push(`10.${client * 7_919 % 40_000}`);
    const key = ["rate", names.at(-1)!];
    await store.commit([], [{ key, value: client }]);
  }
  const began = performance.now();
  for (let times = 0; times < 10; times++) names.toSorted();
  const sorted = performance.now() - began;
  const times: number[] = [];
  while (times.length < 3) {
    const start = performance.now();
    let from = "";
    let listed = 0;
    for (let isDone = false; !isDone;) {
      const page = await store.list(["rate"], { from, limit: 500 });
      from = `${page.at(-1)?.key.at(-1)}\0`;
      listed += page.length;
      isDone = page.length < 500;
    }
    times.push(performance.now() - start);
    assertEquals(listed, 40_000);
  }
  assertLess(medianOf(times), sorted);
});

Deno.test("memoryStore() calls nobody who stops a watch right after a commit", async () => {
  const store = memoryStore();
  let hints = 0;
  const stop = store.watch(["a"], () => hints++);
  const committing = store.commit([], [{ key: ["a"], value: 1 }]);
  stop();
  await committing;
  await settle();
  assertEquals(hints, 0);
});
