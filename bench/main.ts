/**
 * Runs all rows of the tables in `docs/performance.md`, writes `bench/results.json` and draws `docs/performance.svg`:
 *
 *     deno task bench
 *     deno task bench peers --rounds 3
 *
 * With `peers`, it also measures the gateways and hubs of others that are installed. Or runs one row, or another
 * benchmark, with other sizes:
 *
 *     deno task bench static_page --seconds 5
 *     deno task bench peers static_page
 *     deno task bench update peers static_page
 *     deno task bench fan_out --streams 5000
 *
 * With `update`, the results of the row replace those of the last full run. Each prints the median of its rounds and,
 * in brackets, the least and the most. Times depend on the machine; ratios to a floor that was measured in the same
 * run say more.
 */
import { ENGINE_SIZES, engines } from "./engines.ts";
import { FAN_OUT_SIZES, fanOut } from "./fan_out.ts";
import { large, LARGE_SIZES } from "./large.ts";
import { replay, REPLAY_SIZES } from "./replay.ts";
import { writePerformance } from "../tools/performance.ts";
import { isIsolated } from "./_import_flags.ts";
import { findPeers, runIsolated } from "./_peers.ts";
import { type BenchContext, findOnMachine } from "./_programs.ts";
import { printReport, type Report } from "./_report.ts";
import { mergeResults, readResults, writeResults } from "./_results.ts";
import { measureTable, TABLE } from "./_table.ts";
import { SESSION_KEY_SIZES, sessionKey } from "./session_key.ts";
import { simulate } from "./simulation.ts";
import { readSizes } from "./_sizes.ts";
import { STORE_COSTS_SIZES, storeCosts } from "./store_costs.ts";
import { STORE_LOAD_SIZES, storeLoad } from "./store_load.ts";
import { WORLD } from "./_world.ts";

type Run = (args: readonly string[]) => Report | Promise<Report>;

const PROGRAMS: Readonly<Record<string, Run>> = {
  engines: (args) => engines(readSizes(args, ENGINE_SIZES)),
  fan_out: (args) => fanOut(readSizes(args, FAN_OUT_SIZES)),
  large: (args) => large(readSizes(args, LARGE_SIZES)),
  replay: (args) => replay(readSizes(args, REPLAY_SIZES)),
  session_key: (args) => sessionKey(readSizes(args, SESSION_KEY_SIZES)),
  store_costs: (args) => storeCosts(readSizes(args, STORE_COSTS_SIZES)),
  store_load: (args) => storeLoad(readSizes(args, STORE_LOAD_SIZES)),
  simulation: (args) => simulate(readSizes(args, WORLD)),
};

/**
 * Runs the benchmark that the arguments name, or the whole table, of which it writes the results.
 *
 * @throws {RangeError} If there is no benchmark of that name.
 */
export async function runBenchmarks(
  args: readonly string[],
  print: Print = printReport,
): Promise<void> {
  const command = readCommand(args);
  const ranIsolated = command.withPeers && await runIsolated(args);
  if (!ranIsolated) await runHere(command, print);
  if ((command.isUpdate || command.name === undefined) && !isIsolated()) {
    await writePerformance();
  }
}

type Print = (report: Report) => void;

/** What the arguments ask for. */
interface Command {
  /** Whether the results of a row replace those of the last full run. */
  readonly isUpdate: boolean;
  readonly withPeers: boolean;
  /** A row or another benchmark; `undefined` is the whole table. */
  readonly name: string | undefined;
  readonly sizes: readonly string[];
}

function readCommand(args: readonly string[]): Command {
  const first = args.findIndex((arg) => arg !== "update" && arg !== "peers");
  const words = args.slice(0, first === -1 ? args.length : first);
  const rest = args.slice(words.length);
  const name = rest[0]?.startsWith("--") ? undefined : rest[0];
  const sizes = name === undefined ? rest : rest.slice(1);
  return {
    isUpdate: words.includes("update"),
    withPeers: words.includes("peers"),
    name,
    sizes,
  };
}

async function runHere(command: Command, print: Print): Promise<void> {
  const { isUpdate, withPeers, name, sizes } = command;
  if (name === undefined || Object.hasOwn(TABLE, name)) {
    return await runRows(command, print);
  }
  const run = PROGRAMS[name];
  if (run !== undefined && !isUpdate && !withPeers) {
    return print(await run(sizes));
  }
  const names = [
    ...Object.keys(TABLE),
    ...isUpdate || withPeers ? [] : Object.keys(PROGRAMS),
  ];
  throw new RangeError(
    `Cannot run "${name}": expected one of ${names.join(", ")}`,
  );
}

async function runRows(
  { isUpdate, withPeers, name, sizes }: Command,
  print: Print,
): Promise<void> {
  const context = await createContext(withPeers);
  const results = await measureTable(
    name === undefined ? Object.keys(TABLE) : [name],
    { sizes, context, print },
  );
  const { skipped } = results;
  if (skipped.length > 0) {
    print({ title: `Skipped:\n  ${skipped.join("\n  ")}`, figures: [] });
  }
  if (name === undefined) await writeResults(results);
  else if (isUpdate) {
    await writeResults(mergeResults(await readResults(), results, name));
  }
}

async function createContext(withPeers: boolean): Promise<BenchContext> {
  const skipped: string[] = [];
  const peers = withPeers
    ? await findPeers((reason) => void skipped.push(reason))
    : {};
  return { peers, skipped, nginx: await findOnMachine("BENCH_NGINX", "nginx") };
}

if (import.meta.main) await runBenchmarks(Deno.args);
