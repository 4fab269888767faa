/**
 * What reading and committing windows of the rate limit takes each engine of the store, by how many there are in one
 * operation: the costs of the simulation.
 *
 *     deno task bench store_costs --ms 500 --concurrent 256 --rounds 3
 *
 * Several operations at a time keep the store busy, so that the time per operation is the time that the store needs for
 * it, without round trips. On this machine, the client takes a share of it; so the CPU time of a `denokv` server is
 * reported as well. Every window is new, and every commit checks that it does not exist.
 */
import { windowKey } from "../src/keys/sweep_windows.ts";
import { silentLog } from "../src/observe/log.ts";
import { openStore } from "../src/store/open.ts";
import type { Key, Store } from "../src/store/store.ts";
import { type Engine, startEngines } from "./_engines.ts";
import { readUsage } from "./_process_usage.ts";
import { type Figure, figure, type Report } from "./_report.ts";

/** How long each is measured, how many operations run at once, and how often. */
export const STORE_COSTS_SIZES = { ms: 500, concurrent: 256, rounds: 3 };

type Sizes = typeof STORE_COSTS_SIZES;

const COUNTS = [1, 10, 50, 100];

/** Runs the benchmark. */
export async function storeCosts(
  sizes: Sizes = STORE_COSTS_SIZES,
): Promise<Report> {
  await using stack = new AsyncDisposableStack();
  const directory = await Deno.makeTempDir();
  stack.defer(() => Deno.remove(directory, { recursive: true }));
  const figures: Figure[] = [];
  for (const engine of await startEngines(directory, stack)) {
    figures.push(...await measure(engine, sizes));
  }
  return {
    title: `store costs: ${sizes.concurrent} operations at once`,
    figures,
  };
}

async function measure(
  { name, kv, pid }: Engine,
  sizes: Sizes,
): Promise<Figure[]> {
  const store = await openStore(kv, silentLog);
  const figures: Figure[] = [];
  for (const count of COUNTS.filter((count) => count <= store.maxChecks)) {
    const operations = {
      commit: () => commit(store, newKeys(count)),
      read: () => store.getMany(newKeys(count)),
    };
    for (const [kind, operate] of Object.entries(operations)) {
      const rounds: Cost[] = [];
      for (let round = 0; round < sizes.rounds; round++) {
        rounds.push(await costOf(operate, sizes, pid));
      }
      figures.push(
        figure(
          `${name}: a ${kind} of ${count}`,
          "µs",
          rounds.map(({ us }) => us),
        ),
      );
      const cpu = rounds.flatMap(({ serverUs }) => serverUs ?? []);
      if (cpu.length > 0) {
        figures.push(
          figure(
            `${name}: a ${kind} of ${count}, CPU of the server`,
            "µs",
            cpu,
          ),
        );
      }
    }
  }
  store.close();
  return figures;
}

let clients = 0;

function newKeys(count: number): Key[] {
  return Array.from({ length: count }, () => {
    const client = clients++;
    return windowKey(
      `10.${client >> 16 & 255}.${client >> 8 & 255}.${client & 255}`,
    );
  });
}

async function commit(store: Store, keys: readonly Key[]): Promise<void> {
  const value = [Date.now()];
  const version = await store.commit(
    keys.map((key) => ({ key, version: null })),
    keys.map((key) => ({ key, value })),
  );
  if (version === undefined) {
    throw new Error("Cannot measure a commit: expected no conflict");
  }
}

/** What one operation takes. */
interface Cost {
  readonly us: number;
  /** CPU time of the server. */
  readonly serverUs: number | undefined;
}

async function costOf(
  operate: () => Promise<unknown>,
  { ms, concurrent }: Sizes,
  pid: number | undefined,
): Promise<Cost> {
  const cpuUs = async () =>
    pid === undefined ? NaN : (await readUsage(pid)).cpuUs;
  const cpuBefore = await cpuUs();
  const startedAt = performance.now();
  let count = 0;
  const worker = async () => {
    while (performance.now() - startedAt < ms) {
      await operate();
      count++;
    }
  };
  await Promise.all(Array.from({ length: concurrent }, worker));
  const us = (performance.now() - startedAt) / count * 1_000;
  return {
    us,
    serverUs: pid === undefined
      ? undefined
      : (await cpuUs() - cpuBefore) / count,
  };
}
