/**
 * The rows of event streams: how soon a change has reached all of them, and what a stream costs to open and to keep
 * open.
 *
 *     deno task bench streams --streams 5000 --events 10 --rounds 5
 *
 * The command, in a process that is new in every round, beside its floor: a bare `Deno.serve` that sends the same
 * bytes to the same number of streams. A change is a new value in the env file and a SIGHUP; the time ends with the
 * last delivery to a bare connection of this process. Memory and CPU are those of the process, from `/proc`.
 */
import { quantile } from "./_report.ts";
import { alternate, type BySubject, mapSubjects, type Row } from "./_row.ts";
import { createSite, type Site } from "./_site.ts";
import { startBareStreams, startGateway } from "./_http_subjects.ts";
import { startGoGateway } from "./_go_gateway.ts";
import { Mercure } from "./_mercure.ts";
import type { BenchContext } from "./_programs.ts";
import { StreamReaders } from "./_stream_readers.ts";
import type { SubjectProcess } from "./_subject_process.ts";

/** The sizes of the benchmark. */
export const STREAM_SIZES = { streams: 5_000, events: 10, rounds: 5 };

/** A server with streams. */
interface StreamServer {
  readonly process: SubjectProcess;
  readonly path: string;
  /** Makes it send an event to all streams. */
  publish(): Promise<void>;
}

/** What one round measured on one server. */
interface StreamCost {
  /** From the command to publish to the last delivery: the median of the events. */
  readonly lastMs: number;
  readonly openUs: number;
  readonly kib: number;
}

/** Runs the benchmark. */
export async function streamRows(
  sizes: typeof STREAM_SIZES,
  { peers }: BenchContext,
): Promise<Row[]> {
  const { goGateway, mercure } = peers;
  const starts: BySubject<(site: Site) => Promise<StreamServer>> = {
    gateway: startWithStreams,
    floor: startFloor,
    ...goGateway !== undefined &&
      { "Go gateway": (site: Site) => startGo(goGateway, site) },
    ...mercure !== undefined &&
      { mercure: (site: Site) => startMercure(mercure, site) },
  };
  const costs = await alternate(
    sizes.rounds,
    mapSubjects(starts, (start) => () => measureStreams(start, sizes)),
  );
  const rounds = (value: (cost: StreamCost) => number) =>
    mapSubjects(costs, (all) => all.map(value));
  const streams = sizes.streams.toLocaleString("en");
  return [
    {
      name: "last_delivery",
      work: `1 event to ${streams} streams, last delivery`,
      unit: "ms",
      rounds: rounds((it) => it.lastMs),
    },
    {
      name: "stream_open",
      work: "CPU to open a stream",
      unit: "µs",
      rounds: rounds(({ openUs }) => openUs),
    },
    {
      name: "stream_memory",
      work: "memory per idle stream",
      unit: "KiB",
      rounds: rounds(({ kib }) => kib),
    },
  ];
}

/** Opens the streams of a new process, and sends events to all of them. */
export async function measureStreams(
  start: (site: Site) => Promise<StreamServer>,
  { streams, events }: typeof STREAM_SIZES,
): Promise<StreamCost> {
  await using site = await createSite();
  const { process, path, publish } = await start(site);
  await using _process = process;
  const before = await process.usage();
  const readers = await StreamReaders.open(process.port, streams, path);
  const after = await process.usage();
  const lastMs: number[] = [];
  for (let event = 0; event < events; event++) {
    const delivered = readers.nextEvent();
    const startedAt = performance.now();
    await publish();
    await delivered;
    lastMs.push(performance.now() - startedAt);
  }
  await readers.close();
  return {
    lastMs: quantile(lastMs, 0.5),
    openUs: (after.cpuUs - before.cpuUs) / streams,
    kib: (after.rss - before.rss) / 1_024 / streams,
  };
}

/** Starts the command, as the others of this benchmark with a site to serve. */
export async function startWithStreams(site: Site): Promise<StreamServer> {
  const limits = [
    "--max-streams",
    "100000",
    "--max-streams-per-client",
    "100000",
  ];
  const args = [
    "--hot-reload",
    "--static-dir",
    site.directory,
    "--kv",
    ":memory:",
    ...limits,
  ];
  const process = await startGateway(site, args);
  return {
    process,
    path: CHANGES_PATH,
    publish: changeVariable(site, process),
  };
}

async function startGo(program: string, site: Site): Promise<StreamServer> {
  const process = await startGoGateway(program, site);
  return {
    process,
    path: CHANGES_PATH,
    publish: changeVariable(site, process),
  };
}

async function startFloor(): Promise<StreamServer> {
  const process = await startBareStreams();
  return {
    process,
    path: CHANGES_PATH,
    publish: () => Promise.resolve(process.reload()),
  };
}

async function startMercure(
  program: string,
  site: Site,
): Promise<StreamServer> {
  const mercure = await Mercure.start(program, site.root);
  return {
    process: mercure.process,
    path: Mercure.PATH,
    publish: () => mercure.publish(),
  };
}

const CHANGES_PATH = "/rep/changes";

/** Returns a function that writes another value into the env file and sends SIGHUP. */
function changeVariable(
  { envFile }: Site,
  process: SubjectProcess,
): () => Promise<void> {
  let count = 0;
  return async () => {
    await Deno.writeTextFile(envFile, `REP_PUBLIC_A=value ${++count}\n`);
    process.reload();
  };
}
