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
import { type BenchServer, startServer } from "./fan_out.ts";
import { figure, printReport, quantile, type Report } from "./_report.ts";
import { readSizes } from "./_sizes.ts";

/** How much there is to do. */
export const SOAK_SIZES = { streams: 10_000, minutes: 10, reconnects: 5_000, connects: 100_000, updates: 10_000 };

/** More than the listener's backlog would be refused. */
const BATCH = 100;
/** With so many updates, a client that does not read has more to catch up on than its socket buffers hold. */
const VALUE_BYTES = 1_000;
const SAMPLES_PER_MINUTE = 12;

/** Runs all phases. */
export async function soak(sizes: typeof SOAK_SIZES = SOAK_SIZES): Promise<Report[]> {
  const server = await startServer("gateway", VALUE_BYTES);
  try {
    return [
      await idle(server, sizes),
      await reconnect(server, sizes.reconnects),
      await comeAndGo(server, sizes.connects),
      await stall(server, sizes.updates),
    ];
  } finally {
    await server.close();
  }
}

async function idle(server: BenchServer, { streams, minutes }: typeof SOAK_SIZES): Promise<Report> {
  const before = await server.usage();
  const clients = await openAll(server.port, streams);
  const opened = await server.usage();
  const readings = clients.map((client) => client.readAll());
  const samples: { minute: number; kb: number }[] = [];
  for (let sample = 0; sample <= minutes * SAMPLES_PER_MINUTE; sample++) {
    samples.push({ minute: sample / SAMPLES_PER_MINUTE, kb: (await server.usage()).rss / 1_024 });
    await sleep(60_000 / SAMPLES_PER_MINUTE);
  }
  const after = await server.usage();
  const ended = clients.filter(({ hasEnded }) => hasEnded).length;
  for (const client of clients) client.close();
  await Promise.all(readings);
  return {
    title: `${streams} idle streams for ${minutes} min`,
    figures: [
      figure("memory per stream", "KiB", [(opened.rss - before.rss) / 1_024 / streams]),
      figure("memory, all", "MiB", samples.map(({ kb }) => kb / 1_024)),
      figure("memory slope, second half", "KiB/min", [slope(samples.slice(samples.length >> 1))]),
      figure("CPU", "%", [(after.cpuUs - opened.cpuUs) / 10_000 / (minutes * 60 + 60 / SAMPLES_PER_MINUTE)]),
      figure("streams that ended", "", [ended]),
    ],
  };
}

/** Returns the slope of the line that fits the samples best. */
function slope(samples: readonly { minute: number; kb: number }[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [x, y] = [mean(samples.map(({ minute }) => minute)), mean(samples.map(({ kb }) => kb))];
  const covariance = mean(samples.map(({ minute, kb }) => (minute - x) * (kb - y)));
  return covariance / mean(samples.map(({ minute }) => (minute - x) ** 2));
}

async function reconnect(server: BenchServer, count: number): Promise<Report> {
  const first = await RawStream.open(server.port);
  const cursor = first.cursor;
  for (let update = 0; update < 10; update++) await server.publish();
  await first.readEvents(10);
  first.close();
  const start = performance.now();
  const waits = await Promise.all(Array.from({ length: count }, async (_, index) => {
    await sleep(1_000 * index / count);
    const from = performance.now();
    const client = await RawStream.open(server.port, cursor);
    await client.readEvents(10);
    client.close();
    return performance.now() - from;
  }));
  return {
    title: `${count} clients that reconnect within a second and have missed 10 events of ${VALUE_BYTES} bytes`,
    figures: [
      figure("until all have caught up", "ms", [performance.now() - start]),
      figure("one client, p50", "ms", [quantile(waits, 0.5)]),
      figure("one client, p99", "ms", [quantile(waits, 0.99)]),
    ],
  };
}

async function comeAndGo(server: BenchServer, count: number): Promise<Report> {
  const warmUp = Math.min(count, 1_000);
  const connectTimes = async (times: number) => {
    for (let done = 0; done < times; done += BATCH) {
      for (const client of await openAll(server.port, Math.min(BATCH, times - done))) client.close();
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

async function stall(server: BenchServer, updates: number): Promise<Report> {
  const [stalled, reader] = [await RawStream.open(server.port), await RawStream.open(server.port)];
  const before = await server.usage();
  const start = performance.now();
  const delays: number[] = [];
  for (let update = 0; update < updates; update++) {
    const from = performance.now();
    await server.publish();
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

async function openAll(port: number, count: number): Promise<RawStream[]> {
  const clients: RawStream[] = [];
  for (let opened = 0; opened < count; opened += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, count - opened) }, () => RawStream.open(port));
    clients.push(...await Promise.all(batch));
  }
  return clients;
}

/** A stream that is read as cheaply as Deno can. */
class RawStream {
  readonly #connection: Deno.TcpConn;
  readonly #buffer = new Uint8Array(16 << 10);
  #text = "";
  /** The id of the opening, or of the last event. */
  cursor = "";
  /** How many times the counter in the values was not the next one. */
  gaps = 0;
  hasEnded = false;
  #counter: number | undefined;

  private constructor(connection: Deno.TcpConn) {
    this.#connection = connection;
  }

  /** Opens a stream, and reads its opening. */
  static async open(port: number, cursor?: string): Promise<RawStream> {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port });
    const stream = new RawStream(connection);
    const header = cursor === undefined ? "" : `Last-Event-ID: ${cursor}\r\n`;
    await connection.write(encoder.encode(`GET /rep/changes HTTP/1.1\r\nHost: localhost\r\n${header}\r\n`));
    const opening = await stream.#readUntil(/id: (\d+)\n\n/);
    stream.cursor = opening[1] ?? "";
    return stream;
  }

  /** Reads events, and checks that each value follows the one before. */
  async readEvents(count: number): Promise<void> {
    for (let read = 0; read < count; read++) {
      const [, value, id] = await this.#readUntil(/"value":"value (\d+)[.]*"\}\nid: (\d+)\n\n/);
      const counter = Number(value);
      if (this.#counter !== undefined && counter !== this.#counter + 1) this.gaps++;
      this.#counter = counter;
      this.cursor = id ?? "";
    }
  }

  /** Reads and discards everything until the connection is closed. */
  async readAll(): Promise<void> {
    try {
      while (await this.#connection.read(this.#buffer) !== null) { /* heartbeats */ }
      this.hasEnded = true;
    } catch {
      // close() interrupts the read.
    }
  }

  close(): void {
    this.#connection.close();
  }

  async #readUntil(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.#text);
      if (match !== null) {
        this.#text = this.#text.slice(match.index + match[0].length);
        return match;
      }
      const length = await this.#connection.read(this.#buffer);
      if (length === null) throw new Error("The stream ended");
      this.#text += decoder.decode(this.#buffer.subarray(0, length));
    }
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("latin1");

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}

if (import.meta.main) { for (const report of await soak(readSizes(Deno.args, SOAK_SIZES))) printReport(report); }
