import { assertEquals, assertRejects } from "@std/assert";
import { hasLoopbackOnly } from "../../bench/_go_gateway.ts";
import { HTTP_WORK } from "../../bench/http.ts";
import { parseWrk } from "../../bench/_load.ts";
import { runBenchmarks } from "../../bench/main.ts";
import { formatReport, type Report } from "../../bench/_report.ts";
import { startPassThrough } from "../../bench/_servers.ts";
import { soak } from "../../bench/soak.ts";

async function reportsOf(args: string[]): Promise<Report[]> {
  const reports: Report[] = [];
  await runBenchmarks(args, (report) => void reports.push(report));
  return reports;
}

async function reportOf(args: string[]): Promise<Report> {
  const reports = await reportsOf(args);
  assertEquals(reports.length, 1);
  return reports[0] as Report;
}

/** Asserts that every figure is a number between the least and the most. */
function assertValid({ figures }: Report): void {
  const broken = figures.filter(({ least, median, most }) =>
    !(0 <= least && least <= median && median <= most)
  );
  assertEquals(broken, []);
}

function medianOf(
  { figures }: Report,
  name: string,
  unit: string,
): number | undefined {
  return figures.find((it) => it.name === name && it.unit === unit)?.median;
}

Deno.test("soak loses no event and keeps every idle stream", async () => {
  const reports = await soak({
    streams: 10,
    minutes: 0.02,
    reconnects: 10,
    connects: 50,
    updates: 100,
  });
  const lost = reports.map((report) =>
    medianOf(report, "streams that ended", "")
  ).concat(
    reports.map((report) =>
      medianOf(report, "events lost by the other client", "")
    ),
    reports.map((report) =>
      medianOf(report, "events lost by the stalled client", "")
    ),
  );
  assertEquals(lost.filter((count) => count !== undefined), [0, 0, 0]);
});

Deno.test("simulation returns the same figures for the same seed", async () => {
  const small = [
    "simulation",
    "--clients",
    "5000",
    "--processes",
    "20",
    "--rounds",
    "2",
    "--seed",
    "7",
  ];
  const report = await reportOf(small);
  assertValid(report);
  assertEquals(
    report.title,
    "simulation: 5000 clients, 20 processes, seeds 7 to 8",
  );
  assertEquals(formatReport(report), formatReport(await reportOf(small)));
});

Deno.test("simulation has one of many processes publish a change that all of them see", async () => {
  const report = await reportOf([
    "simulation",
    "--clients",
    "100",
    "--processes",
    "50",
    "--rounds",
    "1",
  ]);
  const commits = medianOf(report, "all publish it at once: commits", "");
  const conflicts = medianOf(report, "all publish it at once: conflicts", "");
  assertEquals(Number(commits) - Number(conflicts), 1);
});

Deno.test("simulation counts more clients of a storm in the store with larger batches", async () => {
  const world = [
    "--clients",
    "150000",
    "--processes",
    "150",
    "--rounds",
    "1",
    "--commitUs",
    "800",
    "--writeUs",
    "25",
  ];
  const counted = async (...args: readonly string[]) => {
    const report = await reportOf(["simulation", ...world, ...args]);
    return medianOf(
      report,
      "all clients reconnect: keys counted by the store before they are issued",
      "%",
    ) ?? NaN;
  };
  const [single, batches] = [await counted("--batch", "1"), await counted()];
  assertEquals([single > 1, single < batches, batches < 100], [
    true,
    true,
    true,
  ]);
});

Deno.test("simulation reports sweeps as the first limit if every process sweeps, but not if one does", async () => {
  const firstLimit = async (sweepers: string) => {
    const { figures } = await reportOf([
      "simulation",
      "--rounds",
      "1",
      "--keyShare",
      "0",
      "--sweepers",
      sweepers,
    ]);
    return figures.find(({ name }) => name.startsWith("1. "))?.name;
  };
  assertEquals([await firstLimit("0"), await firstLimit("1")], [
    "1. store, sweeps: used",
    "1. store, keys: used",
  ]);
});

Deno.test("start measures the first response and the memory then", async () => {
  const reports = await reportsOf(["start", "--rounds", "1"]);
  assertEquals(reports.map(({ title }) => title), [
    "start: start to first response",
    "idle_memory: idle memory",
  ]);
  reports.forEach(assertValid);
  assertEquals(
    reports.flatMap(({ figures }) => figures).filter(({ least }) =>
      least === 0
    ),
    [],
  );
});

Deno.test("store_load counts the calls in docs/development/scale.md", async () => {
  const { figures } = await reportOf(["store_load"]);
  const counted = new Set(figures.map(({ name }) => name));
  assertEquals([...counted], [
    "one idle minute",
    "a change, the process that publishes it",
    "a change, each other process",
    "a reload that finds what is published already",
    "a reload that finds nothing new",
    "a stream that is opened",
    "a session key",
  ]);
  const stream = figures.filter(({ name }) => name.includes("stream"));
  assertEquals(stream.map(({ unit, median }) => [unit, median]), [[
    "calls",
    0,
  ]]);
});

Deno.test("the floor of the proxied rows outlives clients that leave", async () => {
  await using upstream = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => new Response(new Uint8Array(5_000_000)),
  );
  await using floor = await startPassThrough(
    `http://127.0.0.1:${upstream.addr.port}`,
  );
  for (let client = 0; client < 10; client++) {
    using connection = await Deno.connect({
      hostname: "127.0.0.1",
      port: floor.port,
    });
    await connection.write(
      new TextEncoder().encode("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    );
    await connection.read(new Uint8Array(1_000));
  }
  const response = await fetch(floor.url);
  assertEquals((await response.bytes()).length, 5_000_000);
});

Deno.test("streams measures deliveries, openings and memory beside a bare server", async () => {
  const reports = await reportsOf([
    "streams",
    "--streams",
    "200",
    "--events",
    "2",
    "--rounds",
    "2",
  ]);
  assertEquals(reports.map(({ title }) => title), [
    "last_delivery: 1 event to 200 streams, last delivery",
    "delivery: CPU to deliver an event to a stream",
    "stream_open: CPU to open a stream",
    "stream_memory: memory per idle stream",
  ]);
  const [delivery, , , memory] = reports as [Report, Report, Report, Report];
  assertValid(delivery);
  assertValid(memory);
  assertEquals(delivery.figures.map(({ name }) => name), [
    "gateway",
    "floor",
    "gateway / floor",
  ]);
});

/** Less than a second, which `wrk` cannot do. */
const TINY_LOAD = [
  "--connections",
  "3",
  "--seconds",
  "0.05",
  "--rounds",
  "2",
];

for (const { name } of HTTP_WORK) {
  Deno.test(`${name} compares a gateway with its floor`, async () => {
    const [report] = await reportsOf([name, ...TINY_LOAD]);
    const rates = (report?.figures ?? []).filter(({ name }) =>
      !name.startsWith("CPU, ") // so few requests take no measurable time
    );
    assertValid({ title: name, figures: rates });
    assertEquals(rates.map(({ name }) => name), [
      "gateway",
      "floor",
      "gateway / floor",
    ]);
    assertEquals(rates.filter(({ least }) => least === 0), []);
  });
}

Deno.test("distinct_keys says how many keys the store has counted", async () => {
  const [, stored] = await reportsOf(["distinct_keys", ...TINY_LOAD]);
  assertEquals(stored?.title.split(":")[0], "stored_keys");
  assertEquals(stored?.figures.map(({ name, median }) => [name, median > 90]), [
    ["gateway", true],
  ]);
});

Deno.test("hasLoopbackOnly() finds any other interface", () => {
  const headings = "Inter-|   Receive\n face |bytes    packets\n";
  assertEquals(hasLoopbackOnly(`${headings}    lo: 1 2\n`), true);
  assertEquals(hasLoopbackOnly(`${headings}    lo: 1 2\n  eth0: 1 2\n`), false);
  assertEquals(hasLoopbackOnly(headings), false);
});

Deno.test("parseWrk() reads the rate and the failed requests, and rejects socket errors", () => {
  const output = (more: string) =>
    `Running 1s test @ http://127.0.0.1:8080/
  2 threads and 50 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.62ms    1.05ms  23.89ms   88.73%
    Req/Sec    15.65k     2.37k   20.14k    70.00%
  31179 requests in 1.00s, 9.51MB read
${more}Requests/sec:  31141.57
Transfer/sec:      9.50MB
`;
  assertEquals(parseWrk(output("")), {
    perSecond: 31_141.57,
    requests: 31_179,
    failed: 0,
  });
  assertEquals(
    parseWrk(output("  Non-2xx or 3xx responses: 31169\n"))?.failed,
    31_169,
  );
  assertEquals(
    parseWrk(output("  Socket errors: connect 0, read 0, write 0, timeout 3\n"))
      ?.requests,
    31_179,
  );
  assertEquals(
    parseWrk(
      output("  Socket errors: connect 0, read 5, write 0, timeout 0\n"),
    ),
    undefined,
  );
  assertEquals(
    parseWrk("unable to connect to 127.0.0.1:1 Connection refused\n"),
    undefined,
  );
});

Deno.test("runBenchmarks() rejects an unknown benchmark and an unknown or malformed size", async () => {
  await assertRejects(
    () => runBenchmarks(["fan_out"]),
    RangeError,
    'Cannot run "fan_out": expected one of health, static_page',
  );
  await assertRejects(
    () => runBenchmarks(["engines", "--change", "2"]),
    RangeError,
    "Cannot use --change: expected --keys",
  );
  await assertRejects(
    () => runBenchmarks(["engines", "--changes", "two"]),
    RangeError,
    'Cannot read --changes: expected a number, got "two"',
  );
});
