import { assertEquals, assertMatch } from "@std/assert";
import { memoryStore } from "../../../src/engines/memory.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { setUp, type TestGateway } from "../../_gateway.ts";

/** The start of the clock. */
const T = 1_700_000_000_000;

/** Returns the id of the event that was published so many events after the first one. */
function id(count: number) {
  return (T + count) * 1_000;
}

/** Returns the value of a metric. */
async function metric({ gateway }: TestGateway, name: string) {
  const request = new Request("http://health.test/metrics");
  const text = await (await gateway.fetchHealth(request)).text();
  const line = text.split("\n").find((line) => line.startsWith(`${name} `));
  return Number(line?.slice(name.length) ?? 0);
}

/** Asks for the changes from an address. */
async function askFrom(
  { gateway }: TestGateway,
  hostname: string,
  query: string,
): Promise<Response> {
  const remoteAddr = { transport: "tcp", hostname, port: 50_000 } as const;
  const request = new Request(`http://gateway.test/rep/changes${query}`);
  return await gateway.fetch(request, { remoteAddr });
}

const A_SECOND_VALUE = `event: rep:config:update
data: {"key":"A","tier":"public","value":"2"}
id: ${id(1)}

`;

for (const query of ["", "&heartbeat=", "&heartbeat=comment", "&polls"]) {
  Deno.test(`the stream with "${query}" is what it is without parameters`, async () => {
    const clock = new FakeClock(T);
    const random = () => 0;
    await using gate = await setUp({ REP_PUBLIC_A: "1" }, { clock, random });
    const stream = await gate.listen({}, `?last_event_id=${id(0)}${query}`);
    await stream.pull();
    const event = stream.next();
    await gate.set({ REP_PUBLIC_A: "2" });
    await event;
    const heartbeat = stream.pull();
    await clock.tick(12_000);
    await heartbeat;
    assertEquals(
      stream.text(),
      `retry: 2000\n: connected\nid: ${id(0)}\n\n` +
        A_SECOND_VALUE +
        `: heartbeat\nid: ${id(1)}\n\n`,
    );
    await stream.close();
  });
}

const HEARTBEAT = "event: rep:heartbeat\ndata: {}\n\n";

Deno.test("?heartbeat=event adds events without an id to the opening and the heartbeats, and keeps the cursors", async () => {
  const clock = new FakeClock(T);
  const random = () => 0;
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, { clock, random });
  const plain = await gate.listen();
  const plainEvent = plain.next();
  const stream = await gate.listen({}, "?heartbeat=event");
  await stream.pull();
  const event = stream.pull();
  await gate.set({ REP_PUBLIC_A: "2" });
  await event;
  const heartbeat = stream.pull();
  await clock.tick(12_000);
  await heartbeat;
  assertEquals(
    stream.text(),
    `retry: 2000\n: connected\nid: ${id(0)}\n\n${HEARTBEAT}` +
      A_SECOND_VALUE +
      `: heartbeat\nid: ${id(1)}\n\n${HEARTBEAT}`,
  );
  assertEquals((await plainEvent)?.data.value, "2");
  await stream.close();
  await plain.close();
});

/** What a poll gets, by its cursor, after A was set to 2, B to 3 and A to 4. */
const POLLS: [what: string, header: string, query: string, values: string[]][] =
  [
    ["a Last-Event-ID: every event", `${id(0)}`, "", ["2", "3", "4"]],
    ["a page's id: the newest events", "", `last_event_id=${id(0)}`, [
      "3",
      "4",
    ]],
    ["the newest id: nothing", `${id(3)}`, "", []],
    ["nothing: nothing", "", "", []],
    ["an unknown id: the whole state", "x", "", ["3", "4"]],
  ];

for (const [what, header, query, expected] of POLLS) {
  Deno.test(`a poll ends when it has sent a client with ${what}`, async () => {
    const clock = new FakeClock(T);
    await using gate = await setUp({ REP_PUBLIC_A: "1" }, { clock });
    await gate.set({ REP_PUBLIC_A: "2" });
    await gate.set({ REP_PUBLIC_A: "2", REP_PUBLIC_B: "3" });
    await gate.set({ REP_PUBLIC_A: "4", REP_PUBLIC_B: "3" });
    const headers = { "last-event-id": header };
    const stream = await gate.listen(headers, `?poll&${query}`);
    const values: unknown[] = [];
    for (let event; (event = await stream.next()) !== undefined;) {
      values.push(event.data.value);
    }
    assertEquals(values, expected);
    assertEquals(await metric(gate, "rep_streams_polled_total"), 1);
    assertEquals(await metric(gate, "rep_streams_opened_total"), 0);
  });
}

Deno.test("a poll is repeated after 5 to 10 s, and after 15 to 60 s while there is no room for a stream", async () => {
  let random = 0;
  const limits = { maxStreams: 2, maxStreamsPerClient: 1 };
  await using gate = await setUp({}, { random: () => random, ...limits });
  const retries = async (client: string) => {
    const found: number[] = [];
    for (random of [0, 0.999]) {
      const text = await (await askFrom(gate, client, "?poll")).text();
      found.push(Number(/^retry: (\d+)$/m.exec(text)?.[1]));
    }
    return found;
  };
  assertEquals(await retries("192.0.2.1"), [5_000, 9_995]);
  const streams = [await askFrom(gate, "192.0.2.1", "")];
  assertEquals(await retries("192.0.2.1"), [15_000, 59_955]);
  assertEquals(await retries("192.0.2.2"), [5_000, 9_995]);
  streams.push(await askFrom(gate, "192.0.2.2", ""));
  assertEquals(await retries("192.0.2.3"), [15_000, 59_955]);
  for (const { body } of streams) await body?.cancel();
});

for (
  const [reason, limits, comment] of [
    [
      "max_streams",
      { maxStreams: 1, maxStreamsPerClient: 2 },
      "too many open streams",
    ],
    [
      "max_streams_per_client",
      { maxStreamsPerClient: 1 },
      "too many open streams of this client",
    ],
  ] as const
) {
  Deno.test(`a stream beyond ${reason} gets what it has missed, and ends`, async () => {
    const clock = new FakeClock(T);
    const options = { clock, random: () => 0, ...limits };
    await using gate = await setUp({ REP_PUBLIC_A: "1" }, options);
    const stream = await gate.listen();
    await gate.set({ REP_PUBLIC_A: "2" });
    const headers = { "last-event-id": String(id(0)) };
    const beyond = await gate.ask("/rep/changes", { headers });
    assertEquals(
      await beyond.text(),
      `retry: 15000\n: ${comment}; reconnect later\nid: ${id(0)}\n\n` +
        A_SECOND_VALUE,
    );
    const rejected = `rep_streams_rejected_total{reason="${reason}"}`;
    assertEquals(await metric(gate, rejected), 1);
    assertEquals(await metric(gate, "rep_streams_polled_total"), 1);
    assertEquals(await metric(gate, "rep_streams_open"), 1);
    await stream.close();
    const next = await gate.listen();
    await next.pull();
    assertMatch(next.text(), /: connected/); // there is room again
    await next.close();
  });
}

Deno.test("a poll gets a chunk of what it has missed, and soon asks for the rest", async () => {
  const names = ["A", "B", "C"]; // three values, of which a chunk holds two
  const values = names.map((
    name,
  ) => [`REP_PUBLIC_${name}`, name.repeat(30_000)]);
  const random = () => 0;
  await using gate = await setUp(Object.fromEntries(values), { random });
  const found: unknown[] = [];
  let cursor = "0";
  for (let poll = 1; poll <= 3; poll++) {
    const query = `?poll&last_event_id=${cursor}`;
    const text = await (await askFrom(gate, "192.0.2.1", query)).text();
    const [, retryMs] = /^retry: (\d+)$/m.exec(text) ?? [];
    const keys = [...text.matchAll(/"key":"(\w)"/g)].map(([, key]) => key);
    found.push([retryMs, keys.join("")]);
    cursor = [...text.matchAll(/^id: (\d+)$/gm)].at(-1)?.[1] ?? "";
  }
  assertEquals(found, [["500", "AB"], ["5000", "C"], ["5000", ""]]);
  assertEquals(await metric(gate, "rep_streams_polled_total"), 3);
  assertEquals(await metric(gate, "rep_streams_open"), 0);
});

Deno.test("polls whose cursor is older than what is in memory read the store to the end", async () => {
  const clock = new FakeClock(T);
  const store = memoryStore();
  await using first = await setUp({ REP_PUBLIC_A: "0" }, { store, clock });
  for (let value = 1; value <= 700; value++) {
    await first.set({ REP_PUBLIC_A: String(value) });
  }
  await using gate = await setUp({ REP_PUBLIC_A: "700" }, { store, clock });
  const ids: string[] = [];
  for (let cursor = String(id(0)); cursor !== String(id(700));) {
    const headers = { "last-event-id": cursor };
    const poll = await gate.ask("/rep/changes?poll", { headers });
    const [opening, ...found] = (await poll.text()).matchAll(/^id: (\d+)$/gm);
    assertEquals(opening?.[1], cursor);
    ids.push(...found.map(([, found = ""]) => found));
    cursor = ids.at(-1) ?? "";
  }
  const expected = Array.from(
    { length: 700 },
    (_, count) => String(id(count + 1)),
  );
  assertEquals(ids, expected);
});

Deno.test("polls are told to come back when the gateway stops, as streams are", async () => {
  const gate = await setUp({}, { clock: new FakeClock(T), random: () => 0 });
  await gate.gateway.close();
  const response = await gate.ask("/rep/changes?poll&heartbeat=event");
  assertEquals(
    await response.text(),
    `retry: 5000\n: the gateway is stopping; reconnect later\n\n${HEARTBEAT}`,
  );
});
