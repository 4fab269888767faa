import { assertEquals } from "@std/assert";
import { InFlight } from "../../src/content/transfers.ts";

/** Returns whether a promise is resolved, without waiting for it. */
async function isResolved(promise: Promise<void>): Promise<boolean> {
  return await Promise.race([
    promise.then(() => true),
    Promise.resolve().then(() => false),
  ]);
}

Deno.test("idle() resolves at once if nothing is in flight, otherwise when the last is removed", async () => {
  const inFlight = new InFlight();
  await inFlight.idle();
  inFlight.add();
  inFlight.add();
  const idle = [inFlight.idle(), inFlight.idle()];
  inFlight.remove();
  assertEquals(await Promise.all(idle.map(isResolved)), [false, false]);
  inFlight.remove();
  await Promise.all(idle);
  inFlight.add();
  assertEquals(await isResolved(inFlight.idle()), false);
});
