import { assertEquals } from "@std/assert";
import { BoundedMap } from "../../src/values/bounded_map.ts";

function mapOf(maxSize: number, keys: string): BoundedMap<number> {
  const map = new BoundedMap<number>(maxSize);
  for (const [index, key] of [...keys].entries()) map.set(key, index);
  return map;
}

function values(map: BoundedMap<number>, keys: string): (number | undefined)[] {
  return [...keys].map((key) => map.get(key));
}

Deno.test("BoundedMap removes the entry that was set least recently when it is full", () => {
  assertEquals(values(mapOf(2, "ab"), "ab"), [0, 1]);
  assertEquals(values(mapOf(2, "abc"), "abc"), [undefined, 1, 2]);
});

Deno.test("BoundedMap.set() makes an entry the most recent one", () => {
  assertEquals(values(mapOf(2, "abac"), "abc"), [2, undefined, 3]);
});

Deno.test("BoundedMap.get() does not make an entry more recent", () => {
  const map = mapOf(2, "ab");
  map.get("a");
  map.set("c", 2);
  assertEquals(values(map, "abc"), [undefined, 1, 2]);
});

Deno.test("BoundedMap.delete() removes an entry and makes room for another", () => {
  const map = mapOf(2, "ab");
  map.delete("b");
  map.set("c", 2);
  assertEquals(values(map, "abc"), [0, undefined, 2]);
});
