/**
 * Loads a gateway for minutes, in four phases, and prints what that costs it:
 *
 *     deno task soak
 *     deno task soak --streams 2000 --minutes 1 --reconnects 1000 --connects 10000 --updates 2000
 *
 * 1. Idle streams: does the memory of the process grow?
 * 2. Clients that reconnect within a second, with the id of an older event: when has the last one caught up?
 * 3. Short-lived streams: is their memory released?
 * 4. Updates while one client does not read: do the others and, later, that client receive every event once?
 *
 * The clients are bare connections in this process. Each of the two processes needs a file descriptor per stream.
 */
import { delay } from "@std/async/delay";
import { EventReader } from "./_event_reader.ts";
import { figure, printReport, quantile, type Report } from "./_report.ts";
import { changeVariable, createSite, type Site } from "./_site.ts";
import { readSizes } from "./_sizes.ts";
import { StreamReaders } from "./_stream_readers.ts";
import { startWithStreams } from "./streams.ts";
import type { SubjectProcess } from "./_subject_process.ts";

/** How much there is to do. */
export const SOAK_SIZES = {
  streams: 10_000,
  minutes: 10,
  reconnects: 5_000,
  connects: 100_000,
  updates: 10_000,
};

/** How many short-lived streams are open at once. */
const SHORT_LIVED = 100;
/** With so many updates, a client that does not read has more to catch up on than its socket buffers hold. */
const VALUE_BYTES = 1_000;
const SAMPLES_PER_MINUTE = 12;

/** Runs all phases. */
export async function soak(
  sizes: typeof SOAK_SIZES = SOAK_SIZES,
): Promise<Report[]> {
  await using site = await createSite();
  await using server = await startWithStreams(site);
  return [
    await idle(server, sizes),
    await reconnect(server, site, sizes.reconnects),
    await comeAndGo(server, sizes.connects),
    await stall(server, site, sizes.updates),
  ];
}

/** Publishes a change; one that follows before it has arrived may take its place. */
async function publish(server: SubjectProcess, site: Site): Promise<void> {
  await changeVariable(site, VALUE_BYTES);
  server.reload();
}

async function idle(
  server: SubjectProcess,
  { streams, minutes }: typeof SOAK_SIZES,
): Promise<Report> {
  const before = await server.usage();
  const readers = await StreamReaders.open(server.port, streams);
  const opened = await server.usage();
  const memory: number[] = [];
  for (let sample = 0; sample <= minutes * SAMPLES_PER_MINUTE; sample++) {
    memory.push((await server.usage()).rss / (1 << 20));
    await delay(60_000 / SAMPLES_PER_MINUTE);
  }
  const after = await server.usage();
  const { ended } = readers;
  await readers.close();
  return {
    title: `${streams} idle streams for ${minutes} min`,
    figures: [
      figure("memory per stream", "KiB", [
        (opened.rss - before.rss) / 1_024 / streams,
      ]),
      figure("memory, all", "MiB", memory),
      figure("memory growth, second half", "MiB", [
        Number(memory.at(-1)) - Number(memory[memory.length >> 1]),
      ]),
      figure("CPU", "%", [
        (after.cpuUs - opened.cpuUs) / 10_000 /
        (minutes * 60 + 60 / SAMPLES_PER_MINUTE),
      ]),
      figure("streams that ended", "", [ended]),
    ],
  };
}

async function reconnect(
  server: SubjectProcess,
  site: Site,
  count: number,
): Promise<Report> {
  const first = await EventReader.open(server.port);
  const cursor = first.cursor;
  for (let update = 0; update < 10; update++) {
    await publish(server, site);
    await first.readEvents(1);
  }
  first.close();
  const start = performance.now();
  const waits = await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      await delay(1_000 * index / count);
      const from = performance.now();
      const client = await EventReader.open(server.port, cursor);
      await client.readEvents(10);
      client.close();
      return performance.now() - from;
    }),
  );
  return {
    title:
      `${count} clients that reconnect within a second and have missed 10 events of ${VALUE_BYTES} bytes`,
    figures: [
      figure("until all have caught up", "ms", [performance.now() - start]),
      figure("one client, p50", "ms", [quantile(waits, 0.5)]),
      figure("one client, p99", "ms", [quantile(waits, 0.99)]),
    ],
  };
}

async function comeAndGo(
  server: SubjectProcess,
  count: number,
): Promise<Report> {
  const warmUp = Math.min(count, 1_000);
  const connectTimes = async (times: number) => {
    for (let done = 0; done < times; done += SHORT_LIVED) {
      const readers = await StreamReaders.open(
        server.port,
        Math.min(SHORT_LIVED, times - done),
      );
      await readers.close();
    }
  };
  await connectTimes(warmUp);
  const before = await server.usage();
  const start = performance.now();
  await connectTimes(count);
  const ms = performance.now() - start;
  const after = await server.usage();
  return {
    title: `${count} connects and disconnects`,
    figures: [
      figure("per second", "", [count / ms * 1_000]),
      figure("CPU each", "µs", [(after.cpuUs - before.cpuUs) / count]),
      figure("memory growth", "MiB", [(after.rss - before.rss) / (1 << 20)]),
    ],
  };
}

async function stall(
  server: SubjectProcess,
  site: Site,
  updates: number,
): Promise<Report> {
  const [stalled, reader] = [
    await EventReader.open(server.port),
    await EventReader.open(server.port),
  ];
  const before = await server.usage();
  const start = performance.now();
  const delays: number[] = [];
  for (let update = 0; update < updates; update++) {
    const from = performance.now();
    await publish(server, site);
    await reader.readEvents(1);
    delays.push(performance.now() - from);
  }
  const ms = performance.now() - start;
  const after = await server.usage();
  await stalled.readEvents(updates);
  stalled.close();
  reader.close();
  return {
    title: `${updates} updates of ${VALUE_BYTES} bytes with one stalled reader`,
    figures: [
      figure("updates per second", "", [updates / ms * 1_000]),
      figure("delivery to another client, p50", "ms", [quantile(delays, 0.5)]),
      figure("delivery to another client, p99", "ms", [quantile(delays, 0.99)]),
      figure("memory growth", "MiB", [(after.rss - before.rss) / (1 << 20)]),
      figure("events lost by the other client", "", [reader.gaps]),
      figure("events lost by the stalled client", "", [stalled.gaps]),
    ],
  };
}

if (import.meta.main) {
  for (const report of await soak(readSizes(Deno.args, SOAK_SIZES))) {
    printReport(report);
  }
}
