import { assertEquals } from "@std/assert";
import { didYouMean } from "../../../src/core/values/did_you_mean.ts";

const WORDS = ["list", "lint", "validate", "set"];

for (
  const [word, suggestion] of [["lst", "list"], ["lnt", "lint"], [
    "vaildate",
    "validate",
  ], ["sett", "set"]] as const
) {
  Deno.test(`didYouMean() suggests ${suggestion} for ${word}`, () => {
    assertEquals(didYouMean(word, WORDS), `; did you mean ${suggestion}?`);
  });
}

for (const word of ["dev", "serve", "start", "", "x".repeat(1_000)]) {
  Deno.test(`didYouMean() suggests nothing for ${word.slice(0, 10) || "an empty word"}`, () => {
    assertEquals(didYouMean(word, WORDS), "");
  });
}

Deno.test("didYouMean() suggests the first of several words that are equally close", () => {
  assertEquals(didYouMean("abcd", ["abcx", "abxd"]), "; did you mean abcx?");
  assertEquals(didYouMean("abcd", ["abxd", "abcx"]), "; did you mean abxd?");
});
