import { assertEquals } from "@std/assert";
import { INSTRUMENTS } from "../../src/observe/instruments.ts";
import { formatFamily } from "../../src/observe/prometheus.ts";

Deno.test("formatFamily() returns nothing for an instrument without samples", () => {
  assertEquals(formatFamily("rep.rollout.active", INSTRUMENTS["rep.rollout.active"], []), "");
});

Deno.test("formatFamily() escapes the label of a sample", () => {
  const text = formatFamily("rep.rollout.active", INSTRUMENTS["rep.rollout.active"], [{ value: 1, label: 'a"\\\n' }]);
  assertEquals(text.split("\n").slice(2), ['rep_rollout_active{configuration="a\\"\\\\\\n"} 1', ""]);
});
