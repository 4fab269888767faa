import { assertEquals } from "@std/assert";
import {
  addRequest,
  packWindow,
  unpackWindow,
} from "../../src/keys/sliding_window.ts";

Deno.test("addRequest() keeps the times ascending if a clock that is ahead has recorded a later one", () => {
  const window = addRequest([9_000, 20_000, 100_000], 15_000);
  assertEquals(window, [9_000, 15_000, 20_000, 100_000]);
  assertEquals(unpackWindow(packWindow(window)), window);
});
