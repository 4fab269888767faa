import { assertEquals } from "@std/assert";
import {
  type Log,
  type LogFields,
  silentLog,
} from "../../../src/core/observe/log.ts";
import {
  type Rejection,
  RejectionLog,
} from "../../../src/core/observe/rejection_log.ts";
import type { Clock } from "../../../src/core/values/clock.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";

const LIMITED = {
  event: "limited",
  reason: "rate_limited",
  fields: { used: 10 },
};
const MALFORMED = {
  event: "rejected",
  reason: "malformed",
  fields: { origin: "none" },
};

/** The log of a service that describes a key as `client_ip`. */
function createRejectionLog(options: { log: Log; clock: Clock }) {
  return new RejectionLog({
    ...options,
    summaryEvent: "rejections",
    summaryFields: (client_ip) => ({ client_ip }),
  });
}

function setUp() {
  const clock = new FakeClock();
  let lines: (LogFields & { msg: string })[] = [];
  const log = {
    ...silentLog,
    warn: (msg: string, fields: LogFields = {}) =>
      void lines.push({ msg, ...fields }),
  };
  const rejections = createRejectionLog({ log, clock });
  return {
    clock,
    rejections,
    report: (key: string, rejection: Omit<Rejection, "key"> = LIMITED) =>
      rejections.report({
        ...rejection,
        key,
        fields: { client_ip: key, ...rejection.fields },
      }),
    /** Returns the lines since the last call. */
    takeLines() {
      const taken = lines;
      lines = [];
      return taken;
    },
  };
}

const first = (client_ip: string) => ({ msg: "limited", client_ip, used: 10 });
const summary = (client_ip: string, counts: Record<string, number>) => ({
  msg: "rejections",
  client_ip,
  ...counts,
});

Deno.test("RejectionLog.report() logs the first rejection with each key at once", () => {
  const { report, takeLines } = setUp();
  report("192.0.2.1");
  report("192.0.2.2", MALFORMED);
  assertEquals(takeLines(), [
    first("192.0.2.1"),
    { msg: "rejected", client_ip: "192.0.2.2", origin: "none" },
  ]);
});

Deno.test("RejectionLog.report() logs the first rejection for each reason at once, whatever was counted before", () => {
  const { report, takeLines } = setUp();
  for (let count = 0; count < 3; count++) report("192.0.2.1");
  takeLines();
  for (let count = 0; count < 3; count++) report("192.0.2.1", MALFORMED);
  assertEquals(takeLines(), [{
    msg: "rejected",
    client_ip: "192.0.2.1",
    origin: "none",
  }]);
});

Deno.test("RejectionLog.report() counts the rejections after that, by reason, in one line a minute for each key", async () => {
  const { report, takeLines, clock } = setUp();
  for (const client of ["192.0.2.1", "192.0.2.2", "192.0.2.3"]) report(client);
  report("192.0.2.1", MALFORMED);
  takeLines();
  for (let count = 0; count < 20_000; count++) report("192.0.2.1");
  report("192.0.2.1", MALFORMED);
  report("192.0.2.2");
  await clock.tick(59_999);
  assertEquals(takeLines(), []);
  await clock.tick(1);
  assertEquals(takeLines(), [
    summary("192.0.2.1", { rate_limited: 20_000, malformed: 1 }),
    summary("192.0.2.2", { rate_limited: 1 }),
  ]);
});

Deno.test("RejectionLog.report() logs at once again after a minute without rejections, and keeps no timer meanwhile", async () => {
  const { report, takeLines, clock } = setUp();
  report("192.0.2.1");
  report("192.0.2.1");
  await clock.tick(60_000);
  assertEquals(clock.waiting, 1);
  await clock.tick(60_000);
  assertEquals(clock.waiting, 0);
  takeLines();
  report("192.0.2.1");
  assertEquals(takeLines(), [first("192.0.2.1")]);
});

Deno.test("RejectionLog.report() counts at most 1,000 keys separately and all others together", async () => {
  const { report, takeLines, clock } = setUp();
  for (let client = 0; client < 50_000; client++) {
    report(`10.0.${client >> 8}.${client & 255}`);
  }
  assertEquals(takeLines().length, 1_001);
  report("10.0.0.0");
  await clock.tick(60_000);
  assertEquals(takeLines(), [
    summary("10.0.0.0", { rate_limited: 1 }),
    summary("others", { rate_limited: 48_999 }),
  ]);
  await clock.tick(60_000);
  report("203.0.113.1");
  assertEquals(takeLines(), [first("203.0.113.1")]);
});

Deno.test("RejectionLog.close() logs what was only counted so far, and leaves no timer", () => {
  const { report, takeLines, clock, rejections } = setUp();
  report("192.0.2.1");
  report("192.0.2.1");
  report("192.0.2.2");
  takeLines();
  rejections.close();
  assertEquals([takeLines(), clock.waiting], [[
    summary("192.0.2.1", { rate_limited: 1 }),
  ], 0]);
  report("192.0.2.1");
  assertEquals([takeLines(), clock.waiting], [[first("192.0.2.1")], 0]);
});

Deno.test("RejectionLog.report() does not keep the process alive", () => {
  const isBackground: unknown[] = [];
  const clock: Clock = {
    now: () => 0,
    monotonic: () => 0,
    after(_ms, _callback, background) {
      isBackground.push(background);
      return () => {};
    },
  };
  createRejectionLog({ log: silentLog, clock }).report({
    ...LIMITED,
    key: "192.0.2.1",
  });
  assertEquals(isBackground, [true]);
});
