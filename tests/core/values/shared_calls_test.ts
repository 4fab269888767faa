import { assertEquals, assertRejects } from "@std/assert";
import { SharedCalls } from "../../../src/core/values/shared_calls.ts";

Deno.test("SharedCalls calls once for calls with the same key at the same time", async () => {
  const shared = new SharedCalls<number>();
  let calls = 0;
  const call = () => Promise.resolve(++calls);
  assertEquals(
    await Promise.all([
      shared.run("a", call),
      shared.run("a", call),
      shared.run("b", call),
    ]),
    [1, 1, 2],
  );
  assertEquals(await shared.run("a", call), 3);
});

Deno.test("SharedCalls shares an error, and calls again after it", async () => {
  const shared = new SharedCalls<number>();
  const fail = () => Promise.reject(new Error("failed"));
  const first = shared.run("a", fail);
  const second = shared.run("a", () => Promise.resolve(1));
  await assertRejects(() => first, Error, "failed");
  await assertRejects(() => second, Error, "failed");
  assertEquals(await shared.run("a", () => Promise.resolve(2)), 2);
});
