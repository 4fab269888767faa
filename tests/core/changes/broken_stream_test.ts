import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Hub, type HubOptions } from "../../../src/core/changes/hub.ts";
import { Tail } from "../../../src/core/changes/tail.ts";
import { type LogFields, silentLog } from "../../../src/core/observe/log.ts";
import { noMetrics } from "../../../src/core/observe/metrics.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { appendUpdates, createEventLog } from "../../_event_log.ts";

type Controller = ReadableStreamDefaultController<Uint8Array>;

/** Calls back, and returns the controller of the stream that this opens. */
async function controllerOf(open: () => Promise<unknown>): Promise<Controller> {
  const { prototype } = ReadableStreamDefaultController;
  const { enqueue } = prototype;
  const { promise, resolve } = Promise.withResolvers<Controller>();
  prototype.enqueue = function (chunk) {
    resolve(this);
    enqueue.call(this, chunk);
  };
  await open();
  prototype.enqueue = enqueue;
  return await promise;
}

function fail(): never {
  throw new TypeError("Cannot write to the stream");
}

/** Opens the streams of three clients, which wait for the next event and of which the second one is broken. */
async function setUp(options: Partial<HubOptions> = {}) {
  const clock = new FakeClock();
  const log = createEventLog(memoryStore(), clock);
  const tail = new Tail(log, clock);
  await tail.readNew();
  const failures: (LogFields | undefined)[] = [];
  const hub = new Hub(tail, {
    clock,
    random: () => 0,
    log: { ...silentLog, error: (_, fields) => void failures.push(fields) },
    metrics: noMetrics,
    maxStreams: 10,
    maxStreamsPerClient: 1,
    maxStreamAgeMs: 1_800_000,
    ...options,
  });
  tail.onEvents = (frames) => hub.deliver(frames);
  const open = async (clientKey: string) => {
    const client = { address: "192.0.2.1", clientKey };
    const position = { kind: "every_event", cursor: 0 } as const;
    const isFull = hub.limits.rejection(client) !== undefined;
    const reader = hub.open({ client, position, form: "plain" })
      .pipeThrough(new TextDecoderStream()).getReader();
    await reader.read();
    return { reader, isFull };
  };
  const publish = async (value: string) => {
    await appendUpdates(log, [{ name: "A", value }]);
    await tail.readNew();
  };
  return { clock, hub, failures, open, publish };
}

Deno.test("a stream that cannot be written to ends alone: the others get the event", async () => {
  const { hub, failures, open, publish } = await setUp();
  const first = await open("1");
  let second = first;
  const controller = await controllerOf(async () => second = await open("2"));
  const third = await open("3");
  const taken = [first, third].map(({ reader }) => reader.read());
  const cutOff = assertRejects(() => second.reader.read(), TypeError);
  controller.enqueue = fail;
  await publish("new");
  await cutOff; // the client reconnects
  for (const { value } of await Promise.all(taken)) {
    assertStringIncludes(value ?? "", '"new"');
  }
  assertEquals(failures.map((fields) => fields?.task), ["streams"]);
  assertStringIncludes(String(failures[0]?.detail), "Cannot write");
  assertEquals(hub.size, 2);
  const again = await Promise.all(["1", "2", "3"].map(open));
  assertEquals(again.map(({ isFull }) => isFull), [true, false, true]);
  await hub.close(0);
  assertEquals([hub.size, failures.length], [0, 1]);
});

Deno.test("a stream that cannot be written to ends alone: the others get their heartbeats", async () => {
  const { clock, hub, failures, open } = await setUp();
  const first = await open("1");
  const controller = await controllerOf(() => open("2"));
  const third = await open("3");
  const taken = [first, third].map(({ reader }) => reader.read());
  controller.enqueue = fail;
  await clock.tick(12_000);
  for (const { value } of await Promise.all(taken)) {
    assertStringIncludes(value ?? "", "heartbeat");
  }
  assertEquals(failures.map((fields) => fields?.task), ["streams"]);
  assertEquals(hub.size, 2);
  await hub.close(0);
});

Deno.test("a stream that cannot be closed ends alone: the others end, and so does the hub", async () => {
  const { clock, hub, failures, open } = await setUp();
  const first = await open("1");
  const controller = await controllerOf(() => open("2"));
  const third = await open("3");
  const ended = [first, third].map(({ reader }) => reader.read());
  controller.close = fail;
  await hub.close(0);
  for (const { done } of await Promise.all(ended)) assertEquals(done, true);
  assertEquals(failures.map((fields) => fields?.task), ["streams"]);
  assertEquals([hub.size, clock.waiting], [0, 0]);
});

Deno.test("a stream that fails while its client catches up does not count any more", async () => {
  const metrics = {
    ...noMetrics,
    count: (name: string) => name === "rep.events.replayed" && fail(),
  };
  const { hub, failures, open, publish } = await setUp({ metrics });
  await publish("old");
  const { reader } = await open("1");
  await assertRejects(() => reader.read(), TypeError);
  assertEquals(failures.map((fields) => fields?.task), ["streams"]);
  assertEquals(hub.size, 0);
  await hub.close(0);
});
