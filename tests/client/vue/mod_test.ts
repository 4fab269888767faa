import { assertEquals } from "@std/assert";
import {
  useNewBuild,
  useRep,
  useRepSecure,
} from "../../../src/client/vue/mod.ts";

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

Deno.test("useNewBuild() knows of no build on a server", () => {
  assertEquals(useNewBuild().value, undefined);
});
