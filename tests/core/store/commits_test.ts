import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { retryConflicts } from "../../../src/core/store/commits.ts";
import { StoreUnavailableError } from "../../../src/core/store/store.ts";

/** An operation that succeeds at the given attempt and records the time of each. */
function succeedingAt(attempt: number, clock: FakeClock) {
  const start = clock.now();
  const times: number[] = [];
  const run = () =>
    Promise.resolve(
      times.push(clock.now() - start) >= attempt ? "done" : undefined,
    );
  return { times, run };
}

Deno.test("retryConflicts() does not wait if the first attempt succeeds", async () => {
  const clock = new FakeClock();
  const { times, run } = succeedingAt(1, clock);
  assertEquals(
    await retryConflicts(run, { clock, random: () => 0.999 }),
    "done",
  );
  assertEquals([times, clock.waiting], [[0], 0]);
});

Deno.test("retryConflicts() retries with exponential backoff", async () => {
  const clock = new FakeClock();
  const { times, run } = succeedingAt(5, clock);
  const work = retryConflicts(run, { clock, random: () => 0.5 });
  await clock.tick(0);
  await clock.tick(1_000);
  assertEquals([await work, times], ["done", [0, 0.5, 1.5, 3.5, 7.5]]);
});

Deno.test("retryConflicts() returns falsy results other than undefined", async () => {
  const clock = new FakeClock();
  const options = { clock, random: () => 0 };
  const results = await Promise.all(
    ["", 0, false, null].map((it) =>
      retryConflicts(() => Promise.resolve(it), options)
    ),
  );
  assertEquals(results, ["", 0, false, null]);
});

Deno.test("retryConflicts() gives up after 40 attempts and does not wait after the last one", async () => {
  const clock = new FakeClock();
  const { times, run } = succeedingAt(Infinity, clock);
  const work = retryConflicts(run, { clock, random: () => 1 });
  let endedAt = 0;
  const rejected = assertRejects(
    () => work,
    StoreUnavailableError,
    "Cannot commit to the store: 40 attempts",
  )
    .then(() => endedAt = clock.now());
  const start = clock.now();
  await clock.tick(0);
  await clock.tick(10_000);
  await rejected;
  assertEquals([times.length, times.at(-1), endedAt - start], [
    40,
    127 + 32 * 100,
    127 + 32 * 100,
  ]);
});

Deno.test("retryConflicts() rethrows an error immediately", async () => {
  const clock = new FakeClock();
  let attempts = 0;
  const attempt = () => Promise.reject(new TypeError(`attempt ${++attempts}`));
  await assertRejects(
    () => retryConflicts(attempt, { clock, random: () => 0 }),
    TypeError,
    "attempt 1",
  );
  assertEquals([attempts, clock.waiting], [1, 0]);
});
