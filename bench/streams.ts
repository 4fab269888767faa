/**
 * The rows of event streams: how soon a change has reached all of them, and what a stream costs.
 *
 *     deno task bench streams --streams 5000 --events 10 --rounds 5
 *
 * It compares the command, in a new process in every round, with its floor: a bare `Deno.serve` that sends the same
 * bytes to the same number of streams. A change is a new value in the env file and a SIGHUP; the time ends with the
 * last delivery to a bare connection of this process. Memory and CPU are those of the process, from `/proc`.
 */
import { startGoGateway } from "./_go_gateway.ts";
import { quantile } from "./_report.ts";
import { alternate, type BySubject, mapSubjects, type Row } from "./_row.ts";
import { startBareStreams, startGateway } from "./_servers.ts";
import { changeVariable, createSite, type Site } from "./_site.ts";
import { StreamReaders } from "./_stream_readers.ts";
import type { SubjectProcess } from "./_subject_process.ts";

/** The sizes of the benchmark. */
export const STREAM_SIZES = { streams: 5_000, events: 10, rounds: 5 };

/** What one round measured on one server. */
interface StreamCost {
  /** From the command to publish to the last delivery: the median of the events. */
  readonly lastMs: number;
  /** CPU time of a delivery. */
  readonly deliveryUs: number;
  /** CPU time of a stream that is opened. */
  readonly openUs: number;
  /** Memory of an open stream. */
  readonly kib: number;
}

/** Runs the benchmark. */
export async function streamRows(sizes: typeof STREAM_SIZES): Promise<Row[]> {
  await using site = await createSite();
  const measures: Record<string, () => Promise<StreamCost>> = {
    gateway: async () =>
      await measureStreams(await startWithStreams(site), site, sizes),
    floor: async () =>
      await measureStreams(await startBareStreams(), site, sizes),
  };
  if (Deno.env.get("BENCH_GO_GATEWAY")) {
    measures["Go gateway"] = async () =>
      await measureStreams((await startGoGateway(site))!, site, sizes);
  }
  const costs: BySubject<readonly StreamCost[]> = await alternate(
    sizes.rounds,
    measures,
  );
  const streams = sizes.streams.toLocaleString("en");
  return [
    {
      name: "last_delivery",
      work: `1 event to ${streams} streams, last delivery`,
      unit: "ms",
      rounds: mapSubjects(costs, (all) => all.map(({ lastMs }) => lastMs)),
    },
    {
      name: "delivery",
      work: "CPU to deliver an event to a stream",
      unit: "µs",
      rounds: mapSubjects(costs, (all) => all.map((it) => it.deliveryUs)),
    },
    {
      name: "stream_open",
      work: "CPU to open a stream",
      unit: "µs",
      rounds: mapSubjects(costs, (all) => all.map(({ openUs }) => openUs)),
    },
    {
      name: "stream_memory",
      work: "memory per idle stream",
      unit: "KiB",
      rounds: mapSubjects(costs, (all) => all.map(({ kib }) => kib)),
    },
  ];
}

/** Opens the streams of a new process, sends events to all of them, and ends it. */
async function measureStreams(
  server: SubjectProcess,
  site: Site,
  { streams, events }: typeof STREAM_SIZES,
): Promise<StreamCost> {
  await using process = server;
  const before = await process.usage();
  const readers = await StreamReaders.open(process.port, streams);
  const opened = await process.usage();
  const lastMs: number[] = [];
  for (let event = 0; event < events; event++) {
    const delivered = readers.nextEvent();
    const startedAt = performance.now();
    await changeVariable(site);
    process.reload();
    await delivered;
    lastMs.push(performance.now() - startedAt);
  }
  const after = await process.usage();
  await readers.close();
  return {
    lastMs: quantile(lastMs, 0.5),
    deliveryUs: (after.cpuUs - opened.cpuUs) / events / streams,
    openUs: (opened.cpuUs - before.cpuUs) / streams,
    kib: (opened.rss - before.rss) / 1_024 / streams,
  };
}

/** Starts the command with as many streams as one client wants. */
export async function startWithStreams(site: Site): Promise<SubjectProcess> {
  const max = "100000";
  const limits = ["--max-streams", max, "--max-streams-per-client", max];
  const store = ["--kv", ":memory:"];
  return await startGateway(site, ["--hot-reload", ...store, ...limits]);
}
