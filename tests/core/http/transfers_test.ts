import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { BrokenBodyError } from "../../../src/core/http/broken_body.ts";
import {
  InFlight,
  type Transfer,
  transferBody,
  Transfers,
} from "../../../src/core/http/transfers.ts";
import { Problem } from "../../../src/core/http/problem.ts";
import { type LogFields, silentLog } from "../../../src/core/observe/log.ts";
import { FakeClock, settle } from "../../../tools/fake_clock.ts";

const [ALICE, BOB] = ["192.0.2.1", "192.0.2.2"].map((address) => ({
  address,
  clientKey: address,
}));

function transfersOf(maxTransfers: number) {
  const clock = new FakeClock();
  const lines: (LogFields | undefined)[] = [];
  const log = {
    ...silentLog,
    warn: (_: string, fields?: LogFields) => void lines.push(fields),
  };
  return {
    clock,
    lines,
    transfers: new Transfers({ clock, log, maxTransfers }),
  };
}

function statusOf(begin: () => Transfer) {
  const { status, headers } = assertThrows(begin, Problem);
  assertEquals(headers.get("retry-after"), "1");
  return status;
}

Deno.test("begin() leaves half of the transfers to other clients, and rejects those beyond the limit", () => {
  const { transfers, lines } = transfersOf(4);
  const first = transfers.begin(ALICE!);
  transfers.begin(ALICE!);
  assertEquals(statusOf(() => transfers.begin(ALICE!)), 429);
  transfers.begin(BOB!);
  const carol = { address: "192.0.2.3", clientKey: "192.0.2.3" };
  transfers.begin(carol);
  assertEquals(statusOf(() => transfers.begin(carol)), 503);
  first.end();
  first.end();
  transfers.begin(ALICE!);
  assertEquals(statusOf(() => transfers.begin(carol)), 503);
  const expected = {
    limit: "max_transfers_per_client",
    client_ip: "192.0.2.1",
    rejected: 1,
  };
  assertEquals(lines, [expected, { limit: "max_transfers", rejected: 1 }]);
});

Deno.test("a transfer ends if its client does not read for a minute, also if its body has failed meanwhile", async () => {
  const { transfers, clock } = transfersOf(10);
  const body = Promise.withResolvers<void>();
  const source = new ReadableStream<Uint8Array>({
    async start(controller) {
      controller.enqueue(new Uint8Array(1));
      await body.promise;
      controller.error(new Error("broken"));
    },
  });
  const sent = transferBody(source.getReader(), transfers.begin(ALICE!));
  const reader = sent.getReader();
  await reader.read();
  body.resolve();
  await settle();
  await clock.tick(60_000); // an unhandled rejection would end the process
  await settle();
  await assertRejects(() => reader.read(), BrokenBodyError);
  assertEquals(transfers.requests, 0);
});

Deno.test("a transfer is cancelled if its client does not read for a minute, and only then", async () => {
  const { transfers, clock } = transfersOf(10);
  const cancelled: string[] = [];
  const [stalled, slow] = [transfers.begin(ALICE!), transfers.begin(BOB!)];
  stalled.waits(() => cancelled.push("stalled"));
  slow.waits(() => cancelled.push("slow"));
  await clock.tick(40_000);
  slow.waits(() => cancelled.push("slow")); // what was waited for before does not count
  await clock.tick(10_000);
  slow.reads();
  slow.waits(() => cancelled.push("slow"));
  await clock.tick(10_000);
  assertEquals(cancelled, ["stalled"]);
  stalled.end();
  slow.end();
  slow.waits(() => cancelled.push("slow"));
  await clock.tick(60_000);
  assertEquals([cancelled, clock.waiting], [["stalled"], 0]);
});

/** Returns whether a promise is resolved, without waiting for it. */
async function isResolved(promise: Promise<void>) {
  return await Promise.race([
    promise.then(() => true),
    Promise.resolve().then(() => false),
  ]);
}

Deno.test("idle() resolves at once if nothing is in flight, otherwise when the last is removed", async () => {
  const inFlight = new InFlight();
  await inFlight.idle();
  const [removeFirst, removeSecond] = [inFlight.add(), inFlight.add()];
  const idle = [inFlight.idle(), inFlight.idle()];
  removeFirst();
  removeFirst(); // the second call has no effect
  assertEquals(await Promise.all(idle.map(isResolved)), [false, false]);
  removeSecond();
  await Promise.all(idle);
  inFlight.add();
  assertEquals(await isResolved(inFlight.idle()), false);
});

Deno.test("BrokenBodyError is printed in one line", () => {
  assertEquals(
    Deno.inspect(new BrokenBodyError("aborted")),
    "[BrokenBodyError: aborted]",
  );
});
