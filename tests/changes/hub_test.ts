import { assertEquals } from "@std/assert";
import { heartbeatFrame, openingFrame } from "../../src/changes/hub.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { setUp } from "../_gateway.ts";
import { readSse } from "../_sse.ts";

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

Deno.test("openingFrame() and heartbeatFrame() dispatch no event", async () => {
  const text = openingFrame({ retryMs: 2000, comment: "connected", id: 3 }) +
    heartbeatFrame(4);
  assertEquals(
    text,
    "retry: 2000\n: connected\nid: 3\n\n: heartbeat\nid: 4\n\n",
  );
  assertEquals(await readSse(new Response(text)).next(), undefined);
});

Deno.test("openingFrame() omits the id if there is none", () => {
  assertEquals(
    openingFrame({ retryMs: 2000, comment: "busy", id: undefined }),
    "retry: 2000\n: busy\n\n",
  );
});
