import { assertEquals } from "@std/assert";
import { INSTRUMENTS } from "../../src/observe/instruments.ts";
import { formatFamily } from "../../src/observe/prometheus.ts";

Deno.test("formatFamily() returns nothing for an instrument without samples", () => {
  assertEquals(
    formatFamily("rep.rollout.active", INSTRUMENTS["rep.rollout.active"], []),
    "",
  );
});

Deno.test("formatFamily() gives each label its value", () => {
  const sample = { value: 3, label: "/rep/health 2xx" };
  const text = formatFamily("rep.requests", INSTRUMENTS["rep.requests"], [
    sample,
  ]);
  assertEquals(text.split("\n").slice(2), [
    'rep_requests_total{route="/rep/health",status="2xx"} 3',
    "",
  ]);
});

Deno.test("formatFamily() escapes the label of a sample", () => {
  const text = formatFamily(
    "rep.rollout.active",
    INSTRUMENTS["rep.rollout.active"],
    [{ value: 1, label: 'a"\\\n' }],
  );
  assertEquals(text.split("\n").slice(2), [
    'rep_rollout_active{configuration="a\\"\\\\\\n"} 1',
    "",
  ]);
});
