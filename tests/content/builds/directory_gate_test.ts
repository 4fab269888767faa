import { assertEquals, assertRejects } from "@std/assert";
import { DirectoryGate } from "../../../src/content/builds/directory_gate.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";

/** Operations that end when a test says so. */
function setUp() {
  const clock = new FakeClock();
  const gate = new DirectoryGate(clock);
  const running: PromiseWithResolvers<string>[] = [];
  function run(lane: "keep" | "serve", ms?: number): Promise<string> {
    const result = gate.run(lane, () => {
      const work = Promise.withResolvers<string>();
      running.push(work);
      return work.promise;
    }, ms);
    result.catch(() => {}); // some tests look at it later
    return result;
  }
  return { clock, running, run };
}

const { TimedOut } = Deno.errors;

Deno.test("a gate lets one operation of each lane run at a time, in their order", async () => {
  const { clock, running, run } = setUp();
  const results = [run("keep"), run("keep"), run("serve"), run("serve")];
  await clock.tick(0);
  assertEquals(running.length, 2);
  for (let index = 0; index < 4; index++) {
    running[index]?.resolve(`${index}`);
    await clock.tick(0);
    assertEquals(running.length <= Math.min(index + 3, 4), true);
  }
  assertEquals(await Promise.all(results), ["0", "2", "1", "3"]);
});

Deno.test("while an operation is late, all others of both lanes fail at once; when it ends, they run again", async () => {
  const { clock, running, run } = setUp();
  const hung = run("keep");
  const behind = run("keep");
  await clock.tick(0);
  await clock.tick(1_999);
  const soon = run("serve");
  await clock.tick(0);
  running[1]?.resolve("soon");
  assertEquals(await soon, "soon");
  await clock.tick(1);
  await assertRejects(() => hung, TimedOut, "does not answer");
  await assertRejects(() => behind, TimedOut);
  for (let count = 0; count < 100; count++) {
    await assertRejects(() => run("serve"), TimedOut);
    await assertRejects(() => run("keep"), TimedOut);
  }
  assertEquals(running.length, 2);
  running[0]?.resolve("at last");
  await clock.tick(0);
  const again = run("serve");
  await clock.tick(0);
  running[2]?.resolve("again");
  assertEquals(await again, "again");
});

Deno.test("no more than two operations hang, whatever is asked", async () => {
  const { clock, running, run } = setUp();
  const results = Array.from(
    { length: 50 },
    (_, index) => run(index % 2 === 0 ? "keep" : "serve"),
  );
  await clock.tick(0);
  await clock.tick(2_000);
  const settled = await Promise.allSettled(results);
  assertEquals(settled.every(({ status }) => status === "rejected"), true);
  assertEquals(running.length, 2);
  running[0]?.reject(new Error("gone"));
  await clock.tick(0);
  await assertRejects(() => run("keep"), TimedOut); // the other one is late still
});

Deno.test("a large file may take longer, and an error is that of the operation", async () => {
  const { clock, running, run } = setUp();
  const large = run("keep", 60_000);
  await clock.tick(0);
  await clock.tick(61_000);
  running[0]?.resolve("done");
  assertEquals(await large, "done");
  const wrong = run("keep");
  await clock.tick(0);
  running[1]?.reject(new RangeError("wrong"));
  await assertRejects(() => wrong, RangeError, "wrong");
  const next = run("keep");
  await clock.tick(0);
  running[2]?.resolve("next");
  assertEquals(await next, "next");
});
