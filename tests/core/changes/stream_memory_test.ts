import { assertEquals } from "@std/assert";
import { EventLog } from "../../../src/core/changes/event_log.ts";
import { Hub, type StreamRequest } from "../../../src/core/changes/hub.ts";
import { Tail } from "../../../src/core/changes/tail.ts";
import { silentLog } from "../../../src/core/observe/log.ts";
import { noMetrics } from "../../../src/core/observe/metrics.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { collectGarbage } from "../../_garbage.ts";

const clock = new FakeClock();
const random = () => 0;

async function createHub(): Promise<Hub> {
  const log = new EventLog(memoryStore(), { clock, random, keep: 10 });
  const tail = new Tail(log, clock);
  await tail.readNew();
  return new Hub(tail, {
    clock,
    random,
    log: silentLog,
    metrics: noMetrics,
    maxStreams: 1,
    maxStreamsPerClient: 1,
    maxStreamAgeMs: 60_000,
  });
}

/** Opens a stream, and returns what remains of its request. */
function open(hub: Hub): { stream: unknown; request: WeakRef<StreamRequest> } {
  const request: StreamRequest = {
    client: { address: "192.0.2.1", clientKey: "192.0.2.1" },
    position: { kind: "every_event", cursor: 0 },
    form: "plain",
  };
  return { stream: hub.open(request), request: new WeakRef(request) };
}

Deno.test("an open stream does not keep its request in memory", async () => {
  const hub = await createHub();
  const { stream, request } = open(hub);
  await collectGarbage();
  assertEquals(stream instanceof ReadableStream, true);
  assertEquals(request.deref(), undefined);
  await hub.close(0);
});
