import { assertEquals } from "@std/assert";
import { useRep, useRepSecure } from "../../../src/client/vue/mod.ts";

Deno.test("useRep() and useRepSecure() have their defaults on a server", () => {
  assertEquals([
    useRep("TITLE", "none").value,
    useRep("OTHER").value,
    useRepSecure("KEY").value,
  ], [
    "none",
    undefined,
    null,
  ]);
});
