/**
 * More pages than a process has room for: pages without a stream poll, by the `retry:` that they are told.
 *
 *     deno task bench polls --streams 5000 --polls 95000
 *     deno task bench polls --streams 50 --polls 950 --speed 100
 *
 * How soon a change has reached all of them, and what they cost, compared with a process with the streams alone; then
 * the CPU time of a response. A change is a new value in the env file and a SIGHUP. The pages are bare connections of
 * this process; the ones that poll come through a trusted proxy. With `--speed 100` they ask again after a hundredth of
 * the time that they are told, so that a hundredth of the pages load the process as much.
 */
import { delay } from "@std/async/delay";
import { load } from "./_load.ts";
import { PollClients } from "./_poll_clients.ts";
import { figure, quantile, type Report } from "./_report.ts";
import { startGateway } from "./_servers.ts";
import { ASSET_PATH, changeVariable, createSite, type Site } from "./_site.ts";
import { StreamReaders } from "./_stream_readers.ts";
import type { SubjectProcess } from "./_subject_process.ts";

/** The sizes of the benchmark. */
export const POLL_SIZES = {
  streams: 5_000,
  polls: 95_000,
  /** How long CPU and memory are watched before the change. */
  seconds: 30,
  speed: 1,
  /** How long each load of one kind of response takes. */
  loadSeconds: 3,
};

/** The connections of the proxy in front. */
const CONNECTIONS = 64;

/** What was observed of a process with these pages. */
interface Observation {
  /** The seconds until each page had received the change. */
  readonly seconds: readonly number[];
  readonly lastStreamMs: number;
  readonly pollsPerSecond: number;
  /** Of one core. */
  readonly cpuPercent: number;
  /** In MiB, second by second, and at the end. */
  readonly memory: readonly number[];
}

/** Runs the benchmark. */
export async function polls(sizes: typeof POLL_SIZES): Promise<Report> {
  await using site = await createSite();
  const alone = await observe(site, { ...sizes, polls: 0 });
  const both = await observe(site, sizes);
  const [notModified, poll, news] = await measureResponses(
    site,
    sizes.loadSeconds,
  );
  const streams = sizes.streams.toLocaleString("en");
  const one = (name: string, unit: string, value = NaN) =>
    figure(name, unit, [value]);
  return {
    title: `${streams} streams and ${sizes.polls.toLocaleString("en")} polls`,
    figures: [
      one("half of the pages have a change", "s", quantile(both.seconds, 0.5)),
      one("99 % have it", "s", quantile(both.seconds, 0.99)),
      one("all have it", "s", Math.max(...both.seconds.slice(-1))),
      one("the last stream has it", "ms", both.lastStreamMs),
      one("… streams alone", "ms", alone.lastStreamMs),
      one("polls a second", "", both.pollsPerSecond),
      one("CPU, of one core", "%", both.cpuPercent),
      one("… streams alone", "%", alone.cpuPercent),
      figure("memory", "MiB", both.memory),
      figure("… streams alone", "MiB", alone.memory),
      one("CPU of a 304", "µs", notModified),
      one("… of a poll without news", "µs", poll),
      one("poll without news / 304", "", Number(poll) / Number(notModified)),
      one("CPU of a poll with 11 variables", "µs", news),
    ],
  };
}

async function startFull(site: Site, streams: number): Promise<SubjectProcess> {
  const max = String(Math.max(1, streams));
  return await startGateway(site, [
    ...["--hot-reload", "--kv", ":memory:", "--static-dir", site.directory],
    ...["--max-streams", max, "--max-streams-per-client", max],
    ...["--trusted-proxies", "127.0.0.1"],
  ]);
}

/** Opens all pages of a new process, publishes a change, and ends it. */
async function observe(
  site: Site,
  { streams, polls, seconds, speed }: typeof POLL_SIZES,
): Promise<Observation> {
  await using process = await startFull(site, streams);
  const readers = await StreamReaders.open(process.port, streams);
  const clients = await PollClients.start({
    port: process.port,
    clients: polls,
    connections: CONNECTIONS,
    speed,
  });
  await clients.everyoneAsked();

  const memory: number[] = [];
  const noteMemory = async () =>
    void memory.push((await process.usage()).rss / (1 << 20));
  const before = await process.usage();
  const pollsBefore = clients.polls;
  for (let second = 0; second < seconds; second++) {
    await delay(1_000);
    await noteMemory();
  }
  const after = await process.usage();
  const pollsInAll = clients.polls - pollsBefore;

  const streamsHaveIt = readers.nextEvent();
  const pollsHaveIt = clients.nextEvent();
  const changedAt = performance.now();
  await changeVariable(site);
  process.reload();
  await streamsHaveIt;
  const lastStreamMs = performance.now() - changedAt;
  const delays = [
    ...Array<number>(streams).fill(lastStreamMs),
    ...await pollsHaveIt,
  ];
  await noteMemory();
  await clients.close();
  await readers.close();
  return {
    seconds: delays.map((ms) => ms / 1_000),
    lastStreamMs,
    pollsPerSecond: pollsInAll / seconds,
    cpuPercent: (after.cpuUs - before.cpuUs) / 10_000 / seconds,
    memory,
  };
}

/** Returns the CPU time of a 304, and of polls without and with news. */
async function measureResponses(
  site: Site,
  seconds: number,
): Promise<number[]> {
  await using process = await startFull(site, 1);
  const asset = process.url + ASSET_PATH;
  const identity = { "accept-encoding": "identity" };
  const response = await fetch(asset, { headers: identity });
  await response.body?.cancel();
  const etag = response.headers.get("etag") ?? "";
  const changes = `${process.url}/rep/changes?poll`;
  const [, cursor = ""] =
    /^id: (\d+)$/m.exec(await (await fetch(changes)).text()) ?? [];
  const loads = [
    { url: asset, headers: { ...identity, "if-none-match": etag } },
    { url: changes, headers: { "last-event-id": cursor } },
    { url: `${changes}&last_event_id=0` },
  ];
  const costs: number[] = [];
  for (const request of loads) {
    const connections = CONNECTIONS;
    const options = { ...request, connections, seconds, firstClient: 0 };
    await load(options); // the code is not compiled yet
    const before = await process.usage();
    const { requests } = await load(options);
    const after = await process.usage();
    costs.push((after.cpuUs - before.cpuUs) / requests);
  }
  return costs;
}
