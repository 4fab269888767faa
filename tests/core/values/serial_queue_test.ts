import { assertEquals, assertRejects } from "@std/assert";
import { SerialQueue } from "../../../src/core/values/serial_queue.ts";

Deno.test("SerialQueue runs one function at a time, in the order of the calls, also after one that fails", async () => {
  const queue = new SerialQueue();
  const steps: string[] = [];
  async function work(name: string) {
    steps.push(`${name} begins`);
    await Promise.resolve();
    steps.push(`${name} ends`);
    if (name === "b") throw new Error("b is broken");
    return name;
  }
  const results = ["a", "b", "c"].map((name) => queue.run(() => work(name)));
  const settled = queue.settled();
  assertEquals(await results[0], "a");
  await assertRejects(() => results[1]!, Error, "b is broken");
  assertEquals(await results[2], "c");
  await settled;
  assertEquals(steps, [
    "a begins",
    "a ends",
    "b begins",
    "b ends",
    "c begins",
    "c ends",
  ]);
});

Deno.test("SerialQueue.settled() resolves if the last function has failed", async () => {
  const queue = new SerialQueue();
  const failed = queue.run(() => Promise.reject(new Error("broken")));
  await queue.settled();
  await assertRejects(() => failed, Error, "broken");
});
