import { assert, assertEquals } from "@std/assert";
import { every, sleep, systemClock, waitAtMost } from "../src/clock.ts";
import { FakeClock } from "../tools/fake_clock.ts";

/** Whether a promise has ended by now. */
async function hasEnded(clock: FakeClock, promise: Promise<unknown>): Promise<boolean> {
  let ended = false;
  promise.then(() => ended = true);
  await clock.tick(0);
  return ended;
}

Deno.test("systemClock tells the milliseconds since the Unix epoch", () => {
  const before = Date.now();
  const now = systemClock.now();
  assert(before <= now && now <= Date.now());
});

Deno.test("systemClock calls back once", async () => {
  let calls = 0;
  await new Promise<void>((resolve) => systemClock.after(0, () => resolve(void calls++)));
  await new Promise<void>((resolve) => systemClock.after(1, resolve));
  assertEquals(calls, 1);
});

Deno.test("systemClock does not call back when it was called off", async () => {
  let calls = 0;
  const cancel = systemClock.after(0, () => calls++);
  cancel();
  await new Promise<void>((resolve) => systemClock.after(1, resolve));
  assertEquals(calls, 0);
}); // the leak check finds a timer that is left

/** What a process of its own prints; it ends when nothing keeps it. */
async function run(code: string): Promise<string> {
  const clock = JSON.stringify(new URL("../src/clock.ts", import.meta.url).href);
  const program = `import { every, sleep, systemClock } from ${clock};${code}`;
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-config", "--no-lock", program],
    env: { NO_COLOR: "1" },
  }).output();
  return new TextDecoder().decode(stdout);
}

Deno.test("systemClock keeps the process alive for what somebody waits for", async () => {
  assertEquals(await run(`await sleep(20, systemClock); console.log("waited");`), "waited\n");
});

Deno.test("systemClock does not keep the process alive for what goes on in the background", async () => {
  assertEquals(await run(`every(100_000, () => {}, systemClock); console.log("ended");`), "ended\n");
});

Deno.test("every() calls back at each interval until it is ended", async () => {
  const clock = new FakeClock(0);
  const times: number[] = [];
  const stop = every(100, () => times.push(clock.now()), clock);
  await clock.tick(99);
  assertEquals(times, []);
  await clock.tick(251);
  assertEquals(times, [100, 200, 300]);
  stop();
  await clock.tick(1_000);
  assertEquals([times, clock.waiting], [[100, 200, 300], 0]);
});

Deno.test("every() can be ended by what it calls", async () => {
  const clock = new FakeClock(0);
  let calls = 0;
  const stop = every(100, () => {
    calls++;
    stop();
  }, clock);
  await clock.tick(500);
  assertEquals([calls, clock.waiting], [1, 0]);
});

Deno.test("sleep() waits as long as it is told", async () => {
  const clock = new FakeClock();
  const waiting = sleep(100, clock);
  await clock.tick(99);
  assertEquals(await hasEnded(clock, waiting), false);
  await clock.tick(1);
  assertEquals(await hasEnded(clock, waiting), true);
});

Deno.test("sleep() ends at once, without an error, when its signal is aborted", async () => {
  const clock = new FakeClock();
  const abort = new AbortController();
  const waiting = sleep(100, clock, { signal: abort.signal });
  assertEquals(await hasEnded(clock, waiting), false);
  abort.abort();
  assertEquals([await hasEnded(clock, waiting), clock.waiting], [true, 0]);
});

Deno.test("sleep() does not begin when its signal was aborted before", async () => {
  const clock = new FakeClock();
  assertEquals(await hasEnded(clock, sleep(100, clock, { signal: AbortSignal.abort() })), true);
  assertEquals(clock.waiting, 0);
});

Deno.test("waitAtMost() waits for what it is given, whether that works or not, and leaves no timer behind", async () => {
  const clock = new FakeClock();
  await waitAtMost(1_000, Promise.resolve(), clock);
  await waitAtMost(1_000, Promise.reject(new Error("no")), clock);
  assertEquals(clock.waiting, 0);
});

Deno.test("waitAtMost() gives up in time", async () => {
  const clock = new FakeClock();
  const waiting = waitAtMost(1_000, new Promise(() => {}), clock);
  await clock.tick(1_000);
  await waiting;
});
