/**
 * The rows of a start: how long it takes until the first response, and how much memory the process has then.
 *
 *     deno task bench start --rounds 10
 *
 * The command with a directory of static files and a store in memory, beside the same without a directory, and the
 * smallest `Deno.serve` program. The time is that of the whole process, from outside, with all modules in Deno's cache;
 * the memory is that half a second after the first response.
 */
import { delay } from "@std/async/delay";
import { startGoGateway } from "./_go_gateway.ts";
import { startDeno, startGateway } from "./_http_subjects.ts";
import type { BenchContext } from "./_programs.ts";
import { alternate, type BySubject, mapSubjects, type Row } from "./_row.ts";
import { createSite } from "./_site.ts";
import { findFreePort } from "../tools/free_port.ts";
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
  { peers }: BenchContext,
): Promise<Row[]> {
  await using site = await createSite();
  const { goGateway } = peers;
  const starts: BySubject<() => Promise<SubjectProcess>> = {
    gateway: () =>
      startGateway(site, ["--static-dir", site.directory, "--kv", ":memory:"]),
    "no directory": () => startGateway(site, ["--kv", ":memory:"]),
    floor: startHello,
    ...goGateway !== undefined &&
      { "Go gateway": () => startGoGateway(goGateway, site) },
  };
  const measures = mapSubjects(starts, (start) => () => measureStart(start));
  await alternate(1, measures); // the modules and the program are not in the caches yet
  const costs = await alternate(rounds, measures);
  const of = (value: (cost: StartCost) => number) =>
    mapSubjects(costs, (all) => all.map(value));
  return [
    {
      name: "start",
      work: "start to first response",
      unit: "ms",
      rounds: of(({ ms }) => ms),
    },
    {
      name: "idle_memory",
      work: "idle memory",
      unit: "MiB",
      rounds: of(({ mib }) => mib),
    },
  ];
}

async function measureStart(
  start: () => Promise<SubjectProcess>,
): Promise<StartCost> {
  await using process = await start();
  await delay(SETTLED_MS);
  return { ms: process.startMs, mib: (await process.usage()).rss / (1 << 20) };
}

function startHello(): Promise<SubjectProcess> {
  const port = findFreePort();
  return startDeno("bench/_hello_server.ts", [String(port)], {
    port,
    readyPath: "/",
  });
}
