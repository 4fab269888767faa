/**
 * How much time each engine of the store takes to read and commit windows of the rate limit, by their number in one
 * operation: the costs of the simulation.
 *
 *     deno task bench store_costs --ms 500 --concurrent 256 --rounds 3
 *
 * Several operations at a time keep the store busy, so that the time per operation is the time that the store needs for
 * it, without round trips. On this machine, the client takes a share of it; so the CPU time of a `denokv` server is
 * reported as well. Every window is new, and every commit checks that it does not exist.
 */
import { silentLog } from "../src/core/observe/log.ts";
import { openStore } from "../src/engines/open.ts";
import type { Key, Store } from "../src/core/store/store.ts";
import { clientAddress } from "./_load.ts";
import { type Engine, withEngines } from "./_engines.ts";
import { readUsage } from "./_process_usage.ts";
import { type Figure, figure, type Report } from "./_report.ts";

/** How long each is measured, how many operations run at once, and how often. */
export const STORE_COSTS_SIZES = { ms: 500, concurrent: 256, rounds: 3 };

type Sizes = typeof STORE_COSTS_SIZES;

const COUNTS = [1, 10, 50, 100];

/** Runs the benchmark. */
export async function storeCosts(sizes: Sizes): Promise<Report> {
  const figures = await withEngines((engine) => measure(engine, sizes));
  return {
    title: `store costs: ${sizes.concurrent} operations at once`,
    figures,
  };
}

async function measure(engine: Engine, sizes: Sizes): Promise<Figure[]> {
  const store = await openStore(engine.kv, silentLog);
  const figures: Figure[] = [];
  for (const count of COUNTS) {
    if (count > store.maxChecks) continue;
    const commit = () => commitWindows(store, newKeys(count));
    const read = () => store.getMany(newKeys(count));
    figures.push(
      ...await costsOf(`a commit of ${count}`, commit, engine, sizes),
      ...await costsOf(`a read of ${count}`, read, engine, sizes),
    );
  }
  store.close();
  return figures;
}

let clients = 0;

function newKeys(count: number): Key[] {
  return Array.from(
    { length: count },
    () => ["rate", clientAddress(clients++)],
  );
}

async function commitWindows(
  store: Store,
  keys: readonly Key[],
): Promise<void> {
  const value = [Date.now()];
  const version = await store.commit(
    keys.map((key) => ({ key, version: null })),
    keys.map((key) => ({ key, value })),
  );
  if (version === undefined) {
    throw new Error("Cannot measure a commit: expected no conflict");
  }
}

async function costsOf(
  what: string,
  operate: () => Promise<unknown>,
  { name, pid }: Engine,
  { ms, concurrent, rounds }: Sizes,
): Promise<Figure[]> {
  const times: number[] = [];
  const serverTimes: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const before = pid && await readUsage(pid);
    const startedAt = performance.now();
    const isOver = () => performance.now() - startedAt >= ms;
    const counts = await Promise.all(
      Array.from({ length: concurrent }, () => repeat(operate, isOver)),
    );
    const count = counts.reduce((sum, one) => sum + one);
    times.push((performance.now() - startedAt) / count * 1_000);
    const after = pid && await readUsage(pid);
    if (before && after) serverTimes.push((after.cpuUs - before.cpuUs) / count);
  }
  const figures = [figure(`${name}: ${what}`, "µs", times)];
  if (serverTimes.length > 0) {
    figures.push(
      figure(`${name}: ${what}, CPU of the server`, "µs", serverTimes),
    );
  }
  return figures;
}

/** Returns how often it could operate. */
async function repeat(
  operate: () => Promise<unknown>,
  isOver: () => boolean,
): Promise<number> {
  let count = 0;
  while (!isOver()) {
    await operate();
    count++;
  }
  return count;
}
