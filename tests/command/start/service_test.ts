import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import {
  readStart,
  type Start,
} from "../../../src/command/options/read_start.ts";
import { Service } from "../../../src/command/start/service.ts";
import type { Member } from "../../../src/core/rollout/observation.ts";
import { kvStore } from "../../../src/engines/kv.ts";
import { systemClock } from "../../../src/core/values/clock.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { captureLog } from "../../_gateway.ts";
import { TempDirectory } from "../../_temp.ts";

/** Reads a command that serves on a loopback address. */
async function readServedStart(...args: string[]) {
  return await readStart(
    ["--hostname=127.0.0.1", "--port=0", ...args],
    {},
  ) as Start;
}

function serviceOf(command: Start) {
  return new Service(command, {
    log: captureLog().log,
    telemetry: undefined,
    clock: systemClock,
    droppedLines: () => 0,
  });
}

Deno.test("Service reports while it starts for how long it has been starting", async () => {
  const clock = new FakeClock();
  const { log, lines } = captureLog();
  const service = new Service(await readServedStart("--access-log"), {
    log,
    telemetry: undefined,
    clock,
    droppedLines: () => 0,
  });
  clock.pass(5_000);
  const response = await service.fetch(
    new Request("http://gateway.test/rep/health"),
  );
  const { status, uptime_seconds } = await response.json();
  assertEquals([response.status, status, uptime_seconds], [503, "starting", 5]);
  assertEquals(lines, []); // probes are not logged, even if requests are
});

/** Options, and the link of a start with them. */
const LINKS: readonly [string[], RegExp | undefined][] = [
  [[], /^http:\/\/127\.0\.0\.1:\d+\/$/],
  [["--base-path=/app"], /^http:\/\/127\.0\.0\.1:\d+\/app\/$/],
  [["--allowed-hosts=127.0.0.1"], /^http:\/\/127\.0\.0\.1:\d+\/$/],
  [["--allowed-hosts=app.example.com,*.example.com"], undefined],
];

Deno.test("Service has a link, unless following it gets 421", async () => {
  for (const [args, expected] of LINKS) {
    const command = await readServedStart("--kv=:memory:", ...args);
    const service = serviceOf(command);
    assertEquals(service.link, undefined);
    await service.bind();
    const { link } = service;
    await service.start();
    await service.stop();
    if (expected === undefined) assertEquals(link, undefined);
    else assertMatch(link ?? "", expected);
  }
});

Deno.test("Service names the version of the program in health, also while it starts, and in its metrics", async () => {
  const command = await readServedStart("--kv=:memory:", "--health-port=1");
  const service = serviceOf({ ...command, version: "1.2.3+12345678" });
  const versionOf = async () => {
    const request = new Request("http://gateway.test/rep/health");
    return (await (await service.fetchHealth(request)).json()).version;
  };
  const starting = await versionOf();
  await service.start(); // without ports, as under deno serve
  const ready = await versionOf();
  const request = new Request("http://gateway.test/metrics");
  const metrics = await (await service.fetchHealth(request)).text();
  await service.stop();
  assertEquals([starting, ready], ["1.2.3+12345678", "1.2.3+12345678"]);
  const [, label] = /^rep_build_info{version="([^"]*)"/m.exec(metrics) ?? [];
  assertEquals(label, "1.2.3+12345678");
});

Deno.test("Service exports how many lines of the log were dropped", async () => {
  const service = new Service(await readServedStart("--kv=:memory:"), {
    log: captureLog().log,
    telemetry: undefined,
    clock: systemClock,
    droppedLines: () => 3,
  });
  await service.start();
  const request = new Request("http://gateway.test/metrics");
  const metrics = await (await service.fetchHealth(request)).text();
  await service.stop();
  assertMatch(metrics, /^rep_log_dropped_total 3$/m);
});

Deno.test("Service has no instance ID if the system chooses its port: another process may get it next", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("kv.sqlite3");
  const command = await readServedStart("--hot-reload", "--kv", path);
  const service = serviceOf(command);
  await service.bind();
  await service.start();
  const store = kvStore(await Deno.openKv(path));
  const members = await store.list<Member>(["member"]);
  store.close();
  await service.stop();
  assertEquals(members.map(({ value }) => value.instanceId), [undefined]);
});

Deno.test("Service answers 503 to the requests that waited if it cannot start", async () => {
  const command = await readServedStart("--kv=/nowhere/kv.sqlite3");
  const service = serviceOf(command);
  const waiting = service.fetch(new Request("http://gateway.test/"));
  await assertRejects(
    () => service.start(),
    TypeError,
    'Cannot open the store "/nowhere/kv.sqlite3"',
  );
  const { status, detail } = await (await waiting).json();
  assertEquals([status, detail], [503, "The gateway could not start"]);
});
