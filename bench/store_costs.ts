/**
 * What reading and committing windows of the rate limit takes each engine of the store, by how many there are in one operation: the costs
 * of the simulation.
 *
 *     deno task bench store_costs --ms 500 --concurrent 8 --rounds 3
 *
 * Several operations at a time keep the store busy, so that the time per operation is the time that the store needs for it, without round
 * trips. Every window is new, and every commit checks that it does not exist.
 */
import { silentLog } from "../src/log.ts";
import { packWindow } from "../src/http/sliding_window.ts";
import { windowKey } from "../src/http/sweep_windows.ts";
import { openStore } from "../src/store/open.ts";
import type { Key, Store } from "../src/store/store.ts";
import { type Engine, startEngines } from "./_engines.ts";
import { type Figure, figure, type Report } from "./_report.ts";

/** How long each is measured, how many operations run at once, and how often. */
export const STORE_COSTS_SIZES = { ms: 500, concurrent: 8, rounds: 3 };

type Sizes = typeof STORE_COSTS_SIZES;

const COUNTS = [1, 10, 50, 100];

/** Runs the benchmark. */
export async function storeCosts(sizes: Sizes = STORE_COSTS_SIZES): Promise<Report> {
  await using stack = new AsyncDisposableStack();
  const directory = await Deno.makeTempDir();
  stack.defer(() => Deno.remove(directory, { recursive: true }));
  const figures: Figure[] = [];
  for (const engine of await startEngines(directory, stack)) figures.push(...await measure(engine, sizes));
  return { title: `store costs: ${sizes.concurrent} operations at once`, figures };
}

async function measure({ name, kv }: Engine, sizes: Sizes): Promise<Figure[]> {
  const store = await openStore(kv, silentLog);
  const figures: Figure[] = [];
  for (const count of COUNTS.filter((count) => count <= store.maxChecks)) {
    const reads: number[] = [];
    const commits: number[] = [];
    for (let round = 0; round < sizes.rounds; round++) {
      commits.push(await microseconds(sizes, () => commit(store, newKeys(count))));
      reads.push(await microseconds(sizes, () => store.getMany(newKeys(count))));
    }
    figures.push(
      figure(`${name}: a read of ${count}`, "µs", reads),
      figure(`${name}: a commit of ${count}`, "µs", commits),
    );
  }
  store.close();
  return figures;
}

let clients = 0;

function newKeys(count: number): Key[] {
  return Array.from({ length: count }, () => {
    const client = clients++;
    return windowKey(`10.${client >> 16 & 255}.${client >> 8 & 255}.${client & 255}`);
  });
}

async function commit(store: Store, keys: readonly Key[]): Promise<void> {
  const value = packWindow([Date.now()]);
  const version = await store.commit(
    keys.map((key) => ({ key, version: null })),
    keys.map((key) => ({ key, value })),
  );
  if (version === undefined) throw new Error("Cannot measure a commit: expected no conflict");
}

/** Returns the time per operation. */
async function microseconds({ ms, concurrent }: Sizes, operate: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  let count = 0;
  const worker = async () => {
    while (performance.now() - startedAt < ms) {
      await operate();
      count++;
    }
  };
  await Promise.all(Array.from({ length: concurrent }, worker));
  return (performance.now() - startedAt) / count * 1_000;
}
