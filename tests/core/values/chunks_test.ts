import { assertEquals } from "@std/assert";
import { slices } from "../../../src/core/values/chunks.ts";

Deno.test("slices() cuts a list into slices of at most the size, in order", () => {
  assertEquals(slices([1, 2, 3, 4, 5], 2), [[1, 2], [3, 4], [5]]);
  assertEquals(slices([1, 2, 3, 4], 2), [[1, 2], [3, 4]]);
  assertEquals(slices([1], 2), [[1]]);
  assertEquals(slices([], 2), []);
});
