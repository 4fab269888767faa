/**
 * Runs all benchmarks, which takes less than a minute, or one of them with other sizes:
 *
 *     deno task bench
 *     deno task bench fan_out --streams 5000
 *
 * Each prints the median of its rounds and, in brackets, the least and the most. Times depend on the machine; ratios to a
 * floor that was measured in the same run say more.
 */
import { ENGINE_SIZES, engines } from "./engines.ts";
import { FAN_OUT_SIZES, fanOut } from "./fan_out.ts";
import { large, LARGE_SIZES } from "./large.ts";
import { replay, REPLAY_SIZES } from "./replay.ts";
import { printReport, type Report } from "./_report.ts";
import { SESSION_KEY_SIZES, sessionKey } from "./session_key.ts";
import { simulate } from "./simulation.ts";
import { readSizes } from "./_sizes.ts";
import { STORE_LOAD_SIZES, storeLoad } from "./store_load.ts";
import { WORLD } from "./_world.ts";

type Run = (args: readonly string[]) => Report | Promise<Report>;

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
 * Runs the benchmark that the arguments name, or all of them.
 *
 * @throws {RangeError} If there is no benchmark of that name.
 */
export async function runBenchmarks(args: readonly string[], print = printReport): Promise<void> {
  const [name, ...sizes] = args;
  if (name === undefined) {
    for (const run of Object.values(PROGRAMS)) print(await run([]));
    return;
  }
  const run = PROGRAMS[name];
  if (run === undefined) {
    throw new RangeError(`Cannot run "${name}": expected one of ${Object.keys(PROGRAMS).join(", ")}`);
  }
  print(await run(sizes));
}

if (import.meta.main) await runBenchmarks(Deno.args);
