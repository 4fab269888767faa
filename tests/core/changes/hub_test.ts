import { assertEquals, assertMatch } from "@std/assert";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { setUp, type TestGateway } from "../../_gateway.ts";
import { interceptedStore, remoteStore } from "../../_store.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { connectRaw } from "../../content/proxy/_servers.ts";
import { serveLocally } from "../../_serve.ts";

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
    assertEquals(await stream.takeValues(1), [
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

/** Returns a metric without labels. */
async function metric(gate: TestGateway, name: string) {
  return Number((await gate.metric(name))?.split(" ")[1]);
}

/** Opens a stream of which a test reads one chunk at a time. */
async function openUnread(
  gate: TestGateway,
) {
  const { body } = await gate.ask("/rep/changes");
  const reader = body!.getReader();
  await reader.read();
  return reader;
}

Deno.test("Hub ends a stream whose client does not read for a minute, and only that", async () => {
  const clock = new FakeClock();
  await using gate = await setUp({ REP_PUBLIC_A: "0" }, { clock });
  const stalled = await openUnread(gate);
  const slow = await openUnread(gate);
  const idle = await gate.listen();
  await idle.pull();
  const taken = idle.take(4); // waits for the fourth event
  for (let i = 1; i <= 3; i++) {
    await gate.set({ REP_PUBLIC_A: "x".repeat(50_000) + i }); // each is a chunk
  }
  await clock.tick(55_000);
  assertEquals((await slow.read()).done, false);
  await clock.tick(55_000);
  assertEquals((await slow.read()).done, false);
  assertEquals((await stalled.read()).done, true);
  assertEquals(await metric(gate, "rep_streams_stalled_total"), 1);
  await gate.set({ REP_PUBLIC_A: "4" });
  assertEquals((await taken).at(-1)?.data.value, "4");
  await slow.cancel();
  await idle.close();
});

Deno.test("a stream whose client does not read counts until it reads on or leaves", async () => {
  for (const end of ["read", "cancel"] as const) {
    const clock = new FakeClock();
    const limits = { maxStreamsPerClient: 1, maxStreamAgeMs: 120_000 };
    await using gate = await setUp({}, { clock, ...limits });
    const stalled = await openUnread(gate);
    await clock.tick(300_000);
    const rejected = await (await gate.ask("/rep/changes")).text();
    assertMatch(rejected, /too many open streams of this client/);
    await stalled[end]();
    await (await openUnread(gate)).cancel();
    assertEquals(await metric(gate, "rep_streams_opened_total"), 2);
    assertEquals(await metric(gate, "rep_streams_stalled_total"), 1);
  }
});

Deno.test("a connection that does not read gets no more events after a minute", async () => {
  const clock = new FakeClock();
  const values = Array.from(
    { length: 240 },
    (_, index) => [`REP_PUBLIC_${index}`, "x".repeat(60_000)],
  );
  await using gate = await setUp(Object.fromEntries(values), { clock });
  await using server = serveLocally((request, info) =>
    gate.gateway.fetch(request, info)
  );
  using client = await connectRaw(server.port);
  const all = "Last-Event-ID: unknown";
  await client.write(
    `GET /rep/changes HTTP/1.1\r\nHost: localhost\r\n${all}\r\n\r\n`,
  );
  while (await metric(gate, "rep_streams_stalled_total") === 0) {
    await clock.tick(10_000);
  }
  assertEquals(await metric(gate, "rep_streams_open"), 1); // the server holds it
  let end = "";
  while (!end.endsWith("\r\n0\r\n\r\n")) {
    end = (end + await client.read()).slice(-1_000);
  }
  assertEquals(await metric(gate, "rep_streams_open"), 0);
  const sent = await metric(gate, "rep_events_replayed_total");
  assertEquals(sent > 0 && sent < 240, true, `${sent} events`);
});

Deno.test("polls of one client for old events cause at most 50 reads of the store at once", async () => {
  const clock = new FakeClock(1_700_000_000_000);
  const held: (() => void)[] = [];
  let isHeld = false;
  let open = 0;
  let most = 0;
  const inner = interceptedStore(
    remoteStore(memoryStore()),
    async (operation) => {
      if (!isHeld || operation !== "list") return;
      most = Math.max(most, ++open);
      await new Promise<void>((resolve) => held.push(resolve));
      open--;
    },
  );
  const store = { ...inner, close() {} };
  const first = await setUp({ REP_PUBLIC_A: "0" }, { store, clock });
  for (let value = 1; value < 600; value++) {
    await first.set({ REP_PUBLIC_A: `${value}` });
  }
  await first.gateway.close();
  // After a start, only the newest 500 events are in memory.
  await using gate = await setUp({ REP_PUBLIC_A: "599" }, { store, clock });
  const all = await (await gate.ask("/rep/changes?poll")).text();
  const head = Number(/id: (\d+)/.exec(all)?.[1]);
  isHeld = true;
  const polls = Array.from({ length: 200 }, async (_, index) => {
    const headers = { "last-event-id": `${head - (550 + index) * 1_000}` };
    return await (await gate.ask("/rep/changes?poll", { headers })).text();
  });
  await clock.tick(0);
  isHeld = false;
  for (const release of held) release();
  const texts = await Promise.all(polls);
  const rejected = texts.filter((it) => it.includes("too many requests"));
  assertEquals([most, rejected.length], [50, 150]);
});
