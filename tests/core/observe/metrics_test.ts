import { assertEquals } from "@std/assert";
import { secondsSince } from "../../../src/core/observe/metrics.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";

Deno.test("secondsSince() returns the seconds since a time in milliseconds", () => {
  assertEquals(
    [0, 250, 60_000].map((ms) =>
      secondsSince(100_000 - ms, new FakeClock(100_000))
    ),
    [0, 0.25, 60],
  );
});

Deno.test("secondsSince() does not depend on the system's clock, which may be set back", () => {
  const clock = new FakeClock();
  const startedAt = clock.monotonic();
  clock.jump(-3_600_000);
  assertEquals(secondsSince(startedAt, clock), 0);
});
