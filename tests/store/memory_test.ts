import { assertEquals } from "@std/assert";
import { SortedEntries } from "../../src/store/memory.ts";
import type { Entry } from "../../src/store/store.ts";
import { seededRandom } from "../../tools/seeded_random.ts";

function entry(name: string | number, value: unknown = name): Entry {
  return { key: ["prefix", name], value, version: "1" };
}

function valuesOf(entries: readonly Entry[]): unknown[] {
  return entries.map(({ value }) => value);
}

Deno.test("SortedEntries.list() returns what a sorted array of thousands of entries contains, whatever was written", () => {
  const random = seededRandom(1);
  const entries = new SortedEntries();
  const expected = new Map<number, number>();
  const between = (max: number) => Math.floor(random() * max);
  for (let write = 0; write < 20_000; write++) {
    const name = random() < 0.3 ? 10_000 + write : between(10_000);
    if (random() < 0.4) {
      entries.delete(name);
      expected.delete(name);
    } else {
      entries.set(entry(name, write));
      expected.set(name, write);
    }
    if (write % 500 > 0) continue;
    const sorted = [...expected].sort(([a], [b]) => a - b);
    const [from, limit, reverse] = [
      between(12_000),
      between(2_000),
      random() < 0.5,
    ];
    const selected = sorted.filter(([name]) => name >= from).map(([, value]) =>
      value
    );
    const ordered = reverse ? selected.reverse() : selected;
    assertEquals(
      valuesOf(entries.list({ from, limit, reverse })),
      ordered.slice(0, limit),
    );
    assertEquals(entries.get(from)?.value, expected.get(from));
  }
  assertEquals(valuesOf(entries.list()).length, expected.size);
  for (const name of expected.keys()) entries.delete(name);
  assertEquals(entries.list(), []);
});
