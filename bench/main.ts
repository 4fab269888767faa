/**
 * Measures all rows of the tables in `docs/performance.md`, and writes `bench/results.json` and these tables:
 *
 *     deno task bench
 *
 * Or runs one row, or another benchmark, with other sizes:
 *
 *     deno task bench static_page --seconds 5
 *     deno task bench update static_page
 *     deno task bench engines --changes 100
 *
 * With `update`, the results of the row replace those of the last full run. Each prints the median of its rounds and,
 * in brackets, the least and the most. Times depend on the machine; ratios to a floor that was measured in the same
 * run say more.
 */
import { writePerformance } from "../tools/performance.ts";
import { builds, BUILDS_SIZES } from "./builds.ts";
import { ENGINE_SIZES, engines } from "./engines.ts";
import { fanout, FANOUT_SIZES } from "./fanout.ts";
import { HTTP_SIZES, HTTP_WORK, httpRows } from "./http.ts";
import { printReport, type Report } from "./_report.ts";
import {
  readResults,
  thisMachine,
  withNewer,
  writeResults,
} from "./_results.ts";
import { type Row, rowReport } from "./_row.ts";
import { POLL_SIZES, polls } from "./polls.ts";
import { REFETCH_SIZES, refetches } from "./refetches.ts";
import { SITES_SIZES, sitesCost } from "./sites.ts";
import { simulate } from "./simulation.ts";
import { readSizes } from "./_sizes.ts";
import { START_SIZES, startRows } from "./start.ts";
import { STORE_COSTS_SIZES, storeCosts } from "./store_costs.ts";
import { STORE_LOAD_SIZES, storeLoad } from "./store_load.ts";
import { STREAM_SIZES, streamRows } from "./streams.ts";
import { WORLD } from "./_world.ts";

type Args = readonly string[];

/** The rows of the tables, in their order, by the names for running them alone. */
export const TABLE = new Map<string, (args: Args) => Promise<Row[]>>();
for (const work of HTTP_WORK) {
  TABLE.set(work.name, (args) => httpRows(work, readSizes(args, HTTP_SIZES)));
}
TABLE.set("start", (args) => startRows(readSizes(args, START_SIZES)));
TABLE.set("streams", (args) => streamRows(readSizes(args, STREAM_SIZES)));

/** The other benchmarks. */
const OTHERS = new Map<string, (args: Args) => Report | Promise<Report>>([
  ["builds", (args) => builds(readSizes(args, BUILDS_SIZES))],
  ["engines", (args) => engines(readSizes(args, ENGINE_SIZES))],
  ["store_costs", (args) => storeCosts(readSizes(args, STORE_COSTS_SIZES))],
  ["store_load", (args) => storeLoad(readSizes(args, STORE_LOAD_SIZES))],
  ["polls", (args) => polls(readSizes(args, POLL_SIZES))],
  ["fanout", (args) => fanout(readSizes(args, FANOUT_SIZES))],
  ["refetches", (args) => refetches(readSizes(args, REFETCH_SIZES))],
  ["sites", (args) => sitesCost(readSizes(args, SITES_SIZES))],
  ["simulation", (args) => simulate(readSizes(args, WORLD))],
]);

/**
 * Runs the benchmark that the arguments name, or all rows.
 *
 * @throws {RangeError} If there is no benchmark of that name.
 */
export async function runBenchmarks(
  args: Args,
  print: (report: Report) => void = printReport,
): Promise<void> {
  if (args.length === 0) return await runAll(print);
  const isUpdate = args[0] === "update";
  const [name = "", ...sizes] = isUpdate ? args.slice(1) : args;
  const measure = TABLE.get(name);
  const other = OTHERS.get(name);
  if (measure !== undefined) {
    const measuredAt = new Date().toISOString();
    const rows = await measure(sizes);
    for (const row of rows) print(rowReport(row));
    if (!isUpdate) return;
    await writeResults(withNewer(await readResults(), rows, measuredAt));
    await writePerformance();
  } else if (other !== undefined && !isUpdate) {
    print(await other(sizes));
  } else {
    const names = [...TABLE.keys(), ...OTHERS.keys()];
    throw new RangeError(
      `Cannot run "${name}": expected one of ${names.join(", ")}`,
    );
  }
}

async function runAll(print: (report: Report) => void): Promise<void> {
  const measuredAt = new Date().toISOString();
  const machine = thisMachine();
  const all: Row[] = [];
  for (const measure of TABLE.values()) {
    const rows = await measure([]);
    for (const row of rows) print(rowReport(row));
    all.push(...rows);
  }
  await writeResults({ measuredAt, machine, rows: all });
  await writePerformance();
}

if (import.meta.main) await runBenchmarks(Deno.args);
