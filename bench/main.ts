/**
 * Runs all rows of the table in `docs/performance.md`, or one of them with other sizes, or another benchmark by its name:
 *
 *     deno task bench
 *     deno task bench static_page --seconds 5
 *     deno task bench fan_out --streams 5000
 *
 * Each prints the median of its rounds and, in brackets, the least and the most. Times depend on the machine; ratios to a
 * floor that was measured in the same run say more.
 */
import { ENGINE_SIZES, engines } from "./engines.ts";
import { FAN_OUT_SIZES, fanOut } from "./fan_out.ts";
import { HTTP_SIZES, HTTP_WORK, measureCeiling, measureHttp } from "./http_rows.ts";
import { large, LARGE_SIZES } from "./large.ts";
import { replay, REPLAY_SIZES } from "./replay.ts";
import { printReport, type Report } from "./_report.ts";
import { type BenchContext, findOnMachine } from "./_programs.ts";
import { type Row, rowReport } from "./_row.ts";
import { SESSION_KEY_SIZES, sessionKey } from "./session_key.ts";
import { simulate } from "./simulation.ts";
import { readSizes } from "./_sizes.ts";
import { STORE_LOAD_SIZES, storeLoad } from "./store_load.ts";
import { WORLD } from "./_world.ts";

type Run = (args: readonly string[]) => Report | Promise<Report>;
type RunRow = (args: readonly string[], context: BenchContext) => Promise<Row>;

const ROWS: Readonly<Record<string, RunRow>> = {
  ceiling: (args, context) => measureCeiling(readSizes(args, HTTP_SIZES), context),
  ...Object.fromEntries(
    HTTP_WORK.map((work): [string, RunRow] => [
      work.name,
      (args, context) => measureHttp(work, readSizes(args, HTTP_SIZES), context),
    ]),
  ),
};

const PROGRAMS: Readonly<Record<string, Run>> = {
  engines: (args) => engines(readSizes(args, ENGINE_SIZES)),
  fan_out: (args) => fanOut(readSizes(args, FAN_OUT_SIZES)),
  large: (args) => large(readSizes(args, LARGE_SIZES)),
  replay: (args) => replay(readSizes(args, REPLAY_SIZES)),
  session_key: (args) => sessionKey(readSizes(args, SESSION_KEY_SIZES)),
  store_load: (args) => storeLoad(readSizes(args, STORE_LOAD_SIZES)),
  simulation: (args) => simulate(readSizes(args, WORLD)),
};

/**
 * Runs the benchmark that the arguments name, or all rows of the table.
 *
 * @throws {RangeError} If there is no benchmark of that name.
 */
export async function runBenchmarks(args: readonly string[], print = printReport): Promise<void> {
  const [name, ...sizes] = args;
  const context: BenchContext = { peers: {}, nginx: await findOnMachine("BENCH_NGINX", "nginx"), skip() {} };
  if (name === undefined) {
    for (const run of Object.values(ROWS)) print(rowReport(await run([], context)));
    return;
  }
  const row = ROWS[name];
  if (row !== undefined) return print(rowReport(await row(sizes, context)));
  const run = PROGRAMS[name];
  if (run === undefined) {
    const names = [...Object.keys(ROWS), ...Object.keys(PROGRAMS)];
    throw new RangeError(`Cannot run "${name}": expected one of ${names.join(", ")}`);
  }
  print(await run(sizes));
}

if (import.meta.main) await runBenchmarks(Deno.args);
