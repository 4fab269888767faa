import { DatabaseSync } from "node:sqlite";
import { assertEquals, assertLess, assertMatch } from "@std/assert";
import { silentLog } from "../src/core/observe/log.ts";
import { openStore } from "../src/engines/open.ts";
import { FakeClock } from "../tools/fake_clock.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { readStatus } from "./_status.ts";
import { TempDirectory } from "./_temp.ts";

// What a gateway says and does while its SQLite file is locked by another program, or was deleted.

const VARIABLES = { REP_PUBLIC_A: "1", REP_SENSITIVE_S: "s" };

/** A gateway whose store is in a file. */
async function openGateway() {
  const directory = await TempDirectory.make();
  const path = directory.at("kv.sqlite3");
  const clock = new FakeClock();
  const random = () => 0.5;
  const store = await openStore(path, silentLog, { clock, random });
  const gate = await setUp(VARIABLES, { store, clock, random });
  return {
    path,
    clock,
    gate,
    /** Waits until the health report has a status, and returns after how many milliseconds it has. */
    async becomes(status: string) {
      const startedAt = clock.now();
      while ((await readStatus(gate)).status !== status) {
        await clock.tick(100);
        assertLess(clock.now() - startedAt, 20_000);
      }
      return clock.now() - startedAt;
    },
    async [Symbol.asyncDispose]() {
      await clock.tickUntil(gate.gateway.close(), 100);
      store.close();
      await directory[Symbol.asyncDispose]();
    },
  };
}

/** What every place says about the store. */
async function reports(gate: TestGateway) {
  const { problems, store } = await readStatus(gate);
  const request = new Request("http://127.0.0.1/metrics");
  const metrics = await (await gate.gateway.fetchHealth(request)).text();
  const down = gate.lines.find(({ msg }) => msg === "rep.store.down");
  return {
    problems,
    up: /^rep_store_up (\d)$/m.exec(metrics)?.[1],
    failure: store.failure,
    log: String(down?.["detail"]),
  };
}

async function assertReports(gate: TestGateway, cause: RegExp) {
  const { problems, up, failure, log } = await reports(gate);
  assertEquals([problems, up], [["store_unavailable"], "0"]);
  assertMatch(String(failure), cause);
  assertMatch(log, cause);
}

Deno.test("a gateway is degraded within seconds of a lock of another program, and issues keys without waiting", async () => {
  await using test = await openGateway();
  const { path, clock, gate } = test;
  using program = new DatabaseSync(path);
  program.exec("BEGIN EXCLUSIVE");
  await clock.tickUntil(gate.ask("/rep/session-key"), 100);
  assertLess(await test.becomes("degraded"), 5_000);
  await assertReports(gate, /another process keeps the database locked/);
  const before = clock.now();
  const { status } = await gate.ask("/rep/session-key"); // the clock stands still
  assertEquals([status, clock.now()], [200, before]);

  program.exec("ROLLBACK");
  assertLess(await test.becomes("healthy"), 3_000);
});

Deno.test("a gateway without traffic notices a lock with its next heartbeat", async () => {
  await using test = await openGateway();
  using program = new DatabaseSync(test.path);
  program.exec("BEGIN EXCLUSIVE");
  assertLess(await test.becomes("degraded"), 8_000);
  program.exec("ROLLBACK");
});

Deno.test("a gateway is degraded within seconds after its file was deleted, and issues keys", async () => {
  await using test = await openGateway();
  await Deno.remove(test.path);
  assertLess(await test.becomes("degraded"), 5_000);
  await assertReports(test.gate, /kv.sqlite3" was deleted or replaced/);
  assertEquals((await test.gate.ask("/rep/session-key")).status, 200);
});
