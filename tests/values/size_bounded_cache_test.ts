import { assertEquals } from "@std/assert";
import { SizeBoundedCache } from "../../src/values/size_bounded_cache.ts";

function cacheOf(maxBytes: number, ...keys: string[]): SizeBoundedCache<string> {
  const cache = new SizeBoundedCache<string>(maxBytes);
  for (const key of keys) cache.set(key, key.toUpperCase(), 10);
  return cache;
}

Deno.test("SizeBoundedCache removes the values that were set least recently when it is full", () => {
  const cache = cacheOf(30, "a", "b", "c");
  cache.set("a", "A", 10);
  cache.set("d", "D", 20);
  assertEquals([..."abcd"].map((key) => cache.get(key)), ["A", undefined, undefined, "D"]);
  assertEquals(cache.bytes, 30);
});

Deno.test("SizeBoundedCache replaces the value and the size of a key", () => {
  const cache = cacheOf(30, "a", "b");
  cache.set("a", "new", 5);
  assertEquals([cache.get("a"), cache.bytes], ["new", 15]);
  cache.delete("a");
  cache.delete("missing");
  assertEquals([cache.get("a"), cache.get("b"), cache.bytes], [undefined, "B", 10]);
});

Deno.test("SizeBoundedCache keeps no value that is larger than the cache, and removes none for it", () => {
  const cache = cacheOf(30, "a", "b");
  cache.set("b", "large", 31);
  assertEquals([cache.get("a"), cache.get("b"), cache.bytes], ["A", undefined, 10]);
});

Deno.test("SizeBoundedCache counts a value anew that is set with another size", () => {
  const cache = cacheOf(30, "a", "b");
  cache.set("a", "A", 20);
  assertEquals([cache.get("a"), cache.get("b"), cache.get("c"), cache.bytes], ["A", "B", undefined, 30]);
  cache.set("b", "B", 25);
  assertEquals([cache.get("a"), cache.get("b"), cache.bytes], [undefined, "B", 25]);
});
