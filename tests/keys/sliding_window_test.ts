import { assertEquals } from "@std/assert";
import { add, merge, recent } from "../../src/keys/sliding_window.ts";

Deno.test("add() keeps the times ascending if a clock that is ahead has recorded a later one", () => {
  assertEquals(add([9_000, 20_000], 15_000), [9_000, 15_000, 20_000]);
  assertEquals(add([9_000], 9_000), [9_000, 9_000]);
});

Deno.test("merge() counts a time once that is in both windows, as often as in either", () => {
  assertEquals(merge([1, 3, 3], [2, 3]), [1, 2, 3, 3]);
  assertEquals(merge([1, 2], [1, 2]), [1, 2]);
  assertEquals(merge([], [1, 1]), [1, 1]);
});

Deno.test("recent() keeps what is less than 60 s away, before or after", () => {
  const window = [40_000, 40_001, 100_000, 159_999, 160_000];
  assertEquals(recent(window, 100_000), [40_001, 100_000, 159_999]);
});
