import { assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { fit } from "../../bench/_fit.ts";
import { hasLoopbackOnly } from "../../bench/_go_gateway.ts";
import { startFinished, startPassThrough } from "../../bench/_http_subjects.ts";
import { HTTP_WORK } from "../../bench/_http_work.ts";
import { runBenchmarks } from "../../bench/main.ts";
import { findPeers } from "../../bench/_peers.ts";
import { formatReport, type Report } from "../../bench/_report.ts";
import { createSite } from "../../bench/_site.ts";
import { soak } from "../../bench/soak.ts";
import { storedKeysRow } from "../../bench/_stored_keys.ts";
import { parseWrk } from "../../bench/_wrk.ts";

/** Runs a benchmark. @throws {Error} If a part of it was skipped. */
async function reportsOf(args: string[]): Promise<Report[]> {
  const reports: Report[] = [];
  await runBenchmarks(args, (report) => void reports.push(report));
  const skipped = reports.filter(({ title }) => title.startsWith("Skipped:"));
  if (skipped.length === 0) return reports;
  Deno.exitCode = 0; // that of the tests
  throw new Error(skipped.map(({ title }) => title).join("\n"));
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

Deno.test("fan_out compares a gateway with a bare server", async () => {
  const report = await reportOf([
    "fan_out",
    "--streams",
    "5",
    "--events",
    "2",
    "--rounds",
    "2",
  ]);
  assertValid({
    ...report,
    figures: report.figures.filter(({ unit }) => unit !== "KiB"),
  }); // so few streams take less than a page
  assertEquals(report.figures.map(({ name }) => name), [
    "last delivery p50, gateway",
    "last delivery p50, floor",
    "last delivery p99, gateway",
    "last delivery p99, floor",
    "last delivery p50, gateway / floor",
    "deliveries per second, gateway",
    "CPU per delivery, gateway",
    "CPU per delivery, gateway / floor",
    "CPU per opened stream, gateway",
    "CPU per opened stream, gateway / floor",
    "memory per stream, gateway",
    "memory per stream, floor",
  ]);
});

Deno.test("replay compares memory and store with their floors", async () => {
  const report = await reportOf([
    "replay",
    "--events",
    "120",
    "--clients",
    "2",
    "--rounds",
    "2",
  ]);
  assertValid(report);
  assertEquals(report.figures.length, 5);
});

Deno.test("large measures many variables and large values", async () => {
  const report = await reportOf([
    "large",
    "--variables",
    "20",
    "--events",
    "5",
    "--bytes",
    "1000",
  ]);
  assertValid(report);
  assertEquals(report.figures.length, 8);
});

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

Deno.test("session_key counts the requests of a crowd at one address together", async () => {
  const report = await reportOf([
    "session_key",
    "--keys",
    "10",
    "--concurrent",
    "4",
    "--rounds",
    "2",
    "--crowd",
    "30",
  ]);
  assertValid(report);
  const counts = ["keys", "reads", "commits"].map((kind) =>
    medianOf(report, `30 requests of one client at once: ${kind}`, "")
  );
  assertEquals(counts, [10, 1, 2]);
});

Deno.test("store_load counts the figures in docs/development/scale.md", async () => {
  const report = await reportOf(["store_load", "--clients", "20"]);
  const counts = report.figures
    .filter(({ unit }) => !unit.includes("bytes"))
    .map(({ name, unit, median }) => `${name}: ${median} ${unit}`);
  assertEquals(counts, [
    "one idle minute, each process: 61 gets",
    "one idle minute, each process: 13 lists",
    "one idle minute, each process: 104 entries listed",
    "one idle minute, each of the eight representatives: 61 gets",
    "one idle minute, each of the eight representatives: 13 lists",
    "one idle minute, each of the eight representatives: 104 entries listed",
    "one idle minute, each of the eight representatives: 13 commits",
    "one idle minute, each of the eight representatives: 13 entries written",
    "a change, the process that publishes it: 3 gets",
    "a change, the process that publishes it: 6 lists",
    "a change, the process that publishes it: 55 entries listed",
    "a change, the process that publishes it: 3 commits",
    "a change, the process that publishes it: 6 entries written",
    "a change, each other process: 1 lists",
    "a change, each other process: 1 entries listed",
    "a reload that finds what is published already: 3 gets",
    "a reload that finds what is published already: 5 lists",
    "a reload that finds what is published already: 54 entries listed",
    "a reload that finds what is published already: 2 commits",
    "a reload that finds what is published already: 2 entries written",
    "a reload that finds nothing new: 2 gets",
    "a reload that finds nothing new: 4 lists",
    "a reload that finds nothing new: 52 entries listed",
    "a reload that finds nothing new: 1 commits",
    "a reload that finds nothing new: 1 entries written",
    "a stream that is opened: 0 operations",
    "a session key: 1 commits",
    "a session key: 1 entries written",
    "a variable written to the store, a process alone: 4 gets",
    "a variable written to the store, a process alone: 6 lists",
    "a variable written to the store, a process alone: 54 entries listed",
    "a variable written to the store, a process alone: 3 commits",
    "a variable written to the store, a process alone: 6 entries written",
    "a sweep, one process, 20 live clients: 1 gets",
    "a sweep, one process, 20 live clients: 1 lists",
    "a sweep, one process, 20 live clients: 20 entries listed",
    "a sweep, one process, 20 live clients: 1 commits",
    "a sweep, one process, 20 live clients: 1 entries written",
    "a sweep, one process, 20 expired clients: 1 gets",
    "a sweep, one process, 20 expired clients: 1 lists",
    "a sweep, one process, 20 expired clients: 20 entries listed",
    "a sweep, one process, 20 expired clients: 2 commits",
    "a sweep, one process, 20 expired clients: 21 entries written",
    "a sweep, ten processes at once, 20 expired clients: 10 gets",
    "a sweep, ten processes at once, 20 expired clients: 1 lists",
    "a sweep, ten processes at once, 20 expired clients: 20 entries listed",
    "a sweep, ten processes at once, 20 expired clients: 11 commits",
    "a sweep, ten processes at once, 20 expired clients: 30 entries written",
  ]);
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
    "stream_open: CPU to open a stream",
    "stream_memory: memory per idle stream",
  ]);
  const [delivery, , memory] = reports as [Report, Report, Report];
  assertValid(delivery);
  assertValid(memory);
  assertEquals(delivery.figures.map(({ name }) => name), [
    "gateway",
    "floor",
    "gateway / floor",
  ]);
});

Deno.test("large_replay compares a replay of large events with kv.list", async () => {
  const report = await reportOf([
    "large_replay",
    "--events",
    "20",
    "--bytes",
    "60000",
    "--rounds",
    "2",
  ]);
  assertValid(report);
  assertEquals(report.figures.map(({ name }) => name), [
    "gateway",
    "floor",
    "gateway / floor",
  ]);
});

Deno.test("variables measures a start and a reload beside bare commits", async () => {
  const reports = await reportsOf([
    "variables",
    "--variables",
    "50",
    "--rounds",
    "2",
  ]);
  assertEquals(reports.map(({ title }) => title), [
    "start_many: start with 50 variables",
    "reload_many: reload that changes 50 variables",
  ]);
  reports.forEach(assertValid);
});

Deno.test("growth fits four sizes of each work", async () => {
  const sizes = [
    "--streams",
    "16",
    "--events",
    "600",
    "--changes",
    "40",
    "--kilobytes",
    "64",
  ];
  const reports = await reportsOf([
    "growth",
    ...sizes,
    ...TINY_LOAD,
    "--rounds",
    "1",
  ]);
  assertEquals(reports.map(({ title }) => title.split(":")[0]), [
    "fan_out",
    "replay",
    "publish",
    "static_pages",
    "proxied_pages",
  ]);
  for (const { figures } of reports) {
    assertEquals(figures.length, 7); // four sizes, the exponent, how well it fits, the slope
    assertValid({ title: "", figures: figures.slice(0, 4) });
  }
});

Deno.test("fit() finds the exponent and the slope of exact points", () => {
  const pointsOf = (cost: (size: number) => number) =>
    [1, 2, 4, 8].map((size) => ({ size, cost: cost(size) }));
  const { exponent, slope, r2 } = fit(pointsOf((size) => 3 * size));
  assertAlmostEquals(exponent, 1);
  assertAlmostEquals(slope, 3);
  assertAlmostEquals(r2, 1);
  assertAlmostEquals(fit(pointsOf((size) => 5 * size ** 2)).exponent, 2);
  assertAlmostEquals(fit(pointsOf(() => 7)).exponent, 0);
});

/** Without `wrk`, which may not be installed. */
const TINY_LOAD = [
  "--connections",
  "3",
  "--seconds",
  "0.05",
  "--rounds",
  "2",
  "--wrk",
  "0",
];

for (const { name, isProxied, hasDistinctClients } of HTTP_WORK) {
  Deno.test(`${name} compares a gateway with its floor`, async () => {
    const [{ title, figures } = { title: "", figures: [] }] = await reportsOf([
      name,
      ...TINY_LOAD,
    ]);
    const rates = figures.filter(({ name }) => !name.startsWith("CPU, ")); // so few requests take no measurable time
    assertValid({ title, figures: rates });
    const others = [
      "floor",
      ...isProxied ? ["fetch"] : [],
      ...hasDistinctClients ? ["memory store"] : [],
    ];
    const names = [
      "gateway",
      ...others,
      ...others.map((other) => `gateway / ${other}`),
    ];
    assertEquals(rates.map(({ name }) => name), names);
    assertEquals(rates.filter(({ least }) => least === 0), []);
  });
}

Deno.test("the floor of the proxied rows outlives clients that leave", async () => {
  await using site = await createSite();
  await using upstream = await startFinished(
    site,
    new Response(new Uint8Array(5_000_000)),
  );
  await using floor = await startPassThrough("node", upstream);
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
  const response = await fetch(`http://127.0.0.1:${floor.port}/`);
  assertEquals((await response.bytes()).length, 5_000_000);
});

Deno.test("ceiling loads the fastest servers there are", async () => {
  const { figures } = await reportOf(["ceiling", ...TINY_LOAD]);
  assertEquals(figures[0]?.name, "floor");
  assertEquals(Number(figures[0]?.least) > 0, true);
});

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

Deno.test("findPeers() says which programs are missing", async () => {
  const skipped: string[] = [];
  const variables = ["PATH", "BENCH_GO_GATEWAY", "BENCH_MERCURE"];
  const values = variables.map((name) => [name, Deno.env.get(name)] as const);
  for (const name of variables) Deno.env.delete(name);
  try {
    await findPeers((reason) => void skipped.push(reason));
  } finally {
    for (const [name, value] of values) {
      if (value !== undefined) Deno.env.set(name, value);
    }
  }
  assertEquals(skipped.filter((reason) => !reason.startsWith("nginx")), [
    "rep-gateway: it is not on the PATH, and BENCH_GO_GATEWAY does not name it",
    "mercure: it is not on the PATH, and BENCH_MERCURE does not name it",
  ]);
});

Deno.test("storedKeysRow() counts the clients of a load only", async () => {
  using kv = await Deno.openKv(":memory:");
  for (const client of ["10.6.26.129", "10.6.26.130", "10.0.0.1"]) {
    await kv.set(["rep", "rate", client], [1]);
  }
  const { rounds } = await storedKeysRow(kv, [{
    firstClient: 400_000,
    requests: 4,
  }]); // 10.6.26.128
  assertEquals(rounds, { gateway: [50] });
});

Deno.test("runBenchmarks() rejects an unknown benchmark and an unknown or malformed size", async () => {
  await assertRejects(
    () => runBenchmarks(["fanout"]),
    RangeError,
    'Cannot run "fanout": expected one of ceiling, health, static_page',
  );
  await assertRejects(
    () => runBenchmarks(["replay", "--client", "2"]),
    RangeError,
    "Cannot use --client: expected --events",
  );
  await assertRejects(
    () => runBenchmarks(["replay", "--clients", "two"]),
    RangeError,
    'Cannot read --clients: expected a number, got "two"',
  );
});
