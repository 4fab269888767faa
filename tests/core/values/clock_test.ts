import { assert, assertEquals } from "@std/assert";
import {
  every,
  sleep,
  systemClock,
  waitAtMost,
} from "../../../src/core/values/clock.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";

/** Returns whether a promise is fulfilled by now. */
async function isFulfilled(
  clock: FakeClock,
  promise: Promise<unknown>,
) {
  let fulfilled = false;
  promise.then(() => fulfilled = true);
  await clock.tick(0);
  return fulfilled;
}

Deno.test("systemClock.now() returns the milliseconds since the Unix epoch", () => {
  const before = Date.now();
  const now = systemClock.now();
  assert(before <= now && now <= Date.now());
});

Deno.test("systemClock.after() does not call back after it is cancelled", async () => {
  let calls = 0;
  const cancel = systemClock.after(0, () => calls++);
  cancel();
  await new Promise<void>((resolve) => systemClock.after(1, resolve));
  assertEquals(calls, 0);
}); // the leak check of the test runner finds a timer that is left over

/** Runs a program in a process of its own, until that exits, and returns its output. */
async function run(code: string) {
  const clock = JSON.stringify(
    new URL("../../../src/core/values/clock.ts", import.meta.url).href,
  );
  const program = `import { every, sleep, systemClock } from ${clock};${code}`;
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-config", "--no-lock", program],
    env: { NO_COLOR: "1" },
  }).output();
  return new TextDecoder().decode(stdout);
}

Deno.test("sleep() keeps the process alive", async () => {
  assertEquals(
    await run(`await sleep(20, systemClock); console.log("waited");`),
    "waited\n",
  );
});

Deno.test("every() does not keep the process alive", async () => {
  assertEquals(
    await run(
      `every(100_000, () => {}, { clock: systemClock, onError() {} }); console.log("ended");`,
    ),
    "ended\n",
  );
});

function throwError(error: unknown): never {
  throw error;
}

Deno.test("every() runs its task at each interval until it is stopped", async () => {
  const clock = new FakeClock(0);
  const times: number[] = [];
  const stop = every(100, () => times.push(clock.now()), {
    clock,
    onError: throwError,
  });
  await clock.tick(99);
  assertEquals(times, []);
  await clock.tick(251);
  assertEquals(times, [100, 200, 300]);
  stop();
  await clock.tick(1_000);
  assertEquals([times, clock.waiting], [[100, 200, 300], 0]);
});

Deno.test("every() can be stopped by its task", async () => {
  const clock = new FakeClock(0);
  let calls = 0;
  const stop = every(100, () => {
    calls++;
    stop();
  }, { clock, onError: throwError });
  await clock.tick(500);
  assertEquals([calls, clock.waiting], [1, 0]);
});

const FAILURES: Record<string, () => unknown> = {
  throws: () => throwError(new Error("no")),
  rejects: () => Promise.reject(new Error("no")),
};

for (const [how, fail] of Object.entries(FAILURES)) {
  Deno.test(`every() reports a task that ${how}, and runs it again`, async () => {
    const clock = new FakeClock(0);
    let runs = 0;
    const errors: string[] = [];
    const task = () => ++runs === 2 ? undefined : fail();
    const stop = every(100, task, {
      clock,
      onError: (error) => errors.push(`run ${runs}: ${error}`),
    });
    await clock.tick(300);
    stop();
    assertEquals([errors, clock.waiting], [[
      "run 1: Error: no",
      "run 3: Error: no",
    ], 0]);
  });
}

Deno.test("sleep() resolves after the given time", async () => {
  const clock = new FakeClock();
  const waiting = sleep(100, clock);
  await clock.tick(99);
  assertEquals(await isFulfilled(clock, waiting), false);
  await clock.tick(1);
  assertEquals(await isFulfilled(clock, waiting), true);
});

Deno.test("sleep() resolves at once when its signal is aborted", async () => {
  const clock = new FakeClock();
  const abort = new AbortController();
  const waiting = sleep(100, clock, { signal: abort.signal });
  assertEquals(await isFulfilled(clock, waiting), false);
  abort.abort();
  assertEquals([await isFulfilled(clock, waiting), clock.waiting], [true, 0]);
});

Deno.test("waitAtMost() waits until the promise is fulfilled or rejected, and leaves no timer behind", async () => {
  const clock = new FakeClock();
  await waitAtMost(1_000, Promise.resolve(), clock);
  await waitAtMost(1_000, Promise.reject(new Error("no")), clock);
  assertEquals(clock.waiting, 0);
});

Deno.test("waitAtMost() does not resolve before the promise is settled or the time is over", async () => {
  const clock = new FakeClock();
  const waiting = waitAtMost(1_000, new Promise(() => {}), clock);
  await clock.tick(999);
  assertEquals(await isFulfilled(clock, waiting), false);
  await clock.tick(1);
  assertEquals(await isFulfilled(clock, waiting), true);
});
