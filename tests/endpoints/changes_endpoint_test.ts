import { assert, assertEquals, assertMatch } from "@std/assert";
import { memoryStore } from "../../src/store/memory.ts";
import type { Store } from "../../src/store/store.ts";
import { FakeClock, settle } from "../../tools/fake_clock.ts";
import { setUp, type TestGateway } from "../_gateway.ts";
import { fallibleStore, remoteStore } from "../_store.ts";
import { type Message, readSse, type SseReader } from "../_sse.ts";

function update(key: string, value: string, id: number): Message {
  return {
    event: "rep:config:update",
    data: { key, tier: "public", value },
    id,
  };
}

function deletion(key: string, id: number): Message {
  return { event: "rep:config:delete", data: { key, tier: "public" }, id };
}

/** The start of the clock. */
const T = 1_700_000_000_000;

/** Returns the id of an event at a time after {@linkcode T}, in milliseconds; events at the same time count on from it. */
function idAt(offset: number): number {
  return (T + offset) * 1_000;
}

Deno.test("GET /rep/changes is 404 without hot reload, for any method", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, { hotReload: false });
  for (const method of ["GET", "POST", "OPTIONS"]) {
    const response = await gate.ask("/rep/changes", { method });
    assertEquals(response.status, 404);
    assertEquals(await response.json(), {
      title: "Not Found",
      status: 404,
      detail: "Hot reload is not enabled",
    });
  }
});

Deno.test("GET /rep/changes is 405 for other methods", async () => {
  await using gate = await setUp({});
  for (const method of ["POST", "PUT", "DELETE", "PATCH", "HEAD"]) {
    const response = await gate.ask("/rep/changes", { method });
    assertEquals([response.status, response.headers.get("allow")], [
      405,
      "GET, OPTIONS",
    ]);
    await response.body?.cancel();
  }
});

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

Deno.test("GET /rep/changes returns a CORS header to permitted origins only", async () => {
  await using gate = await setUp({}, {
    allowedOrigins: ["https://app.example"],
  });
  for (
    const [origin, allowed] of [
      ["https://app.example", "https://app.example"],
      ["https://evil.example", null],
    ]
  ) {
    const response = await gate.ask("/rep/changes", {
      headers: { origin: origin ?? "" },
    });
    assertEquals([
      response.status,
      response.headers.get("access-control-allow-origin"),
    ], [200, allowed]);
    assertEquals(response.headers.get("vary"), "Origin");
    await response.body?.cancel();
  }
});

Deno.test("OPTIONS /rep/changes permits Last-Event-ID for permitted origins", async () => {
  await using gate = await setUp({}, {
    allowedOrigins: ["https://app.example"],
  });
  const ask = (origin: string) =>
    gate.ask("/rep/changes", { method: "OPTIONS", headers: { origin } });
  const allowed = await ask("https://app.example");
  assertEquals([
    allowed.status,
    allowed.headers.get("access-control-allow-headers"),
  ], [
    204,
    "last-event-id, cache-control",
  ]);
  const rejected = await ask("https://evil.example");
  assertEquals([
    rejected.status,
    rejected.headers.get("access-control-allow-headers"),
  ], [204, null]);
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

Deno.test("a variable that becomes SENSITIVE is deleted, and its old values are not replayed", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "leaked-1" }, {
    clock: new FakeClock(T),
  });
  await gate.set({ REP_PUBLIC_A: "leaked-2" });
  await gate.set({ REP_SENSITIVE_A: "leaked-2", REP_PUBLIC_B: "1" });
  const reader = await gate.listen({ "last-event-id": "0" });
  assertEquals(await reader.take(2), [
    update("B", "1", idAt(2)),
    deletion("A", idAt(3)),
  ]);
  assert(!reader.text().includes("leaked"));
  await reader.close();
});

Deno.test("a stream replays every event after the Last-Event-ID, in order, and continues with live ones", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "0" }, {
    clock: new FakeClock(T),
  });
  for (let i = 1; i <= 5; i++) await gate.set({ REP_PUBLIC_A: String(i) });
  const reader = await gate.listen({ "last-event-id": String(idAt(2)) });
  assertEquals(
    await reader.take(3),
    [3, 4, 5].map((i) => update("A", String(i), idAt(i))),
  );
  await gate.set({ REP_PUBLIC_A: "6" });
  assertEquals(await reader.take(1), [update("A", "6", idAt(6))]);
  await reader.close();
});

Deno.test("the first id is the client's own or its page's, so that it misses nothing if it is disconnected during the replay", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "0" }, {
    clock: new FakeClock(T),
    random: () => 0,
  });
  await gate.set({ REP_PUBLIC_A: "1" });
  for (
    const reader of [
      await gate.listen({ "last-event-id": String(idAt(0)) }),
      await gate.listen({}, `?last_event_id=${idAt(0)}`),
    ]
  ) {
    await reader.pull();
    assertEquals(
      reader.text(),
      `retry: 2000\n: connected\nid: ${idAt(0)}\n\n`,
    );
    await reader.close();
  }
});

/** The events with which a stream begins, for each kind of position: A changes twice and B once. */
const BEGINNINGS = {
  replay: [
    update("B", "0", idAt(1)),
    update("A", "1", idAt(2)),
    update("A", "2", idAt(3)),
  ],
  page: [update("B", "0", idAt(1)), update("A", "2", idAt(3))],
  now: [update("A", "2", idAt(3))],
  state: [update("B", "0", idAt(1)), update("A", "2", idAt(3))],
};

const CURSORS: [
  what: string,
  headers: HeadersInit,
  query: string,
  expected: keyof typeof BEGINNINGS,
][] = [
  ["the header", { "last-event-id": String(idAt(0)) }, "", "replay"],
  ["the query parameter", {}, `?last_event_id=${idAt(0)}`, "page"],
  [
    "the header before the query parameter",
    { "last-event-id": String(idAt(0)) },
    `?last_event_id=${idAt(1)}`,
    "replay",
  ],
  ["absent", {}, "", "now"],
  [
    "an empty header and the query parameter",
    { "last-event-id": "" },
    `?last_event_id=${idAt(0)}`,
    "page",
  ],
  ["an empty query parameter", {}, "?last_event_id=", "now"],
  ["the newest id", { "last-event-id": String(idAt(2)) }, "", "now"],
  ["the newest id as query parameter", {}, `?last_event_id=${idAt(2)}`, "now"],
  ["letters", { "last-event-id": "abc" }, "", "state"],
  ["a negative number", { "last-event-id": "-1" }, "", "state"],
  ["a fraction", { "last-event-id": "1.5" }, "", "state"],
  ["a number in another notation", { "last-event-id": "1e3" }, "", "state"],
  ["the future", { "last-event-id": String(idAt(3)) }, "", "state"],
  [
    "the past of another log",
    { "last-event-id": String(idAt(0) + 1) },
    "",
    "state",
  ],
  [
    "more digits than a number has",
    { "last-event-id": "9".repeat(40) },
    "",
    "state",
  ],
  ["10 KB", { "last-event-id": "7".repeat(10_000) }, "", "state"],
  ["half a script", {}, "?last_event_id=%3Cscript%3E%0a%0adata:x", "state"],
];

for (const [what, headers, query, expected] of CURSORS) {
  Deno.test(`a stream with the cursor ${what} begins with: ${expected}`, async () => {
    await using gate = await setUp({ REP_PUBLIC_A: "0", REP_PUBLIC_B: "0" }, {
      clock: new FakeClock(T),
    });
    await gate.set({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "0" });
    const reader = await gate.listen(headers, query);
    await reader.pull();
    await gate.set({ REP_PUBLIC_A: "2", REP_PUBLIC_B: "0" });
    assertEquals(
      await reader.take(BEGINNINGS[expected].length),
      BEGINNINGS[expected],
    );
    assertEquals(
      reader.text().includes("unknown event id"),
      expected === "state",
    );
    await reader.close();
  });
}

Deno.test("a stream with an invalid cursor begins with the newest event of each variable, deletions included", async () => {
  await using gate = await setUp({
    REP_PUBLIC_A: "0",
    REP_PUBLIC_B: "0",
    REP_PUBLIC_C: "0",
  }, {
    clock: new FakeClock(T),
  });
  await gate.set({ REP_PUBLIC_A: "1", REP_PUBLIC_C: "0" });
  const reader = await gate.listen({ "last-event-id": "nonsense" });
  assertEquals(await reader.take(3), [
    update("C", "0", idAt(2)),
    update("A", "1", idAt(3)),
    deletion("B", idAt(4)),
  ]);
  await reader.close();
});

Deno.test("a page's stream begins with the newest event of each variable that changed since, deletions included", async () => {
  const b = deletion("B", idAt(4));
  const c = update("C", "0", idAt(5));
  const a = update("A", "3", idAt(6));
  const cases: [cursor: number, events: Message[]][] = [
    [idAt(0), [b, c, a]],
    [idAt(2), [b, c, a]],
    [idAt(4), [c, a]],
    [idAt(5), [a]],
  ];
  for (const [cursor, events] of cases) {
    const clock = new FakeClock(T);
    const variables = { REP_PUBLIC_A: "0", REP_PUBLIC_B: "0" };
    await using gate = await setUp(variables, { clock });
    await gate.set({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "0" });
    await gate.set({ REP_PUBLIC_A: "2" }); // two events
    await gate.set({ REP_PUBLIC_A: "2", REP_PUBLIC_C: "0" });
    await gate.set({ REP_PUBLIC_A: "3", REP_PUBLIC_C: "0" });
    const reader = await gate.listen({}, `?last_event_id=${cursor}`);
    assertEquals(await reader.take(events.length), events);
    await gate.set({ REP_PUBLIC_A: "4", REP_PUBLIC_C: "0" });
    assertEquals(await reader.take(1), [update("A", "4", idAt(7))]);
    await reader.close();
  }
});

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
): Promise<{ query: string; cursor: string }> {
  const page = new Response("<head></head>", {
    headers: { "content-type": "text/html" },
  });
  const [, query = "", cursor = ""] =
    /\/rep\/changes(\?last_event_id=(\d+)[^"]*)"/.exec(
      await (await gateway.inject(page)).text(),
    ) ?? [];
  return { query, cursor };
}

/** Starts a gateway, takes a page from it, and starts another one with an empty store, as after a restart. */
async function restart(
  variables: Record<string, string>,
  run: (before: TestGateway) => Promise<void> = async () => {},
) {
  const before = await setUp({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "2" }, {
    random: () => 0.1,
  });
  const page = await streamOfPage(before);
  await run(before);
  await before.gateway.close();
  return { page, after: await setUp(variables, { random: () => 0.2 }) };
}

const STATE = { REP_PUBLIC_A: "1", REP_PUBLIC_B: "2" };

/** What a client of a page is sent after a restart with an empty store, by what it has. */
const AFTER_RESTART: Record<string, {
  after?: Record<string, string>;
  ask: (page: { query: string; cursor: string }) => [HeadersInit, string];
  values: string[];
}> = {
  "its page has the same values": {
    ask: ({ query, cursor }) => [{ "last-event-id": cursor }, query],
    values: [],
  },
  "a value has changed": {
    after: { ...STATE, REP_PUBLIC_B: "3" },
    ask: ({ query, cursor }) => [{ "last-event-id": cursor }, query],
    values: ["1", "3"],
  },
  "its page has other values": {
    ask: ({ query, cursor }) => [
      { "last-event-id": cursor },
      query.replace(/state=.*/, "state=x"),
    ],
    values: ["1", "2"],
  },
  "its page has no digest": {
    ask: ({ query, cursor }) => [
      { "last-event-id": cursor },
      query.replace(/&state=.*/, ""),
    ],
    values: ["1", "2"],
  },
  "it has received an event": {
    ask: ({ query, cursor }) => [
      { "last-event-id": String(Number(cursor) + 1_000) },
      query,
    ],
    values: ["1", "2"],
  },
  "it subscribes again with its page's URL": {
    ask: ({ query }) => [{}, query],
    values: ["1", "2"],
  },
};

for (const [reason, { after, ask, values }] of Object.entries(AFTER_RESTART)) {
  Deno.test(`after a restart with an empty store, a client is sent [${values}] if ${reason}`, async () => {
    const restarted = await restart(after ?? STATE);
    await using gate = restarted.after;
    const stream = await gate.listen(...ask(restarted.page));
    await stream.pull();
    const messages = await stream.take(values.length);
    await gate.set({ ...STATE, REP_PUBLIC_B: "next" });
    messages.push(...await stream.take(1));
    assertEquals(messages.map(({ data }) => data.value), [...values, "next"]);
    await stream.close();
  });
}

Deno.test("REP's SDK sees the current value after a change, an unsubscription and a change back", async () => {
  for (const restarts of [false, true]) {
    const changed = { ...STATE, REP_PUBLIC_B: "changed" };
    const { page, after } = await restart(STATE, async (before) => {
      const { query } = await streamOfPage(before);
      const stream = await before.listen({}, query);
      await before.set(changed);
      assertEquals((await stream.take(1)).map(({ data }) => data.value), [
        "changed",
      ]);
      await stream.close();
      await before.set(STATE);
      if (restarts) return;
      const again = await before.listen({}, query); // the SDK opens its page's URL once more
      assertEquals((await again.take(1)).map(({ data }) => data.value), ["2"]);
      await again.close();
    });
    await using _after = after;
    const again = await after.listen({}, page.query);
    assertEquals((await again.take(2)).map(({ data }) => data.value), [
      "1",
      "2",
    ]);
    await again.close();
  }
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

Deno.test("a client that pauses receives all events when it continues", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "0" }, {
    clock: new FakeClock(T),
  });
  const slow = await gate.listen();
  const quick = await gate.listen();
  for (let i = 1; i <= 300; i++) {
    await gate.set({ REP_PUBLIC_A: "x".repeat(1_000) + i });
    assertEquals((await quick.next())?.id, idAt(i));
  }
  assertEquals(
    (await slow.take(300)).map(({ id }) => id),
    Array.from({ length: 300 }, (_, i) => idAt(1 + i)),
  );
  await Promise.all([slow.close(), quick.close()]);
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

Deno.test("a stream beyond maxStreams is told to reconnect, with a 200 that ends", async () => {
  await using gate = await setUp({}, {
    maxStreams: 2,
    maxStreamsPerClient: 3,
    random: () => 0,
  });
  const open = [await gate.listen(), await gate.listen()];
  const rejected = await gate.ask("/rep/changes");
  assertEquals([rejected.status, rejected.headers.get("content-type")], [
    200,
    "text/event-stream",
  ]);
  assertEquals(
    await rejected.text(),
    "retry: 5000\n: too many open streams; reconnect later\n\n",
  );
  await open[0]?.close();
  const third = await gate.listen();
  await third.pull();
  assertMatch(third.text(), /: connected/);
  await Promise.all([open[1]?.close(), third.close()]);
});

interface OpenedStream {
  status: number;
  /** The comment of the first frame. */
  comment: string | undefined;
  reader: SseReader;
}

/** Opens a stream from a peer. */
async function openFrom(
  gate: TestGateway,
  hostname: string,
  headers: HeadersInit = {},
): Promise<OpenedStream> {
  const info = {
    remoteAddr: { transport: "tcp", hostname, port: 50_000 },
  } as const;
  const response = await gate.gateway.fetch(
    new Request("http://gateway.test/rep/changes", { headers }),
    info,
  );
  const reader = readSse(response);
  await reader.pull();
  const [, comment] = /^: (.*)$/m.exec(reader.text()) ?? [];
  return { status: response.status, comment, reader };
}

/** Opens a stream from each peer, one after the other, and returns the comments of their first frames. */
async function commentsFrom(gate: TestGateway, peers: readonly string[]) {
  const streams: OpenedStream[] = [];
  for (const peer of peers) streams.push(await openFrom(gate, peer));
  return {
    comments: streams.map(({ comment }) => comment),
    close: async () =>
      void await Promise.all(streams.map(({ reader }) => reader.close())),
  };
}

const CONNECTED = "connected";
const TOO_MANY_OF_CLIENT =
  "too many open streams of this client; reconnect later";

Deno.test("a client cannot take more streams than maxStreamsPerClient, and leaves the rest to the others", async () => {
  await using gate = await setUp({}, { maxStreams: 5, random: () => 0 });
  const greedy = await commentsFrom(gate, Array(6).fill("192.0.2.1"));
  assertEquals(greedy.comments, [
    ...Array(3).fill(CONNECTED),
    ...Array(3).fill(TOO_MANY_OF_CLIENT),
  ]);
  const other = await commentsFrom(gate, ["192.0.2.2"]);
  assertEquals(other.comments, [CONNECTED]);
  await greedy.close();
  const again = await commentsFrom(gate, ["192.0.2.1"]);
  assertEquals(again.comments, [CONNECTED]);
  await Promise.all([other.close(), again.close()]);
});

Deno.test("maxStreamsPerClient counts the clients behind a trusted proxy by their own addresses", async () => {
  await using gate = await setUp({}, {
    maxStreamsPerClient: 1,
    trustedProxies: ["10.0.0.1"],
  });
  const streams: OpenedStream[] = [];
  for (const client of ["192.0.2.1", "192.0.2.1", "192.0.2.2"]) {
    streams.push(
      await openFrom(gate, "10.0.0.1", { "x-forwarded-for": client }),
    );
  }
  assertEquals(streams.map(({ comment }) => comment), [
    CONNECTED,
    TOO_MANY_OF_CLIENT,
    CONNECTED,
  ]);
  await Promise.all(streams.map(({ reader }) => reader.close()));
});

Deno.test("a stream that ends by its age makes room for another one of the same client", async () => {
  const clock = new FakeClock(T);
  await using gate = await setUp({}, {
    clock,
    maxStreamsPerClient: 1,
    maxStreamAgeMs: 60_000,
  });
  const first = await openFrom(gate, "192.0.2.1");
  await clock.tick(60_000);
  assertEquals(await first.reader.pull(), false);
  const { comments, close } = await commentsFrom(gate, [
    "192.0.2.1",
    "192.0.2.1",
  ]);
  assertEquals(comments, [CONNECTED, TOO_MANY_OF_CLIENT]);
  await close();
});

Deno.test("rejected streams are logged at once, and then counted in one line per minute and client", async () => {
  const clock = new FakeClock(T);
  await using gate = await setUp({}, {
    clock,
    maxStreams: 2,
    maxStreamsPerClient: 1,
  });
  const logged = () => {
    const lines = gate.lines.filter(({ msg }) =>
      msg === "rep.streams.rejected"
    );
    return lines.map(({ time: _, msg: __, ...rest }) => rest);
  };
  const limit = {
    level: "WARN",
    limit: "max_streams_per_client",
    client_ip: "192.0.2.1",
  };
  const { close } = await commentsFrom(gate, Array(1_001).fill("192.0.2.1"));
  assertEquals(logged(), [{ ...limit, rejected: 1 }]);
  await clock.tick(60_000);
  assertEquals(logged(), [{ ...limit, rejected: 1 }, {
    ...limit,
    rejected: 999,
  }]);
  await clock.tick(120_000);
  assertEquals(logged().length, 2);
  const again = await commentsFrom(gate, [
    "192.0.2.1",
    "192.0.2.2",
    "192.0.2.3",
    "192.0.2.4",
  ]);
  assertEquals(logged().slice(2), [
    { ...limit, rejected: 1 },
    { level: "WARN", limit: "max_streams", rejected: 1 },
  ]);
  await Promise.all([close(), again.close()]);
});

Deno.test("close() ends streams over the drain time, and rejects new ones with a retry", async () => {
  const clock = new FakeClock(T);
  const gate = await setUp({}, { clock, random: () => 0 });
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
