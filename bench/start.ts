/**
 * The rows of a start: how long it takes until the first response, and how much memory the process has then.
 *
 *     deno task bench start --rounds 10
 *
 * It compares the command with a directory of static files and a store in memory, the same without a directory, and the
 * smallest `Deno.serve` program. The time is that of the whole process, from outside, with all modules in Deno's cache;
 * the memory is that half a second after the first response.
 */
import { delay } from "@std/async/delay";
import { alternate, mapSubjects, type Row } from "./_row.ts";
import { startGateway, startHello } from "./_servers.ts";
import { createSite } from "./_site.ts";
import type { SubjectProcess } from "./_subject_process.ts";

/** The sizes of the benchmark. */
export const START_SIZES = { rounds: 10 };

/** What one start took. */
interface StartCost {
  readonly ms: number;
  readonly mib: number;
}

/** When the work of a start is over. */
const SETTLED_MS = 500;

/** Runs the benchmark. */
export async function startRows(
  { rounds }: typeof START_SIZES,
): Promise<Row[]> {
  await using site = await createSite();
  const memory = ["--kv", ":memory:"];
  const directory = ["--static-dir", site.directory];
  const measures = {
    gateway: () => measureStart(startGateway(site, [...directory, ...memory])),
    "no directory": () => measureStart(startGateway(site, memory)),
    floor: () => measureStart(startHello()),
  };
  await alternate(1, measures); // the modules and the program are not in the caches yet
  const costs = await alternate(rounds, measures);
  return [
    {
      name: "start",
      work: "start to first response",
      unit: "ms",
      rounds: mapSubjects(costs, (all) => all.map(({ ms }) => ms)),
    },
    {
      name: "idle_memory",
      work: "idle memory",
      unit: "MiB",
      rounds: mapSubjects(costs, (all) => all.map(({ mib }) => mib)),
    },
  ];
}

async function measureStart(
  started: Promise<SubjectProcess>,
): Promise<StartCost> {
  await using process = await started;
  await delay(SETTLED_MS);
  const { rss } = await process.usage();
  return { ms: process.startMs, mib: rss / (1 << 20) };
}
