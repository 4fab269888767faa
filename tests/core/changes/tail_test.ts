import { assertEquals } from "@std/assert";
import { Hub } from "../../../src/core/changes/hub.ts";
import {
  eventFrame,
  type Frame,
  Tail,
  takeAfter,
} from "../../../src/core/changes/tail.ts";
import { silentLog } from "../../../src/core/observe/log.ts";
import { noMetrics } from "../../../src/core/observe/metrics.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import type { Store } from "../../../src/core/store/store.ts";
import { publicHash } from "../../../src/core/values/hash.ts";
import { FakeClock, settle } from "../../../tools/fake_clock.ts";
import { countedStore, delegate, interceptedStore } from "../../_store.ts";
import {
  appendUpdates,
  createEventLog,
  TestPublisher,
} from "../../_event_log.ts";

/** A store that answers reads only after `answer()`. */
function pausedStore(store: Store): Store & { answer: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return {
    ...delegate(store),
    get: (key) => promise.then(() => store.get(key)),
    list: (prefix, options) => promise.then(() => store.list(prefix, options)),
    answer: resolve,
  };
}

Deno.test("Tail.readNew() caches each event once if it is called again before a slow store has answered", async () => {
  const clock = new FakeClock(1_000);
  const store = memoryStore();
  const log = createEventLog(store, clock);
  await appendUpdates(log, [{ name: "A", value: "1" }, {
    name: "B",
    value: "2",
  }]);
  const paused = pausedStore(store);
  const tail = new Tail(createEventLog(paused, clock), clock);
  const reads = [tail.readNew(), tail.readNew(), tail.readNew()];
  paused.answer();
  await Promise.all(reads);
  await tail.readNew();
  assertEquals(tail.cached(0, 1_000).map(({ id }) => id), [
    1_000_000,
    1_001_000,
  ]);
});

Deno.test("Tail.readNew() waits for at most the read after the one in progress, however often it is called meanwhile", async () => {
  const clock = new FakeClock(1_000);
  const store = interceptedStore(memoryStore(), (operation) => {
    if (operation === "list" && reads++ < 20) void tail.readNew();
  });
  const tail: Tail = new Tail(createEventLog(store, clock), clock);
  let reads = 0;
  await tail.readNew();
  reads = 0;
  await tail.readNew();
  assertEquals(reads < 4, true);
  await tail.readNew();
  assertEquals(reads < 8, true);
});

Deno.test("Tail.readForClient() reads every 50 ms at most, and what was written before it was called", async () => {
  const clock = new FakeClock(1_000);
  let reads = 0;
  const store = interceptedStore(memoryStore(), (operation) => {
    if (operation === "list") reads++;
  });
  const log = createEventLog(store, clock);
  const tail = new Tail(log, clock);
  await tail.readForClient();
  await appendUpdates(log, [{ name: "A", value: "1" }]);
  reads = 0;
  const asked = [tail.readForClient(), tail.readForClient()];
  await clock.tick(49);
  assertEquals([reads, tail.head], [0, 0]);
  await clock.tick(1);
  await Promise.all(asked);
  assertEquals([reads, tail.head], [1, 1_000_000]);
  const late = tail.readForClient();
  await clock.tick(50);
  await late;
  clock.pass(50);
  await tail.readForClient(); // at once
  assertEquals(reads, 3);
});

/** A log with events of a size, whose ids are the thousands from 1,000 on, and a tail that has not read it yet. */
async function setUp(count: number, valueBytes = 1) {
  const clock = new FakeClock(1);
  const log = createEventLog(memoryStore(), clock, 1_000_000);
  const append = async (first: number, last: number) => {
    const ids = Array.from(
      { length: last - first + 1 },
      (_, index) => first + index,
    );
    const changes = ids.map((id) => ({
      name: `V${id % 5}`,
      value: `${id}`.padEnd(valueBytes, "x"),
    }));
    await appendUpdates(log, changes);
  };
  await append(1, count);
  return { tail: new Tail(log, clock), append };
}

/** Returns the ids of the cached events, in thousands. */
function cachedIds(tail: Tail): number[] {
  return tail.cached(tail.cachedAfter, Infinity).map(({ id }) => id / 1_000);
}

/** Returns the id before that of the oldest cached event, in thousands. */
function oldestIn(tail: Tail) {
  return Math.floor(tail.cachedAfter / 1_000);
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

Deno.test("Tail caches the newest 8 MiB", async () => {
  const { tail, append } = await setUp(1, 60_000);
  await tail.readNew();
  const frameBytes = tail.cached(0, 1)[0]?.bytes.length ?? 0;
  const most = Math.floor((8 << 20) / frameBytes);
  await append(2, most);
  await tail.readNew();
  assertEquals([oldestIn(tail), cachedIds(tail).length], [0, most]);
  await append(most + 1, most + 1);
  await tail.readNew();
  const kept = cachedIds(tail);
  assertEquals(kept, range(oldestIn(tail) + 1, most + 1));
  assertEquals(kept.length, Math.floor((8 << 20) / (frameBytes + 2))); // ids of up to six digits
});

function createHub(tail: Tail, clock: FakeClock): Hub {
  return new Hub(tail, {
    clock,
    log: silentLog,
    random: () => 0,
    metrics: noMetrics,
    maxStreams: 10,
    maxStreamsPerClient: 10,
    maxStreamAgeMs: 60_000,
  });
}

/** Opens a stream, of which the opening has been read. */
async function openStream(hub: Hub, cursor: number) {
  const stream = await hub.open({
    client: { address: "192.0.2.1", clientKey: "192.0.2.1" },
    position: { kind: "every_event", cursor },
    form: "plain",
  });
  const reader = new Response(stream).body!
    .pipeThrough(new TextDecoderStream()).getReader();
  await reader.read();
  return reader;
}

Deno.test("a stream whose cursor is older than the cache gets every event", async () => {
  const clock = new FakeClock(1);
  const { tail } = await setUp(1_250);
  await tail.readNew();
  const hub = createHub(tail, clock);
  for (const cursor of [0, 1, 749, 750, 751, 1_249]) {
    const reader = await openStream(hub, cursor * 1_000);
    let text = "";
    while (!text.endsWith("id: 1250000\n\n")) {
      text += (await reader.read()).value;
    }
    const ids = [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) =>
      Number(id) / 1_000
    );
    assertEquals(ids, range(cursor + 1, 1_250), `after ${cursor}`);
    await reader.cancel();
  }
  await hub.close(0);
});

Deno.test("a stream that reads the store gets no event twice that another process has just committed", async () => {
  const clock = new FakeClock(1);
  const store = memoryStore();
  const tail = await tailWithOldEvents(store, store);
  const other = new TestPublisher(store, clock);
  const noPublic = {
    public: new Map(),
    sensitive: new Map(),
    server: new Set(["A", "B"]),
  };
  const first = await other.publish(noPublic); // the store has fewer events from now on than one read returns
  await tail.readNew();
  const values = new Map([["C", "1"], ["D", "1"]]);
  const newest = await other.publish({ ...noPublic, public: values });
  const hub = createHub(tail, clock);
  tail.onEvents = (frames) => hub.deliver(frames);
  const reader = await openStream(hub, 0);
  let text = (await reader.read()).value ?? "";
  const next = reader.read();
  await settle();
  await tail.readNew();
  text += (await next).value;
  const ids = [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
  assertEquals(ids, [...first, ...newest].map(({ id }) => id));
  await reader.cancel();
  await hub.close(0);
});

Deno.test("Tail.publicHash is that of the newest public state, and computed once for it", async () => {
  const { tail, append } = await setUp(1);
  await tail.readNew();
  const first = tail.publicHash;
  assertEquals(tail.publicHash === first, true);
  await append(2, 2);
  await tail.readNew();
  const values = new Map([["V1", "1"], ["V2", "2"]]);
  assertEquals(await tail.publicHash, await publicHash(values));
});

/** Appends an event of A and more of B than a tail caches at its start, and returns a tail that has read them. */
async function tailWithOldEvents(store: Store, read: Store) {
  const clock = new FakeClock(1);
  const later = range(1, 600).map((value) => ({
    name: "B",
    value: `${value}`,
  }));
  const all = [{ name: "A", value: "leaked" }, ...later];
  await appendUpdates(createEventLog(store, clock), all);
  const tail = new Tail(createEventLog(read, clock), clock);
  await tail.readNew();
  return tail;
}

/** Publishes that A, whose value was PUBLIC, is SENSITIVE. */
async function moveToSensitive(store: Store) {
  await new TestPublisher(store, new FakeClock(1)).publish({
    public: new Map([["B", "600"]]),
    sensitive: new Map([["A", "secret"]]),
    server: new Set(),
  });
}

/** Returns the events that contain a text. */
function textsWith(part: string, frames: readonly Frame[]): string[] {
  const texts = frames.map(({ bytes }) => new TextDecoder().decode(bytes));
  return texts.filter((text) => text.includes(part));
}

Deno.test("Tail.readFromStore() reads again if a value leaves the PUBLIC tier while the store answers", async () => {
  const store = memoryStore();
  const answers: Promise<void>[] = [];
  const slow: Store = {
    ...delegate(store),
    async list(...args) {
      const answer = answers.pop();
      const entries = await store.list<never>(...args);
      await answer;
      return entries;
    },
  };
  const tail = await tailWithOldEvents(store, slow);
  const answer = Promise.withResolvers<void>();
  answers.push(answer.promise);
  const reading = tail.readFromStore(0, Infinity);
  await moveToSensitive(store);
  await tail.readNew();
  answer.resolve();
  const frames = await reading;
  assertEquals(frames.length, 100);
  assertEquals(textsWith("leaked", frames), []);
});

Deno.test("Tail.readFromStore() reads again if a value leaves the PUBLIC tier while the events are encoded", async () => {
  const store = memoryStore();
  const tail = await tailWithOldEvents(store, store);
  const encoded = Promise.withResolvers<void>();
  const waits = [encoded.promise];
  using _ = interceptEncoding(() => waits.pop());
  const reading = tail.readFromStore(0, Infinity);
  await settle();
  assertEquals(waits, []); // it has been read, and waits
  await moveToSensitive(store);
  await tail.readNew();
  encoded.resolve();
  assertEquals(textsWith("leaked", await reading), []);
});

Deno.test("Tail.readFromStore() reads the store once for all streams at the same place", async () => {
  const store = memoryStore();
  const counted = countedStore(store);
  const tail = await tailWithOldEvents(store, counted);
  counted.reset();
  const [first, second] = await Promise.all([
    tail.readFromStore(0, Infinity),
    tail.readFromStore(0, Infinity),
  ]);
  assertEquals(counted.counts.list, 1);
  assertEquals(first, second);
});

/**
 * Replaces `TextEncoderStream` until it is disposed.
 *
 * @param begin Called for each stream, which encodes nothing before the promise that it returns has resolved.
 */
function interceptEncoding(begin: () => Promise<void> | void): Disposable {
  const original = globalThis.TextEncoderStream;
  class Intercepted extends TransformStream<string, Uint8Array<ArrayBuffer>> {
    readonly encoding = "utf-8";
    constructor() {
      super({
        start: begin,
        transform: (text, controller) =>
          controller.enqueue(new TextEncoder().encode(text)),
      });
    }
  }
  globalThis.TextEncoderStream = Intercepted;
  return { [Symbol.dispose]: () => globalThis.TextEncoderStream = original };
}

Deno.test("Tail encodes the events of a read once, however many streams get them", async () => {
  const clock = new FakeClock(1);
  const log = createEventLog(memoryStore(), clock);
  const tail = new Tail(log, clock);
  await tail.readNew();
  const hub = createHub(tail, clock);
  tail.onEvents = (frames) => hub.deliver(frames);
  const readers = await Promise.all(
    range(1, 5).map(() => openStream(hub, tail.head)),
  );
  let encodings = 0;
  using _ = interceptEncoding(() => void encodings++);
  const taken = readers.map((reader) => reader.read());
  await appendUpdates(log, [{ name: "A", value: "ä" }, {
    name: "B",
    value: "2",
  }]);
  await tail.readNew();
  const chunks = await Promise.all(taken);
  const text = (await log.after(0, 2)).map(eventFrame).join("");
  assertEquals(chunks.map(({ value }) => value), Array(5).fill(text));
  assertEquals(encodings, 1);
  await Promise.all(readers.map((reader) => reader.cancel()));
  await hub.close(0);
});

Deno.test("Tail changes nothing until all events of a read are encoded", async () => {
  const { tail, append } = await setUp(2);
  const delivered: number[][] = [];
  tail.onEvents = (frames) => delivered.push(frames.map(({ id }) => id));
  const known =
    () => [tail.head / 1_000, cachedIds(tail), tail.newestOfAll.length];
  let encoded = Promise.withResolvers<void>();
  using _ = interceptEncoding(() => encoded.promise);
  const loading = tail.readNew();
  await settle();
  assertEquals([tail.isLoaded, known()], [false, [0, [], 0]]);
  encoded.resolve();
  await loading;
  assertEquals([tail.isLoaded, known()], [true, [2, [1, 2], 2]]);
  await append(3, 4);
  encoded = Promise.withResolvers();
  const reading = [tail.readNew(), tail.readNew(), tail.readNew()];
  await settle();
  assertEquals([known(), delivered], [[2, [1, 2], 2], []]);
  encoded.resolve();
  await Promise.all(reading);
  assertEquals(known(), [4, [1, 2, 3, 4], 4]);
  assertEquals(delivered, [[3_000, 4_000]]);
});

Deno.test("eventFrame() writes the lines event, data and id of an update, in this order", () => {
  assertEquals(
    eventFrame({
      id: 1708267830000,
      name: "FEATURE_FLAGS",
      value: "dark-mode",
    }),
    'event: rep:config:update\ndata: {"key":"FEATURE_FLAGS","tier":"public","value":"dark-mode"}\nid: 1708267830000\n\n',
  );
});

Deno.test("eventFrame() omits the value of a deletion", () => {
  assertEquals(
    eventFrame({ id: 7, name: "OLD", value: undefined }),
    'event: rep:config:delete\ndata: {"key":"OLD","tier":"public"}\nid: 7\n\n',
  );
});

const FRAMES = [10, 20, 30, 40].map((id) => ({
  id,
  bytes: new Uint8Array(id),
}));

function idsAfter(cursor: number, maxBytes: number): number[] {
  return takeAfter(FRAMES, cursor, maxBytes).map(({ id }) => id);
}

Deno.test("takeAfter() returns the frames after a cursor", () => {
  assertEquals(
    [0, 9, 10, 39, 40, 41].map((cursor) => idsAfter(cursor, 1_000)),
    [
      [10, 20, 30, 40],
      [10, 20, 30, 40],
      [20, 30, 40],
      [40],
      [],
      [],
    ],
  );
});

Deno.test("takeAfter() returns frames of at most maxBytes in total, but at least one", () => {
  assertEquals([idsAfter(0, 59), idsAfter(0, 60), idsAfter(20, 1)], [[10, 20], [
    10,
    20,
    30,
  ], [30]]);
});
