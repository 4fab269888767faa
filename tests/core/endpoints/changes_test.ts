import { assert, assertEquals } from "@std/assert";
import { memoryStore } from "../../../src/engines/memory.ts";
import type { Store } from "../../../src/core/store/store.ts";
import { FakeClock, settle } from "../../../tools/fake_clock.ts";
import { setUp, type TestGateway } from "../../_gateway.ts";
import { fallibleStore, remoteStore } from "../../_store.ts";
import { type Message, readSse, type SseReader } from "../../_sse.ts";

function update(key: string, value: string, id: number) {
  return {
    event: "rep:config:update",
    data: { key, tier: "public", value },
    id,
  };
}

function deletion(key: string, id: number) {
  return { event: "rep:config:delete", data: { key, tier: "public" }, id };
}

/** The start of the clock. */
const T = 1_700_000_000_000;

/** Returns the id of an event at a time after {@linkcode T}, in milliseconds; events at the same time count on from it. */
function idAt(offset: number) {
  return (T + offset) * 1_000;
}

Deno.test("GET /rep/changes returns the headers of a stream that must not be cached or transformed", async () => {
  await using gate = await setUp({});
  const response = await gate.ask("/rep/changes");
  assertEquals([response.status, Object.fromEntries(response.headers)], [200, {
    "cache-control": "no-cache, no-store, no-transform",
    "content-type": "text/event-stream",
    "vary": "Origin",
    "x-accel-buffering": "no",
  }]);
  await response.body?.cancel();
});

Deno.test("/rep/changes permits the allowed origins only, with Last-Event-ID in a preflight", async () => {
  const allowedOrigins = ["https://app.example"];
  await using gate = await setUp({}, { allowedOrigins });
  const ask = async (method: string, origin: string) => {
    const headers = {
      origin,
      "access-control-request-headers": "last-event-id,traceparent",
    };
    const response = await gate.ask("/rep/changes", { method, headers });
    await response.body?.cancel();
    return [
      response.status,
      response.headers.get("vary"),
      response.headers.get("access-control-allow-origin"),
      response.headers.get("access-control-allow-credentials"),
      response.headers.get("access-control-allow-headers"),
    ];
  };
  const [allowed = ""] = allowedOrigins;
  const asked = "last-event-id,traceparent";
  const vary = "Origin, Access-Control-Request-Headers";
  const evil = "https://evil.example";
  assertEquals(await ask("GET", allowed), [
    200,
    "Origin",
    allowed,
    "true",
    null,
  ]);
  assertEquals(await ask("GET", evil), [200, "Origin", null, null, null]);
  assertEquals(await ask("OPTIONS", allowed), [
    204,
    vary,
    allowed,
    "true",
    asked,
  ]);
  assertEquals(await ask("OPTIONS", evil), [204, vary, null, null, null]);
});

Deno.test("a stream begins at once with retry, a comment and the current id", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
    clock: new FakeClock(T),
    random: () => 0.5,
  });
  const reader = await gate.listen();
  await reader.pull();
  assertEquals(
    reader.text(),
    `retry: 5000\n: connected\nid: ${idAt(0) + 500}\n\n`,
  );
  await reader.close();
});

Deno.test("a stream sends updates, additions and deletions of PUBLIC variables", async () => {
  const clock = new FakeClock(T);
  await using gate = await setUp({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" }, {
    clock,
  });
  const reader = await gate.listen();
  await clock.tick(1_000);
  await gate.set({ REP_PUBLIC_A: "2", REP_PUBLIC_C: "3" });
  assertEquals(await reader.take(3), [
    update("A", "2", idAt(1_000)),
    update("C", "3", idAt(1_001)),
    deletion("B", idAt(1_002)),
  ]);
  await reader.close();
});

Deno.test("a stream does not send changes of SENSITIVE and SERVER variables", async () => {
  const clock = new FakeClock(T);
  await using gate = await setUp({ REP_SENSITIVE_S: "1", REP_SERVER_V: "1" }, {
    clock,
  });
  const reader = await gate.listen();
  await gate.set({
    REP_SENSITIVE_S: "2",
    REP_SERVER_V: "2",
    REP_SENSITIVE_T: "1",
  });
  await gate.set({
    REP_SENSITIVE_T: "1",
    REP_SERVER_V: "2",
    REP_PUBLIC_END: "1",
  });
  assertEquals(await reader.take(1), [update("END", "1", idAt(0))]);
  await reader.close();
});

/** The events with which a stream begins, by what it is sent, in the history below. */
const BEGINNINGS = {
  everything: [
    update("B", "0", idAt(1)),
    update("C", "0", idAt(2)),
    update("A", "1", idAt(3)),
    deletion("C", idAt(4)),
    update("A", "2", idAt(5)),
  ],
  newest: [
    update("B", "0", idAt(1)),
    deletion("C", idAt(4)),
    update("A", "2", idAt(5)),
  ],
  next: [update("A", "2", idAt(5))],
  state: [
    update("B", "0", idAt(1)),
    deletion("C", idAt(4)),
    update("A", "2", idAt(5)),
  ],
};

const header = (id: number | string) => ({ "last-event-id": String(id) });

/** The header has precedence; for an invalid id, the whole state is sent. */
const CURSORS: [
  what: string,
  headers: HeadersInit,
  query: string,
  sent: keyof typeof BEGINNINGS,
][] = [
  ["the header", header(idAt(0)), "", "everything"],
  [
    "the header, and a page's id",
    header(idAt(0)),
    `?last_event_id=${idAt(1)}`,
    "everything",
  ],
  ["a page's id", {}, `?last_event_id=${idAt(0)}`, "newest"],
  [
    "an empty header, and a page's id",
    header(""),
    `?last_event_id=${idAt(0)}`,
    "newest",
  ],
  ["nothing", {}, "", "next"],
  ["an empty page's id", {}, "?last_event_id=", "next"],
  ["the newest id", header(idAt(4)), "", "next"],
  ["the newest id of a page", {}, `?last_event_id=${idAt(4)}`, "next"],
  ["letters", header("abc"), "", "state"],
  ["a negative number", header("-1"), "", "state"],
  ["a fraction", header("1.5"), "", "state"],
  ["a number in another notation", header("1e3"), "", "state"],
  ["the future", header(idAt(5)), "", "state"],
  ["the past of another log", header(idAt(0) + 1), "", "state"],
  ["more digits than a number has", header("9".repeat(40)), "", "state"],
  ["half a script", {}, "?last_event_id=%3Cscript%3E%0a%0adata:x", "state"],
];

for (const [what, headers, query, sent] of CURSORS) {
  Deno.test(`a stream with ${what} as its cursor begins with: ${sent}`, async () => {
    const variables = { REP_PUBLIC_A: "0", REP_PUBLIC_B: "0" };
    const clock = new FakeClock(T);
    await using gate = await setUp({ ...variables, REP_PUBLIC_C: "0" }, {
      clock,
    });
    await gate.set({ ...variables, REP_PUBLIC_A: "1" });
    const reader = await gate.listen(headers, query);
    await reader.pull();
    await gate.set({ ...variables, REP_PUBLIC_A: "2" });
    const events = BEGINNINGS[sent];
    assertEquals(await reader.take(events.length), events);
    const isUnknown = reader.text().includes(": unknown event id; ");
    assertEquals(isUnknown, sent === "state");
    await reader.close();
  });
}

Deno.test("a cursor that another process has just issued is valid", async () => {
  const options = {
    store: remoteStore(memoryStore()),
    clock: new FakeClock(T),
    random: () => 0,
  };
  await using ahead = await setUp({ REP_PUBLIC_A: "0" }, options);
  await using behind = await setUp({ REP_PUBLIC_A: "0" }, options);
  await ahead.set({ REP_PUBLIC_A: "1" });
  const reader = await behind.listen({ "last-event-id": String(idAt(1)) });
  await reader.pull();
  assertEquals(reader.text(), `retry: 2000\n: connected\nid: ${idAt(1)}\n\n`);
  await reader.close();
});

/** Returns the query and the cursor of a page of a gateway. */
async function streamOfPage(
  { gateway }: TestGateway,
) {
  const page = new Response("<head></head>", {
    headers: { "content-type": "text/html" },
  });
  const [, query = "", cursor = ""] =
    /\/rep\/changes(\?last_event_id=(\d+)[^"]*)"/.exec(
      await (await gateway.inject(page)).text(),
    ) ?? [];
  return { query, cursor };
}

const STATE = { REP_PUBLIC_A: "1", REP_PUBLIC_B: "2" };

/** What a client of a page is sent after a restart with an empty store: the whole state, unless it has it. */
const AFTER_RESTART: [
  reason: string,
  ask: (page: { query: string; cursor: string }) => [HeadersInit, string],
  values: string[],
  b?: string,
][] = [
  [
    "its page has the same values",
    ({ query, cursor }) => [header(cursor), query],
    [],
  ],
  [
    "a value has changed",
    ({ query, cursor }) => [header(cursor), query],
    ["1", "3"],
    "3",
  ],
  [
    "its page has other values",
    (
      { query, cursor },
    ) => [header(cursor), query.replace(/state=.*/, "state=x")],
    ["1", "2"],
  ],
  [
    "its page has no hash",
    ({ query, cursor }) => [header(cursor), query.replace(/&state=.*/, "")],
    ["1", "2"],
  ],
  [
    "it has received an event",
    ({ query, cursor }) => [header(Number(cursor) + 1_000), query],
    ["1", "2"],
  ],
  [
    "it subscribes again with its page's URL",
    ({ query }) => [{}, query],
    ["1", "2"],
  ],
];

for (const [reason, ask, values, b = "2"] of AFTER_RESTART) {
  Deno.test(`after a restart with an empty store, a client is sent [${values}] if ${reason}`, async () => {
    const before = await setUp(STATE, { random: () => 0.1 });
    const page = await streamOfPage(before);
    await before.gateway.close();
    const state = { ...STATE, REP_PUBLIC_B: b };
    await using gate = await setUp(state, { random: () => 0.2 });
    const stream = await gate.listen(...ask(page));
    await stream.pull();
    const messages = await stream.take(values.length);
    await gate.set({ ...STATE, REP_PUBLIC_B: "next" });
    messages.push(...await stream.take(1));
    assertEquals(messages.map(({ data }) => data.value), [...values, "next"]);
    await stream.close();
  });
}

Deno.test("REP's SDK, which opens its page's URL each time, sees the current value after a change and a change back", async () => {
  await using gate = await setUp(STATE);
  const { query } = await streamOfPage(gate);
  await gate.set({ ...STATE, REP_PUBLIC_B: "changed" });
  await gate.set(STATE);
  const again = await gate.listen({}, query);
  assertEquals(await again.takeValues(1), ["2"]);
  await again.close();
});

/** A store without hints whose lists of events may fail. */
function storeWithOutages() {
  const inner = memoryStore();
  const state = { isDown: false };
  const operations = ["list"] as const;
  const store = fallibleStore(inner, () => state.isDown, { operations });
  return { inner, store, state };
}

Deno.test("a client whose cursor cannot be validated while the store is unavailable is told to reconnect", async () => {
  const { inner, store, state } = storeWithOutages();
  const clock = new FakeClock(T);
  const variables = { REP_PUBLIC_A: "0" };
  await using ahead = await setUp(variables, {
    store: remoteStore(inner),
    clock,
  });
  await using behind = await setUp(variables, { store, clock });
  await ahead.set({ REP_PUBLIC_A: "1" });
  state.isDown = true;
  const cursor = { "last-event-id": String(idAt(1)) };
  const rejected = await behind.ask("/rep/changes", { headers: cursor });
  assertEquals(
    await rejected.text(),
    "retry: 5000\n: the store is unavailable; reconnect later\n\n",
  );
  state.isDown = false;
  await clock.tick(1_000);
  const reader = await behind.listen(cursor);
  await ahead.set({ REP_PUBLIC_A: "2" });
  await clock.tick(1_000);
  assertEquals(await reader.take(1), [update("A", "2", idAt(1_000))]);
  await reader.close();
});

Deno.test("a stream that cannot catch up while the store is unavailable ends, and the client resumes at its cursor", async () => {
  const { store, state } = storeWithOutages();
  const clock = new FakeClock(T);
  await using first = await setUp({ REP_PUBLIC_A: "0" }, { store, clock });
  for (let i = 1; i <= 700; i++) await first.set({ REP_PUBLIC_A: String(i) });
  await using gate = await setUp({ REP_PUBLIC_A: "700" }, { store, clock });
  state.isDown = true;
  const cut = await gate.listen({ "last-event-id": String(idAt(0)) });
  assertEquals(await cut.next(), undefined);
  state.isDown = false;
  await clock.tick(1_000);
  const reader = await gate.listen({ "last-event-id": String(idAt(0)) });
  assertEquals((await reader.take(700)).at(-1), update("A", "700", idAt(700)));
  await reader.close();
});

Deno.test("the transition from replay to live events loses and repeats nothing, whenever an event is published", async () => {
  for (let publishAt = 0; publishAt < 40; publishAt++) {
    const store = memoryStore();
    await using gate = await setUp({ REP_PUBLIC_A: "0" }, {
      store,
      clock: new FakeClock(T),
    });
    for (let i = 1; i <= 3; i++) await gate.set({ REP_PUBLIC_A: String(i) });
    const opening = gate.listen({ "last-event-id": String(idAt(0)) });
    const published = (async () => {
      for (let turn = 0; turn < publishAt; turn++) await Promise.resolve();
      await gate.set({ REP_PUBLIC_A: "4" });
      await gate.set({ REP_PUBLIC_A: "5" });
    })();
    const reader = await opening;
    const expected = [1, 2, 3, 4, 5].map((i) =>
      update("A", String(i), idAt(i))
    );
    assertEquals(
      await reader.take(5),
      expected,
      `published after ${publishAt} turns`,
    );
    await published;
    await reader.close();
  }
});

Deno.test("the transition loses and repeats nothing if an event is published during every read of the store", async () => {
  const inner = memoryStore();
  let publishNext: (() => Promise<void>) | undefined;
  const store: Store = {
    ...remoteStore(inner),
    async list(prefix, options) {
      const before = publishNext;
      publishNext = undefined;
      const entries = await inner.list(prefix, options);
      await before?.();
      return entries as never;
    },
  };
  await using gate = await setUp({ REP_PUBLIC_A: "0" }, {
    store,
    clock: new FakeClock(T),
  });
  let count = 0;
  const more = async () => await gate.set({ REP_PUBLIC_A: String(++count) });
  while (count < 2_000) await more(); // more than a new process reads at the start
  const clock = new FakeClock(T);
  await using late = await setUp({ REP_PUBLIC_A: "2000" }, { store, clock });
  const reader = await late.listen({ "last-event-id": String(idAt(0)) });
  const seen: Message[] = [];
  for (let i = 0; i < 15; i++) {
    publishNext = more;
    seen.push(...await reader.take(100));
  }
  publishNext = undefined;
  await clock.tick(1_000);
  seen.push(...await reader.take(count - seen.length));
  assert(count >= 2_010, `${count - 2_000} were published in between`);
  assertEquals(
    seen,
    Array.from(
      { length: count },
      (_, i) => update("A", String(i + 1), idAt(i + 1)),
    ),
  );
  await reader.close();
});

Deno.test("no events are queued for a client that does not read", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "0" }, {
    clock: new FakeClock(T),
  });
  const response = await gate.ask("/rep/changes");
  const reader = response.body!.getReader();
  await reader.read();
  for (let i = 1; i <= 500; i++) {
    await gate.set({ REP_PUBLIC_A: "y".repeat(1_000) + i });
  }
  const { value } = await reader.read(); // one chunk of limited size, created on demand
  const size = value?.length ?? 0;
  assert(size > 60_000 && size <= 64 << 10, `${size} bytes`);
  await reader.cancel();
});

Deno.test("an idle stream receives a heartbeat with the newest id after 15 s", async () => {
  const clock = new FakeClock(T);
  await using gate = await setUp({ REP_PUBLIC_A: "0" }, {
    clock,
    random: () => 0.999,
  });
  const reader = await gate.listen();
  await reader.pull();
  const opening = reader.text();
  const beat = reader.pull();
  await clock.tick(14_000);
  assertEquals(reader.text(), opening);
  await clock.tick(1_000);
  await beat;
  assertEquals(
    reader.text().slice(opening.length),
    `: heartbeat\nid: ${idAt(0) + 999}\n\n`,
  );
  await reader.close();
});

Deno.test("a stream ends at 80 to 100 % of the maximum age", async () => {
  for (const [random, age] of [[0, 48_000], [0.999, 60_000]] as const) {
    const clock = new FakeClock(T);
    await using gate = await setUp({ REP_PUBLIC_A: "0" }, {
      clock,
      random: () => random,
      maxStreamAgeMs: 60_000,
    });
    const reader = await gate.listen();
    const end = reader.next();
    await clock.tick(age - 1_000);
    assert(!reader.text().includes("END"));
    await clock.tick(1_000);
    assertEquals(await end, undefined);
    await reader.close();
  }
});

/** Opens a stream from each peer, one after the other, and returns them with the comments of their first frames. */
async function openFrom(
  { gateway }: TestGateway,
  peers: readonly string[],
  forwardedFor?: string,
) {
  const readers: SseReader[] = [];
  for (const hostname of peers) {
    const request = new Request("http://gateway.test/rep/changes");
    if (forwardedFor) request.headers.set("x-forwarded-for", forwardedFor);
    const remoteAddr = { transport: "tcp", hostname, port: 50_000 } as const;
    const reader = readSse(await gateway.fetch(request, { remoteAddr }));
    await reader.pull();
    readers.push(reader);
  }
  return {
    readers,
    comments: readers.map((reader) => /^: (.*)$/m.exec(reader.text())?.[1]),
    close: async () =>
      void await Promise.all(readers.map((reader) => reader.close())),
  };
}

const CONNECTED = "connected";
const TOO_MANY_OF_CLIENT =
  "too many open streams of this client; reconnect later";

Deno.test("a client cannot take more streams than maxStreamsPerClient, and leaves the rest to the others", async () => {
  await using gate = await setUp({}, { maxStreams: 5 });
  const greedy = await openFrom(gate, Array(4).fill("192.0.2.1"));
  assertEquals(greedy.comments, [
    ...Array(3).fill(CONNECTED),
    TOO_MANY_OF_CLIENT,
  ]);
  const other = await openFrom(gate, ["192.0.2.2"]);
  assertEquals(other.comments, [CONNECTED]);
  await greedy.close();
  const again = await openFrom(gate, ["192.0.2.1"]);
  assertEquals(again.comments, [CONNECTED]);
  await Promise.all([other.close(), again.close()]);
});

Deno.test("maxStreamsPerClient counts the clients behind a trusted proxy by their own addresses", async () => {
  const trustedProxies = ["10.0.0.1"];
  await using gate = await setUp({}, {
    maxStreamsPerClient: 1,
    trustedProxies,
  });
  const twice = ["10.0.0.1", "10.0.0.1"];
  const one = await openFrom(gate, twice, "192.0.2.1");
  const other = await openFrom(gate, twice, "192.0.2.2");
  const expected = [CONNECTED, TOO_MANY_OF_CLIENT];
  assertEquals([one.comments, other.comments], [expected, expected]);
  await Promise.all([one.close(), other.close()]);
});

Deno.test("a stream that ends by its age makes room for another one of the same client", async () => {
  const clock = new FakeClock(T);
  const limits = { maxStreamsPerClient: 1, maxStreamAgeMs: 60_000 };
  await using gate = await setUp({}, { clock, ...limits });
  const { readers: [first] } = await openFrom(gate, ["192.0.2.1"]);
  const end = first?.next();
  await clock.tick(60_000);
  assertEquals(await end, undefined);
  const { comments, close } = await openFrom(gate, ["192.0.2.1", "192.0.2.1"]);
  assertEquals(comments, [CONNECTED, TOO_MANY_OF_CLIENT]);
  await close();
});

Deno.test("rejected streams are logged at once, and then counted in one line per minute and client", async () => {
  const clock = new FakeClock(T);
  const limits = { maxStreams: 2, maxStreamsPerClient: 1 };
  await using gate = await setUp({}, { clock, ...limits });
  const clients = [...Array(4).fill(1), 2, 3].map((last) => `192.0.2.${last}`);
  const { close } = await openFrom(gate, clients);
  await clock.tick(60_000);
  const logged = gate.logged("rep.streams.rejected");
  const ofClient = {
    level: "WARN",
    limit: "max_streams_per_client",
    client_ip: "192.0.2.1",
  };
  assertEquals(logged.map(({ time: _, msg: __, ...fields }) => fields), [
    { ...ofClient, rejected: 1 },
    { level: "WARN", limit: "max_streams", rejected: 1 },
    { ...ofClient, rejected: 2 },
  ]);
  await close();
});

Deno.test("close() ends streams over the drain time if another replica lives, and rejects new ones with a retry", async () => {
  const clock = new FakeClock(T);
  const store = memoryStore();
  const gate = await setUp({}, { clock, store, random: () => 0 });
  await using _other = await setUp({}, { clock, store }); // since the last heartbeat of the first one
  const readers: SseReader[] = [];
  for (let i = 0; i < 4; i++) readers.push(await gate.listen());
  let ended = 0;
  const ends = readers.map((reader) => reader.next().then(() => ended++));
  await settle();
  const closed = gate.gateway.close({ drainMs: 8_000 });
  const endedAt = [];
  for (let second = 0; second <= 6; second += 2) {
    await clock.tick(second === 0 ? 0 : 2_000);
    endedAt.push(ended);
  }
  assertEquals(endedAt, [1, 2, 3, 4]);
  assertEquals(
    await (await gate.ask("/rep/changes")).text(),
    "retry: 5000\n: the gateway is stopping; reconnect later\n\n",
  );
  assertEquals((await gate.ask("/rep/health")).status, 503);
  await Promise.all([...ends, closed]);
});

for (const fate of ["there was never one", "it has left", "it has died"]) {
  Deno.test(`close() ends all streams at once without another replica: ${fate}`, async () => {
    const clock = new FakeClock(T);
    const store = memoryStore();
    let isDown = false;
    const othersStore = fallibleStore(store, () => isDown);
    const gate = await setUp({}, { clock, store });
    if (fate !== "there was never one") {
      const other = await setUp({}, { clock, store: othersStore });
      isDown = fate === "it has died";
      await other.gateway.close();
      for (let period = 0; isDown && period < 4; period++) {
        await clock.tick(5_000);
      }
    }
    const readers = [await gate.listen(), await gate.listen()];
    const now = clock.now();
    await gate.gateway.close({ drainMs: 8_000 });
    assertEquals(await Promise.all(readers.map((it) => it.next())), [
      undefined,
      undefined,
    ]);
    assertEquals([clock.now(), clock.waiting], [now, 0]);
  });
}

Deno.test("close() waits no longer when all clients have left", async () => {
  const clock = new FakeClock(T);
  const gate = await setUp({}, { clock });
  const readers = [
    await gate.listen(),
    await gate.listen(),
    await gate.listen(),
  ];
  const closed = gate.gateway.close({ drainMs: 8_000 });
  for (const reader of readers) await reader.close();
  await closed;
  assertEquals([clock.now(), clock.waiting], [T, 0]);
});
