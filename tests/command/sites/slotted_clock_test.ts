import { assertEquals } from "@std/assert";
import { slottedClock } from "../../../src/command/sites/slotted_clock.ts";
import { every } from "../../../src/core/values/clock.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";

function setUp() {
  const inner = new FakeClock(0);
  const clock = slottedClock(inner);
  const ran: [string, number][] = [];
  const note = (name: string) => () => void ran.push([name, inner.now()]);
  return { inner, clock, ran, note };
}

Deno.test("slottedClock() runs background timers together that are due at about the same time", async () => {
  const { inner, clock, ran, note } = setUp();
  for (const [name, ms] of [["a", 900], ["b", 1_000], ["c", 1_124]] as const) {
    clock.after(ms, note(name), true);
  }
  clock.after(1_126, note("d"), true);
  assertEquals(inner.waiting, 2);
  await inner.tick(2_000);
  assertEquals(ran, [["a", 1_000], ["b", 1_000], ["c", 1_000], ["d", 1_250]]);
});

Deno.test("slottedClock() keeps the period of recurring tasks, and ends what is cancelled", async () => {
  const { inner, clock, ran, note } = setUp();
  await inner.tick(70);
  const stop = every(1_000, note("a"), { clock, onError() {} });
  await inner.tick(4_000);
  stop();
  await inner.tick(4_000);
  assertEquals(ran.map(([, at]) => at), [1_000, 2_000, 3_000, 4_000]);
});

Deno.test("slottedClock() leaves timers exact that requests wait for", async () => {
  const { inner, clock, ran, note } = setUp();
  clock.after(1_100, note("request"));
  clock.after(100, note("short"), true);
  await inner.tick(2_000);
  assertEquals(ran, [["short", 100], ["request", 1_100]]);
});
