/**
 * How fast one process tells a change to all its streams, and what a stream costs it.
 *
 *     deno task bench fan_out --streams 5000 --events 50 --rounds 5
 *
 * A gateway in one process, read by this one over 127.0.0.1, beside its floor in the same run: a bare `Deno.serve` that
 * enqueues the same bytes to the same number of streams in a loop. Rounds of both take turns, so that what else the machine
 * does befalls both; ratios are made round by round. Times are taken here, from the command to publish to the last byte.
 */
import { stdFlags } from "../tools/std.ts";
import { TextLineStream } from "../tools/text_lines.ts";
import type { Usage } from "./_fan_out_server.ts";
import { figure, quantile, type Report } from "./_report.ts";

/** How much there is to do. */
export const FAN_OUT_SIZES = { streams: 1_000, events: 50, rounds: 5 };

/** What one round found out about one of the two. */
interface Round {
  /** From the command to publish to the last delivery, one for each event. */
  readonly lastMs: readonly number[];
  readonly cpuUsPerDelivery: number;
}

/** One of the two servers, with all its streams. */
interface Side extends AsyncDisposable {
  readonly kbPerStream: number;
  readonly openUsPerStream: number;
  round(events: number): Promise<Round>;
}

/** Runs the benchmark. */
export async function fanOut({ streams, events, rounds } = FAN_OUT_SIZES): Promise<Report> {
  await using gateway = await startSide("gateway", streams);
  await using bare = await startSide("bare", streams);
  for (const side of [gateway, bare]) await side.round(3); // both warm
  const each = Math.max(1, Math.ceil(events / rounds));
  const ours: Round[] = [];
  const floor: Round[] = [];
  for (let round = 0; round < rounds; round++) {
    ours.push(await gateway.round(each));
    floor.push(await bare.round(each));
  }
  const rate = ({ lastMs }: Round) => streams / quantile(lastMs, 0.5) * 1_000;
  const ratios = (of: (round: Round) => number) => ours.map((it, at) => of(it) / of(floor[at] ?? it));
  return {
    title: `fan-out: ${streams} streams, ${each * rounds} events in ${rounds} rounds`,
    figures: [
      figure("last delivery p50, gateway", "ms", ours.map(({ lastMs }) => quantile(lastMs, 0.5))),
      figure("last delivery p50, floor", "ms", floor.map(({ lastMs }) => quantile(lastMs, 0.5))),
      figure("last delivery p99, gateway", "ms", [quantile(ours.flatMap(({ lastMs }) => lastMs), 0.99)]),
      figure("last delivery p99, floor", "ms", [quantile(floor.flatMap(({ lastMs }) => lastMs), 0.99)]),
      figure("last delivery p50, gateway / floor", "", ratios(({ lastMs }) => quantile(lastMs, 0.5))),
      figure("deliveries per second, gateway", "", ours.map(rate)),
      figure("CPU per delivery, gateway", "µs", ours.map(({ cpuUsPerDelivery }) => cpuUsPerDelivery)),
      figure("CPU per delivery, gateway / floor", "", ratios(({ cpuUsPerDelivery }) => cpuUsPerDelivery)),
      figure("CPU per opened stream, gateway", "µs", [gateway.openUsPerStream]),
      figure("CPU per opened stream, gateway / floor", "", [gateway.openUsPerStream / bare.openUsPerStream]),
      figure("memory per stream, gateway", "KiB", [gateway.kbPerStream]),
      figure("memory per stream, floor", "KiB", [bare.kbPerStream]),
    ],
  };
}

async function startSide(kind: "gateway" | "bare", count: number): Promise<Side> {
  const server = await startServer(kind);
  const before = await server.usage();
  const streams = await openStreams(server.port, count);
  const after = await server.usage();
  return {
    kbPerStream: (after.rss - before.rss) / 1_024 / count,
    openUsPerStream: (after.cpuUs - before.cpuUs) / count,
    async round(events) {
      const { cpuUs } = await server.usage();
      const lastMs: number[] = [];
      for (let event = 0; event < events; event++) {
        const delivered = streams.nextEvent();
        const start = performance.now();
        await server.publish();
        await delivered;
        lastMs.push(performance.now() - start);
      }
      return { lastMs, cpuUsPerDelivery: ((await server.usage()).cpuUs - cpuUs) / events / count };
    },
    async [Symbol.asyncDispose]() {
      await streams.close();
      await server.close();
    },
  };
}

/** A server in a process of its own. */
export interface BenchServer {
  readonly port: number;
  publish(): Promise<void>;
  usage(): Promise<Usage>;
  close(): Promise<void>;
}

/** Starts `_fan_out_server.ts`. */
export async function startServer(kind: "gateway" | "bare", valueBytes = 0): Promise<BenchServer> {
  const args = ["run", "--quiet", ...await stdFlags(), "-A", "bench/_fan_out_server.ts", kind, String(valueBytes)];
  const cwd = new URL("..", import.meta.url);
  const child = new Deno.Command(Deno.execPath(), { args, cwd, stdin: "piped", stdout: "piped" }).spawn();
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream()).getReader();
  const input = child.stdin.getWriter();
  const command = (name: string) => input.write(new TextEncoder().encode(`${name}\n`));

  async function answer<T>(): Promise<T> {
    const { value, done } = await lines.read();
    if (done) throw new Error(`The server "${kind}" ended`);
    return JSON.parse(value);
  }

  const { port } = await answer<{ port: number }>();
  return {
    port,
    publish: () => command("publish"),
    async usage() {
      await command("usage");
      return await answer<Usage>();
    },
    async close() {
      await input.close();
      await child.status;
      await lines.cancel();
    },
  };
}

/** Opened a hundred at a time: more than the listener's backlog would be refused. */
const BATCH = 100;

/** Streams that are read as cheaply as Deno can: bare connections, and no parser. */
async function openStreams(port: number, count: number) {
  const connections: Deno.TcpConn[] = [];
  const loops: Promise<void>[] = [];
  let missing = 0;
  let done = Promise.withResolvers<void>();

  function arrived(): void {
    if (--missing === 0) done.resolve();
  }

  async function read(connection: Deno.TcpConn, onOpen: () => void): Promise<void> {
    const buffer = new Uint8Array(1_024);
    let text = "";
    try {
      for (let length; (length = await connection.read(buffer)) !== null;) {
        text += decoder.decode(buffer.subarray(0, length));
        if (!text.endsWith("\n\n\r\n")) continue; // the end of a message, and of an HTTP chunk
        if (text.startsWith("HTTP/")) onOpen();
        else if (text.includes("event: ")) arrived();
        text = "";
      }
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource || error instanceof Deno.errors.Interrupted)) throw error;
    }
  }

  async function open(): Promise<void> {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port });
    connections.push(connection);
    await connection.write(REQUEST);
    await new Promise<void>((opened) => void loops.push(read(connection, opened)));
  }

  for (let opened = 0; opened < count; opened += BATCH) {
    await Promise.all(Array.from({ length: Math.min(BATCH, count - opened) }, open));
  }
  return {
    /** Resolves when each stream has had one more event. */
    nextEvent(): Promise<void> {
      missing = count;
      done = Promise.withResolvers();
      return done.promise;
    },
    async close() {
      for (const connection of connections) connection.close();
      await Promise.all(loops);
    },
  };
}

const decoder = new TextDecoder("latin1");
const REQUEST = new TextEncoder().encode("GET /rep/changes HTTP/1.1\r\nHost: localhost\r\n\r\n");
