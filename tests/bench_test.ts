import { assertEquals, assertRejects } from "@std/assert";
import { runBenchmarks } from "../bench/main.ts";
import { type Report, reportText } from "../bench/_report.ts";
import { soak } from "../bench/soak.ts";

async function reportOf(args: string[]): Promise<Report> {
  const reports: Report[] = [];
  await runBenchmarks(args, (report) => void reports.push(report));
  assertEquals(reports.length, 1);
  return reports[0] as Report;
}

/** Every figure is a number, and lies between the least and the most. */
function assertWhole({ figures }: Report): void {
  const broken = figures.filter(({ least, median, most }) => !(0 <= least && least <= median && median <= most));
  assertEquals(broken, []);
}

function medianOf({ figures }: Report, name: string, unit: string): number | undefined {
  return figures.find((it) => it.name === name && it.unit === unit)?.median;
}

Deno.test("fan_out compares a gateway with a bare server", async () => {
  const report = await reportOf(["fan_out", "--streams", "5", "--events", "2", "--rounds", "2"]);
  assertWhole({ ...report, figures: report.figures.filter(({ unit }) => unit !== "KiB") }); // so few take no whole page
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
  const report = await reportOf(["replay", "--events", "120", "--clients", "2", "--rounds", "2"]);
  assertWhole(report);
  assertEquals(report.figures.length, 5);
});

Deno.test("large measures many variables and large values", async () => {
  const report = await reportOf(["large", "--variables", "20", "--events", "5", "--bytes", "1000"]);
  assertWhole(report);
  assertEquals(report.figures.length, 8);
});

Deno.test("soak loses no event and keeps every idle stream", async () => {
  const reports = await soak({ streams: 10, minutes: 0.02, reconnects: 10, connects: 50, updates: 100 });
  const lost = reports.map((report) => medianOf(report, "streams that ended", "")).concat(
    reports.map((report) => medianOf(report, "events lost by the other client", "")),
    reports.map((report) => medianOf(report, "events lost by the stalled client", "")),
  );
  assertEquals(lost.filter((count) => count !== undefined), [0, 0, 0]);
});

Deno.test("session_key counts one read and one commit for each key that a crowd at one address gets", async () => {
  const report = await reportOf(["session_key", "--keys", "10", "--concurrent", "4", "--rounds", "2", "--crowd", "30"]);
  assertWhole(report);
  const counts = ["keys", "reads", "commits"].map((what) =>
    medianOf(report, `30 requests of one client at once: ${what}`, "")
  );
  assertEquals(counts, [10, 10, 10]);
});

Deno.test("store_load counts what docs/scale.md says", async () => {
  const report = await reportOf(["store_load", "--clients", "20"]);
  const counts = report.figures
    .filter(({ unit }) => !unit.includes("bytes"))
    .map(({ name, unit, median }) => `${name}: ${median} ${unit}`);
  assertEquals(counts, [
    "a minute of rest, each process: 61 gets",
    "a minute of rest, each process: 73 lists",
    "a minute of rest, each process: 104 entries listed",
    "a minute of rest, each of the eight that speak: 61 gets",
    "a minute of rest, each of the eight that speak: 73 lists",
    "a minute of rest, each of the eight that speak: 104 entries listed",
    "a minute of rest, each of the eight that speak: 13 commits",
    "a minute of rest, each of the eight that speak: 13 entries written",
    "a change, the process that publishes it: 4 gets",
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
    "a session key: 1 gets",
    "a session key: 1 commits",
    "a session key: 1 entries written",
    "a variable written to the store, a process alone: 5 gets",
    "a variable written to the store, a process alone: 6 lists",
    "a variable written to the store, a process alone: 54 entries listed",
    "a variable written to the store, a process alone: 3 commits",
    "a variable written to the store, a process alone: 6 entries written",
    "a sweep, one process, 20 live clients: 1 gets",
    "a sweep, one process, 20 live clients: 1 lists",
    "a sweep, one process, 20 live clients: 20 entries listed",
    "a sweep, one process, 20 live clients: 1 commits",
    "a sweep, one process, 20 live clients: 1 entries written",
    "a sweep, one process, 20 dead clients: 1 gets",
    "a sweep, one process, 20 dead clients: 1 lists",
    "a sweep, one process, 20 dead clients: 20 entries listed",
    "a sweep, one process, 20 dead clients: 3 commits",
    "a sweep, one process, 20 dead clients: 21 entries written",
    "a sweep, ten processes at once, 20 dead clients: 10 gets",
    "a sweep, ten processes at once, 20 dead clients: 1 lists",
    "a sweep, ten processes at once, 20 dead clients: 20 entries listed",
    "a sweep, ten processes at once, 20 dead clients: 12 commits",
    "a sweep, ten processes at once, 20 dead clients: 30 entries written",
  ]);
});

Deno.test("simulation gives the same figures for the same seed", async () => {
  const small = ["simulation", "--clients", "5000", "--processes", "20", "--rounds", "2", "--seed", "7"];
  const report = await reportOf(small);
  assertWhole(report);
  assertEquals(report.title, "simulation: 5000 clients, 20 processes, seeds 7 to 8");
  assertEquals(reportText(report), reportText(await reportOf(small)));
});

Deno.test("simulation lets one of many processes publish a change that all of them see", async () => {
  const report = await reportOf(["simulation", "--clients", "100", "--processes", "50", "--rounds", "1"]);
  const commits = medianOf(report, "all publish it at once: commits", "");
  const conflicts = medianOf(report, "all publish it at once: conflicts", "");
  assertEquals(Number(commits) - Number(conflicts), 1);
});

Deno.test("simulation has the full store first where every process sweeps, and not where one does", async () => {
  const first = async (sweepers: string) => {
    const { figures } = await reportOf(["simulation", "--rounds", "1", "--keyShare", "0", "--sweepers", sweepers]);
    return figures.find(({ name }) => name.startsWith("1. "))?.name;
  };
  assertEquals([await first("0"), await first("1")], ["1. store, sweeps: taken", "1. store, keys: taken"]);
});

Deno.test("the benchmarks refuse a name and a size that they do not know", async () => {
  await assertRejects(
    () => runBenchmarks(["fanout"]),
    RangeError,
    'Cannot run "fanout": expected one of fan_out, large, replay',
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
