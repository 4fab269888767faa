import { assertEquals } from "@std/assert";
import { sampleNames } from "../../../src/core/rollout/strangers.ts";

Deno.test("sampleNames() selects the same 100 of many names, in whatever order they come", () => {
  const names = Array.from({ length: 500 }, (_, index) => `NAME_${index}`);
  const sample = sampleNames(names);
  assertEquals(sample.length, 100);
  assertEquals(sampleNames(names.toReversed()), sample);
  const others = sampleNames(names.slice(0, 400));
  const common = others.filter((hash) => sample.includes(hash));
  assertEquals(common.length > 50, true);
});
