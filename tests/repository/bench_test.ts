/** Every benchmark runs, at sizes that show nothing but that. */
import { assertEquals } from "@std/assert";
import { hasLoopbackOnly } from "../../bench/_go_gateway.ts";
import { goalsOf } from "../../bench/_goals.ts";
import { HTTP_WORK } from "../../bench/http.ts";
import { parseWrk } from "../../bench/_load.ts";
import { runBenchmarks } from "../../bench/main.ts";
import { findNginx, startNginxStatic } from "../../bench/_nginx.ts";
import type { Report } from "../../bench/_report.ts";
import { readResults, withNewer } from "../../bench/_results.ts";
import { rowReport } from "../../bench/_row.ts";
import { startGateway } from "../../bench/_servers.ts";
import { ASSET_PATH, createSite, PAGE_PATH } from "../../bench/_site.ts";
import { soak } from "../../bench/soak.ts";
import { findProgram } from "../../tools/find_program.ts";

/** Runs a benchmark, and asserts that every figure is a number between the least and the most. */
async function run(benchmark: string): Promise<Report[]> {
  const reports: Report[] = [];
  await runBenchmarks(benchmark.split(" "), (report) => {
    reports.push(report);
  });
  const figures = reports.flatMap((report) => report.figures);
  const broken = figures.filter(({ name, least, median, most }) =>
    !name.startsWith("CPU, ") && // so few requests take no measurable time
    !(-Infinity < least && least <= median && median <= most) // memory may shrink
  );
  assertEquals(broken, []);
  return reports;
}

function medianOf(reports: readonly Report[], name: string): number {
  const figures = reports.flatMap((report) => report.figures);
  return figures.find((it) => it.name === name)?.median ?? NaN;
}

/** Less than a second, which `wrk` cannot do. */
const TINY_LOAD = "--connections 3 --seconds 0.05 --rounds 2";

const hasNginx = await findNginx() !== undefined;

for (const { name, kind } of HTTP_WORK) {
  Deno.test(`${name} compares a gateway with its floor, and with nginx if it can do the work`, async () => {
    const [report] = await run(`${name} ${TINY_LOAD}`);
    const names = report?.figures.map((figure) => figure.name) ?? [];
    const rates = names.filter((name) => !name.startsWith("CPU, "));
    const isForNginx = hasNginx && (kind === "static" || kind === "proxied");
    const others = isForNginx ? ["floor", "nginx"] : ["floor"];
    const ratios = others.map((other) => `gateway / ${other}`);
    assertEquals(rates, ["gateway", ...others, ...ratios]);
  });
}

Deno.test({
  name: hasNginx
    ? "nginx sends the headers and bytes of the gateway's static content"
    : "nginx sends the bytes of the gateway (nginx is not installed)",
  ignore: !hasNginx,
  async fn() {
    await using site = await createSite();
    const args = ["--static-dir", site.directory, "--kv", ":memory:"];
    await using gateway = await startGateway(site, args);
    await using nginx = (await startNginxStatic(site, gateway))!;
    for (const path of ["/rep/health", PAGE_PATH, ASSET_PATH]) {
      const expected = await receive(gateway.url + path);
      assertEquals(await receive(nginx.url + path), expected);
    }
  },
});

/** Returns a response without what is of its server, and with a mark for what is of the moment. */
async function receive(url: string) {
  const response = await fetch(url, {
    headers: { "accept-encoding": "identity" },
  });
  const headers = new Headers(response.headers);
  for (const name of ["connection", "server"]) headers.delete(name);
  for (const name of ["date", "etag"]) {
    if (headers.has(name)) headers.set(name, "any");
  }
  const text = await response.text();
  const body = text.replace(
    /"version":"[^"]*"|"uptime_seconds":\d+|"build":"[^"]*"/g,
    "",
  );
  if (body !== text) headers.set("content-length", "any"); // a checkout's version has its commit
  return { status: response.status, headers: [...headers], body };
}

Deno.test("start measures the first response and the memory then", async () => {
  const reports = await run("start --rounds 1");
  assertEquals(reports.map(({ title }) => title), [
    "start: start to first response",
    "idle_memory: idle memory",
  ]);
});

Deno.test("streams measures deliveries, openings and memory beside a bare server", async () => {
  const reports = await run("streams --streams 200 --events 2 --rounds 2");
  assertEquals(reports.map(({ title }) => title), [
    "last_delivery: 1 event to 200 streams, last delivery",
    "delivery: CPU to deliver an event to a stream",
    "stream_open: CPU to open a stream",
    "stream_memory: memory per idle stream",
  ]);
});

Deno.test("polls has a change reach every page without a stream", async () => {
  const sizes = "--seconds 1 --speed 500 --loadSeconds 0.3";
  const reports = await run(`polls --streams 5 --polls 20 ${sizes}`);
  const all = medianOf(reports, "all have it");
  assertEquals(all < 60, true, `${all} s`);
});

Deno.test({
  name: hasNginx
    ? "fanout has caches answer the polls, and no page goes back or gets a value of another site"
    : "fanout has caches answer the polls (nginx is not installed)",
  ignore: !hasNginx,
  async fn() {
    const sizes = "--seconds 0.5 --changeSeconds 0.2 --speed 50";
    const reports = await run(
      `fanout --pages 40 --sites 2 --caches 2 ${sizes}`,
    );
    const names = ["steps back", "values of another site", "failed requests"];
    for (const name of names) assertEquals(medianOf(reports, name), 0, name);
    const cached = medianOf(reports, "quiet: … at the gateway");
    const all = medianOf(reports, "not cached: quiet: … at the gateway");
    assertEquals(cached < all / 4, true, `${cached} of ${all}`);
    assertEquals(medianOf(reports, "… while the gateway is away"), 0);
  },
});

Deno.test("refetches has every page of OpenFeature's web SDK get the flags of a change", async () => {
  const reports = await run("refetches --pages 20 --changes 2");
  const all = medianOf(reports, "all have it");
  assertEquals(all >= 50 && all < 10_000, true, `${all} ms`);
});

Deno.test("store_load counts no call of the store for a stream that is opened", async () => {
  const reports = await run("store_load");
  assertEquals(medianOf(reports, "a stream that is opened"), 0);
});

Deno.test("sites measures a process with several sites on memory and SQLite, and a page beside a gateway without sites", async () => {
  const [report] = await run("sites --sites 3 --seconds 0.2 --rounds 1");
  const names = report?.figures.map(({ name }) => name) ?? [];
  for (const engine of ["memory", "SQLite"]) {
    assertEquals(names.filter((name) => name.startsWith(engine)).length, 4);
  }
  assertEquals(names.at(-1), "page of a site / without sites");
});

const hasHaproxy = await findProgram("haproxy", ["/usr/sbin"]) !== undefined;

Deno.test({
  name: hasNginx && hasHaproxy
    ? "builds has no white page and no missing chunk with kept builds, and pages that are told of another build get it, once"
    : "builds (nginx or HAProxy is not installed)",
  ignore: !hasNginx || !hasHaproxy,
  async fn() {
    const costs = "--rounds 1 --seconds 1";
    const reports = await run(
      `builds --builds 2 --replicas 2 --pages 20 ${costs}`,
    );
    const of = (what: string) =>
      medianOf(reports, `2 × gateway with --keep-builds: ${what}`);
    const unwanted = [
      "white pages",
      "missing lazy chunks",
      "reloads that brought an older build than told",
      "reloads for the same build again",
      "pages left with an older build",
    ];
    for (const what of unwanted) assertEquals(of(what), 0, what);
    assertEquals(of("notices") > 0, true);
  },
});

Deno.test("simulation returns the same figures for the same seed", async () => {
  const small = "simulation --clients 5000 --processes 20 --rounds 2 --seed 7";
  assertEquals(await run(small), await run(small));
});

Deno.test("simulation has one of many processes publish a change that all of them see", async () => {
  const reports = await run(
    "simulation --clients 100 --processes 50 --rounds 1",
  );
  const commits = medianOf(reports, "all publish it at once: commits");
  const conflicts = medianOf(reports, "all publish it at once: conflicts");
  assertEquals(commits - conflicts, 1);
});

Deno.test("soak loses no event and keeps every idle stream", async () => {
  const reports = await soak({
    streams: 10,
    minutes: 0.02,
    reconnects: 10,
    connects: 50,
    updates: 100,
  });
  for (
    const name of [
      "streams that ended",
      "events lost by the other client",
      "events lost by the stalled client",
    ]
  ) assertEquals(medianOf(reports, name), 0, name);
});

Deno.test("every row of the results has a goal", async () => {
  const { rows } = await readResults();
  const without = rows.filter((row) => goalsOf(row).length === 0);
  assertEquals(without.map(({ name }) => name), []);
});

Deno.test("hasLoopbackOnly() finds any other interface", () => {
  const headings = "Inter-|   Receive\n face |bytes    packets\n";
  assertEquals(hasLoopbackOnly(`${headings}    lo: 1 2\n`), true);
  assertEquals(hasLoopbackOnly(`${headings}    lo: 1 2\n  eth0: 1 2\n`), false);
  assertEquals(hasLoopbackOnly(headings), false);
});

Deno.test("a row has no ratio to what took no measurable time", () => {
  const row = { name: "open", work: "open a stream", unit: "µs" };
  const gateway = [50, 0, 60];
  const ratiosTo = (floor: number[]) =>
    rowReport({ ...row, rounds: { gateway, floor } }).figures
      .filter(({ name }) => name === "gateway / floor")
      .map(({ least, most }) => [least, most]);
  assertEquals(ratiosTo([0, 0, 30]), [[2, 2]]);
  assertEquals(ratiosTo([0, 0, 0]), []);
});

Deno.test("parseWrk() reads the rate and the failed requests, and rejects socket errors", () => {
  const output = (more: string) =>
    `  31179 requests in 1.00s, 9.51MB read\n${more}Requests/sec:  31141.57\n`;
  const parsed = { perSecond: 31_141.57, requests: 31_179, failed: 0 };
  assertEquals(parseWrk(output("")), parsed);
  const failures = output("  Non-2xx or 3xx responses: 31169\n");
  assertEquals(parseWrk(failures), { ...parsed, failed: 31_169 });
  const errors = "  Socket errors: connect 0, read 5, write 0, timeout 0\n";
  assertEquals(parseWrk(output(errors)), undefined);
});

Deno.test("withNewer() replaces the rows that were measured again, and adds those that were never measured", async () => {
  const results = await readResults();
  const [first] = results.rows;
  const again = { ...first!, unit: "again" };
  const other = { ...first!, name: "other" };
  const at = "2026-11-28T00:00:00.000Z";
  const { rows } = withNewer(results, [again, other], at);
  assertEquals(rows.length, results.rows.length + 1);
  assertEquals(rows[0], { ...again, measuredAt: at });
  assertEquals(rows.at(-1), { ...other, measuredAt: at });
});
