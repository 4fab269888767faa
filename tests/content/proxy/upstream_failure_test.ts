import { assertEquals } from "@std/assert";
import { BrokenBodyError } from "../../../src/content/proxy/upstream_failure.ts";

Deno.test("BrokenBodyError is printed in one line", () => {
  assertEquals(
    Deno.inspect(new BrokenBodyError("aborted")),
    "[BrokenBodyError: aborted]",
  );
});
