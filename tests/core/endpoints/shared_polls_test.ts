/** Polls that a shared cache may answer: their response depends on the URL and the log alone. */
import { assertEquals } from "@std/assert";
import { memoryStore } from "../../../src/engines/memory.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { setUp, type TestGateway } from "../../_gateway.ts";
import { fallibleStore, remoteStore } from "../../_store.ts";

/** The start of the clock. */
const T = 1_700_000_000_000;

/** Returns the id of the event that was published so many events after the first one. */
function id(count: number) {
  return (T + count) * 1_000;
}

const INTERVALS = [10, 15, 30, 60, 300, 3_600];

function update(key: string, value: string, eventId: number) {
  const data = JSON.stringify({ key, tier: "public", value });
  return `event: rep:config:update\ndata: ${data}\nid: ${eventId}\n\n`;
}

/** Returns a poll's response: after the opening come these events. */
function poll(
  seconds: number,
  cursor: number | undefined,
  ...events: string[]
) {
  const line = cursor === undefined ? "" : `id: ${cursor}\n`;
  return `retry: ${seconds}000\n: poll; reconnect later\n${line}\n` +
    `event: rep:heartbeat\ndata: {}\n\n${events.join("")}`;
}

/** Returns all that a cache sees. */
async function ask(
  gate: TestGateway,
  query: string,
  headers: HeadersInit = {},
) {
  const response = await gate.ask(`/rep/changes${query}`, { headers });
  return {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    text: await response.text(),
  };
}

async function textOf(gate: TestGateway, query: string) {
  return (await ask(gate, query)).text;
}

for (const seconds of INTERVALS) {
  Deno.test(`a poll every ${seconds} s may be stored for less than three quarters of that, and gets the newest event of each variable`, async () => {
    await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
      clock: new FakeClock(T),
    });
    await gate.set({ REP_PUBLIC_A: "2" });
    await gate.set({ REP_PUBLIC_A: "2", REP_PUBLIC_B: "3" });
    await gate.set({ REP_PUBLIC_A: "4", REP_PUBLIC_B: "3" });
    const maxAge = Math.floor(seconds / 2);
    assertEquals(maxAge < 0.75 * seconds, true);
    const query = `?last_event_id=${id(0)}&poll=${seconds}`;
    assertEquals(await ask(gate, query), {
      status: 200,
      headers: {
        "cache-control":
          `public, max-age=${maxAge}, stale-if-error=60, no-transform`,
        "content-type": "text/event-stream",
      },
      text: poll(
        seconds,
        id(0),
        update("B", "3", id(2)),
        update("A", "4", id(3)),
      ),
    });
  });
}

Deno.test("the response is the same for every client, process, interval of the option, and header", async () => {
  const store = memoryStore();
  const clock = new FakeClock(T);
  const variables = { REP_PUBLIC_A: "1" };
  let random = 0;
  const options = { store, clock, random: () => random };
  await using one = await setUp(variables, options);
  await using other = await setUp(variables, { ...options, pollMs: 60_000 });
  const query = `?last_event_id=0&poll=30`;
  const expected = await ask(one, query);
  assertEquals(expected.text, poll(30, 0, update("A", "1", id(0))));
  random = 0.9;
  const headers = [
    { "last-event-id": String(id(0)) },
    { "last-event-id": "x" },
    { origin: "http://gateway.test" },
    { origin: "https://evil.example" },
    { "sec-fetch-site": "cross-site", "cache-control": "no-cache" },
    { "accept-encoding": "gzip, br", "user-agent": "another" },
  ];
  for (const each of headers) {
    assertEquals(await ask(one, query, each), expected);
    assertEquals(await ask(other, query, each), expected);
  }
});

Deno.test("a poll with any other query is answered for its client alone", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
    clock: new FakeClock(T),
    pollMs: 30_000,
  });
  const cursor = id(0);
  const queries = [
    `?last_event_id=0${cursor}&poll=30`,
    "?last_event_id=00&poll=30",
    "?last_event_id=007&poll=30",
    "?last_event_id=&poll=30",
    "?last_event_id=x&poll=30",
    "?last_event_id=+1&poll=30",
    "?last_event_id=-1&poll=30",
    "?last_event_id=1e3&poll=30",
    "?last_event_id=12345678901234567&poll=30",
    "?last_event_id=%31&poll=30",
    `?last_event_id=${cursor}&poll=`,
    `?last_event_id=${cursor}&poll`,
    `?last_event_id=${cursor}&poll=0`,
    `?last_event_id=${cursor}&poll=5`,
    `?last_event_id=${cursor}&poll=20`,
    `?last_event_id=${cursor}&poll=030`,
    `?last_event_id=${cursor}&poll=30s`,
    `?last_event_id=${cursor}&poll=3600000`,
    `?last_event_id=${cursor}&poll=%330`,
    `?poll=30&last_event_id=${cursor}`,
    `?last_event_id=${cursor}&poll=30&state=abc`,
    `?last_event_id=${cursor}&state=abc&poll=30`,
    `?last_event_id=${cursor}&poll=30&`,
    `?&last_event_id=${cursor}&poll=30`,
    `?last_event_id=${cursor}&poll=30&poll=30`,
    `?last_event_id=${cursor}&heartbeat=event&poll=30`,
    `?last_event_id=${cursor}&poll=30&format=ofrep`,
    "?poll=30",
  ];
  for (const query of queries) {
    const { status, headers } = await ask(gate, query);
    assertEquals([query, status, headers], [query, 200, {
      "cache-control": "no-cache, no-store, no-transform",
      "content-type": "text/event-stream",
      "vary": "Origin",
      "x-accel-buffering": "no",
    }]);
  }
});

Deno.test("a poll gets everything after its cursor, whatever a chunk holds", async () => {
  const variables: Record<string, string> = {};
  for (let index = 0; index < 20; index++) {
    variables[`REP_PUBLIC_V${index}`] = String(index).repeat(20_000);
  }
  await using gate = await setUp(variables, { clock: new FakeClock(T) });
  const text = await textOf(gate, "?last_event_id=0&poll=10");
  assertEquals([...text.matchAll(/"key":"V\d+"/g)].length, 20);
  const whole = await textOf(gate, "?last_event_id=5&poll=10"); // of no log
  assertEquals([...whole.matchAll(/"key":"V\d+"/g)].length, 20);
});

Deno.test("a deletion is sent, and an unknown cursor gets the whole state without an id before it, which no cache stores if it has yet to come", async () => {
  const clock = new FakeClock(T);
  await using gate = await setUp({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" }, {
    clock,
  });
  await gate.set({ REP_PUBLIC_B: "1" });
  const data = JSON.stringify({ key: "A", tier: "public" });
  const deletion = `event: rep:config:delete\ndata: ${data}\nid: ${id(2)}\n\n`;
  assertEquals(
    await textOf(gate, `?last_event_id=${id(1)}&poll=30`),
    poll(30, id(1), deletion),
  );
  const stored = "public, max-age=15, stale-if-error=60, no-transform";
  const alone = "no-cache, no-store, no-transform";
  const unknown = [
    [id(0) + 1, stored],
    [id(2) - 1, stored],
    [id(2) + 1, alone],
    [Number.MAX_SAFE_INTEGER, alone],
  ] as const;
  for (const [cursor, cacheControl] of unknown) {
    await clock.tick(1_000); // each reads new events
    const { headers, text } = await ask(
      gate,
      `?last_event_id=${cursor}&poll=30`,
    );
    assertEquals([cursor, headers["cache-control"], text], [
      cursor,
      cacheControl,
      poll(30, undefined, update("B", "1", id(1)), deletion),
    ]);
  }
});

Deno.test("no poll gets the value of a variable that has left the PUBLIC tier", async () => {
  for (const tier of ["SENSITIVE", "SERVER"]) {
    const clock = new FakeClock(T);
    await using gate = await setUp({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" }, {
      clock,
    });
    await gate.set({ REP_PUBLIC_A: "secret", REP_PUBLIC_B: "1" });
    await gate.set({ [`REP_${tier}_A`]: "secret", REP_PUBLIC_B: "1" });
    for (const cursor of [0, id(0), id(1), id(2), id(0) + 1]) {
      const text = await textOf(gate, `?last_event_id=${cursor}&poll=10`);
      assertEquals(text.includes("secret"), false);
      assertEquals(text.includes("rep:config:delete"), true);
    }
  }
});

Deno.test("a poll finds an event that only another process knows so far", async () => {
  const store = memoryStore();
  const clock = new FakeClock(T);
  const variables = { REP_PUBLIC_A: "0" };
  await using ahead = await setUp(variables, {
    store: remoteStore(store),
    clock,
  });
  await using behind = await setUp(variables, {
    store: remoteStore(store),
    clock,
  });
  await ahead.set({ REP_PUBLIC_A: "1" });
  assertEquals(
    await textOf(behind, `?last_event_id=${id(1)}&poll=30`),
    poll(30, id(1)),
  );
});

Deno.test("a poll that cannot be answered is 503, and never stored", async () => {
  const rejected = (reason: string) => ({
    status: 503,
    headers: {
      "cache-control": "no-store",
      "content-type": "application/problem+json",
    },
    text: JSON.stringify({
      title: "Service Unavailable",
      status: 503,
      detail: `Cannot answer this poll: ${reason}`,
    }),
  });
  const clock = new FakeClock(T);
  const inner = memoryStore();
  const variables = { REP_PUBLIC_A: "0" };

  // The log has to be read to know the cursor, but the store is unavailable. What is in memory is still sent.
  let isDown = false;
  const store = fallibleStore(inner, () => isDown);
  await using gate = await setUp(variables, { store, clock });
  isDown = true;
  assertEquals(
    await ask(gate, `?last_event_id=${id(1)}&poll=30`),
    rejected("the store is unavailable"),
  );
  assertEquals(
    await textOf(gate, "?last_event_id=0&poll=30"),
    poll(30, 0, update("A", "0", id(0))),
  );
  assertEquals(
    await gate.metric('rep_streams_rejected_total{reason="store_unavailable"}'),
    'rep_streams_rejected_total{reason="store_unavailable"} 1',
  );
  assertEquals(
    await gate.metric("rep_streams_polled_total"),
    "rep_streams_polled_total 1",
  );

  // The log was never read.
  await using early = await setUp(variables, {
    store,
    clock,
    startWithoutStore: true,
  });
  assertEquals(
    await ask(early, "?last_event_id=0&poll=30"),
    rejected("the store is unavailable"),
  );

  // The log is that of another app.
  isDown = false;
  await using apart = await setUp({ REP_PUBLIC_OTHER: "1" }, { store, clock });
  assertEquals(
    await ask(apart, "?last_event_id=0&poll=30"),
    rejected("the store may have the values of another app"),
  );

  await gate.gateway.close();
  assertEquals(
    await ask(gate, "?last_event_id=0&poll=30"),
    rejected("the gateway is stopping"),
  );
});

Deno.test("without hot reload, a poll is 404, and never stored", async () => {
  await using gate = await setUp({}, { hotReload: false, pollMs: 30_000 });
  const { status, headers } = await ask(gate, "?last_event_id=0&poll=30");
  assertEquals([status, headers["cache-control"]], [404, "no-store"]);
});

Deno.test("with allowed origins, a poll varies by origin", async () => {
  const allowedOrigins = ["https://app.example"];
  await using gate = await setUp({}, { allowedOrigins });
  const query = "?last_event_id=0&poll=30";
  const cors = async (origin: string) => {
    const { headers } = await ask(gate, query, { origin });
    return [headers["vary"], headers["access-control-allow-origin"]];
  };
  assertEquals(await cors("https://app.example"), [
    "Origin",
    "https://app.example",
  ]);
  assertEquals(await cors("https://evil.example"), ["Origin", undefined]);
  await gate.gateway.close();
  assertEquals((await ask(gate, query)).headers["vary"], "Origin");
});
