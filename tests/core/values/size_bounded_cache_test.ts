import { assertEquals } from "@std/assert";
import {
  CacheGroup,
  SizeBoundedCache,
} from "../../../src/core/values/size_bounded_cache.ts";

function cacheOf(
  maxBytes: number,
  ...keys: string[]
) {
  const cache = new SizeBoundedCache<string>(maxBytes);
  for (const key of keys) cache.set(key, key.toUpperCase(), 10);
  return cache;
}

Deno.test("SizeBoundedCache removes the values that were set least recently when it is full", () => {
  const cache = cacheOf(30, "a", "b", "c");
  cache.set("a", "A", 10);
  cache.set("d", "D", 20);
  assertEquals([..."abcd"].map((key) => cache.get(key)), [
    "A",
    undefined,
    undefined,
    "D",
  ]);
  assertEquals(cache.size, 30);
});

Deno.test("SizeBoundedCache replaces the value and the size of a key", () => {
  const cache = cacheOf(30, "a", "b");
  cache.set("a", "new", 5);
  assertEquals([cache.get("a"), cache.size], ["new", 15]);
  cache.delete("a");
  cache.delete("missing");
  assertEquals([cache.get("a"), cache.get("b"), cache.size], [
    undefined,
    "B",
    10,
  ]);
});

Deno.test("SizeBoundedCache keeps no value that is larger than the cache, and removes none for it", () => {
  const cache = cacheOf(30, "a", "b");
  cache.set("b", "large", 31);
  assertEquals([cache.get("a"), cache.get("b"), cache.size], [
    "A",
    undefined,
    10,
  ]);
});

function mapOf(maxSize: number, keys: string) {
  const map = new SizeBoundedCache<number>(maxSize);
  for (const [index, key] of [...keys].entries()) map.set(key, index);
  return map;
}

function values(
  map: SizeBoundedCache<number>,
  keys: string,
): (number | undefined)[] {
  return [...keys].map((key) => map.get(key));
}

Deno.test("SizeBoundedCache counts values without a size, and removes the one that was set least recently when it is full", () => {
  assertEquals(values(mapOf(2, "ab"), "ab"), [0, 1]);
  assertEquals(values(mapOf(2, "abc"), "abc"), [undefined, 1, 2]);
});

Deno.test("SizeBoundedCache.get() does not make a value more recent", () => {
  const map = mapOf(2, "ab");
  map.get("a");
  map.set("c", 2);
  assertEquals(values(map, "abc"), [undefined, 1, 2]);
});

Deno.test("CacheGroup takes from the largest cache what was set first, until all together fit", () => {
  const group = new CacheGroup(50);
  const large = new SizeBoundedCache<string>(40, group);
  const small = new SizeBoundedCache<string>(40, group);
  for (const key of "abcd") large.set(key, key, 10);
  small.set("e", "e", 10);
  assertEquals([large.size, small.size], [40, 10]);
  small.set("f", "f", 10);
  assertEquals([large.size, small.size], [30, 20]);
  assertEquals(["a", "b"].map((key) => large.get(key)), [undefined, "b"]);
});

Deno.test("CacheGroup does not count a cache that has left it", () => {
  const group = new CacheGroup(20);
  const [left, stays] = [20, 20].map((size) =>
    new SizeBoundedCache<string>(size, group)
  );
  left?.set("a", "a", 20);
  group.delete(left!);
  stays?.set("b", "b", 20);
  assertEquals([left?.size, stays?.size], [20, 20]);
});
