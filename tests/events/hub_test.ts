import { assertEquals } from "@std/assert";
import { EventLog } from "../../src/events/event_log.ts";
import { Hub } from "../../src/events/hub.ts";
import { Tail } from "../../src/events/tail.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { captureLog } from "../_gateway.ts";

/** A clock whose time can be made unreadable. */
class FailingClock extends FakeClock {
  isBroken = false;

  override now(): number {
    if (this.isBroken) throw new TypeError("broken clock");
    return super.now();
  }
}

Deno.test("Hub logs an error of its timer and sends the next heartbeat", async () => {
  const clock = new FailingClock(1_000);
  const { log, lines } = captureLog();
  const tail = new Tail(new EventLog(memoryStore(), { clock }), () => {});
  await tail.readNew();
  const limits = { maxStreams: 1, maxStreamsPerClient: 1, maxStreamAgeMs: 60_000 };
  const hub = new Hub(tail, { clock, log, random: () => 0, ...limits });
  const reader = hub.subscribe({ address: "192.0.2.1", rateKey: "192.0.2.1" }).pipeThrough(new TextDecoderStream())
    .getReader();
  await reader.read();
  await clock.tick(0);

  const heartbeat = reader.read();
  clock.isBroken = true;
  await clock.tick(1_000).catch(() => {});
  clock.isBroken = false;
  await clock.tick(15_000);
  assertEquals((await heartbeat).value, ": heartbeat\nid: 0\n\n");
  assertEquals(lines.map(({ level, msg }) => [level, msg]), [["ERROR", "rep.task.failed"]]);

  await hub.close(0);
  await reader.cancel();
  await tail.close();
});
