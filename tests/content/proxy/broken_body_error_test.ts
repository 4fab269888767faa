import { assertEquals } from "@std/assert";
import { BrokenBodyError } from "../../../src/content/proxy/broken_body_error.ts";

Deno.test("BrokenBodyError is printed in one line", () => {
  assertEquals(Deno.inspect(new BrokenBodyError("aborted")), "[BrokenBodyError: aborted]");
});
