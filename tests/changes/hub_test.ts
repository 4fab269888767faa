import { assertEquals } from "@std/assert";
import { Hub } from "../../src/changes/hub.ts";
import { Tail } from "../../src/changes/tail.ts";
import { noMetrics } from "../../src/observe/metrics.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { captureLog, setUp } from "../_gateway.ts";
import { createEventLog } from "../_event_log.ts";

/** A clock whose time can be made unreadable. */
class FailingClock extends FakeClock {
  isBroken = false;

  override monotonic(): number {
    if (this.isBroken) throw new TypeError("broken clock");
    return super.monotonic();
  }
}

Deno.test("Hub logs an error of its timer and sends the next heartbeat", async () => {
  const clock = new FailingClock(1_000);
  const { log, lines } = captureLog();
  const tail = new Tail(createEventLog(memoryStore(), clock));
  await tail.readNew();
  const limits = {
    maxStreams: 1,
    maxStreamsPerClient: 1,
    maxStreamAgeMs: 60_000,
  };
  const hub = new Hub(tail, {
    clock,
    log,
    random: () => 0,
    metrics: noMetrics,
    ...limits,
  });
  const client = { address: "192.0.2.1", clientKey: "192.0.2.1" };
  const reader = hub.subscribe(client, { cursor: 0, skipsOutdated: false })
    .pipeThrough(new TextDecoderStream())
    .getReader();
  await reader.read();
  await clock.tick(0);

  const heartbeat = reader.read();
  clock.isBroken = true;
  await clock.tick(1_000).catch(() => {});
  clock.isBroken = false;
  await clock.tick(15_000);
  assertEquals((await heartbeat).value, ": heartbeat\nid: 0\n\n");
  assertEquals(lines.map(({ level, msg }) => [level, msg]), [[
    "ERROR",
    "rep.task.failed",
  ]]);

  await hub.close(0);
  await reader.cancel();
  await tail.close();
});

Deno.test("Hub ends no stream and sends no heartbeat because the system's clock was set", async () => {
  const clock = new FakeClock();
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
    clock,
    maxStreamAgeMs: 1_800_000,
  });
  for (const jump of [3_600_000, -7_200_000]) {
    const stream = await gate.listen();
    await stream.pull();
    const opening = stream.text();
    clock.jump(jump);
    await clock.tick(2_000);
    await gate.set({ REP_PUBLIC_A: String(jump) });
    assertEquals((await stream.take(1)).map(({ data }) => data.value), [
      String(jump),
    ]);
    assertEquals(
      stream.text().slice(opening.length).startsWith("event: "),
      true,
    );
    await stream.close();
  }
});

Deno.test("Hub sends every event to a stream of a page that has caught up, also if it is read slowly", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1" });
  const page = new Response("<head></head>", {
    headers: { "content-type": "text/html" },
  });
  const html = await (await gate.gateway.inject(page)).text();
  const stream = await gate.listen(
    {},
    `?last_event_id=${/last_event_id=(\d+)/.exec(html)?.[1]}`,
  );
  await stream.pull();
  const first = stream.take(1); // waits for the next event: the stream has caught up
  for (const value of ["2", "3", "4", "5", "6"]) {
    await gate.set({ REP_PUBLIC_A: value });
  }
  const messages = [...await first, ...await stream.take(4)];
  assertEquals(messages.map(({ data }) => data.value), [
    "2",
    "3",
    "4",
    "5",
    "6",
  ]);
  await stream.close();
});
