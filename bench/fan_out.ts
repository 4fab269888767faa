/**
 * How fast one process delivers a change to all its streams, and what a stream costs.
 *
 *     deno task bench fan_out --streams 5000 --events 50 --rounds 5
 *
 * A gateway in a process of its own, read by this one over 127.0.0.1, beside its floor: a bare `Deno.serve` that
 * enqueues the same bytes to the same number of streams. Rounds of the two alternate, so that other load on the machine
 * affects both; ratios are taken round by round. Times are measured here, from the command to publish to the last byte.
 */
import { figure, quantile, type Report } from "./_report.ts";
import { ServerProcess } from "./_server_process.ts";
import { StreamReaders } from "./_stream_readers.ts";

/** The sizes of the benchmark. */
export const FAN_OUT_SIZES = { streams: 1_000, events: 50, rounds: 5 };

/** The results of one round on one server. */
interface Round {
  /** From the command to publish to the last delivery, for each event. */
  readonly lastMs: readonly number[];
  readonly cpuUsPerDelivery: number;
}

/** What opening one stream takes. */
interface StreamCost {
  readonly kib: number;
  readonly openUs: number;
}

/** Runs the benchmark. */
export async function fanOut(
  { streams, events, rounds } = FAN_OUT_SIZES,
): Promise<Report> {
  await using gateway = await Subject.start("gateway", streams);
  await using bare = await Subject.start("bare", streams);
  for (const subject of [gateway, bare]) await subject.round(3); // warm-up
  const each = Math.max(1, Math.ceil(events / rounds));
  const ours: Round[] = [];
  const floor: Round[] = [];
  for (let round = 0; round < rounds; round++) {
    ours.push(await gateway.round(each));
    floor.push(await bare.round(each));
  }
  const rate = ({ lastMs }: Round) => streams / quantile(lastMs, 0.5) * 1_000;
  const ratios = (of: (round: Round) => number) =>
    ours.map((it, index) => of(it) / of(floor[index] ?? it));
  return {
    title: `fan-out: ${streams} streams, ${
      each * rounds
    } events in ${rounds} rounds`,
    figures: [
      figure(
        "last delivery p50, gateway",
        "ms",
        ours.map(({ lastMs }) => quantile(lastMs, 0.5)),
      ),
      figure(
        "last delivery p50, floor",
        "ms",
        floor.map(({ lastMs }) => quantile(lastMs, 0.5)),
      ),
      figure("last delivery p99, gateway", "ms", [
        quantile(ours.flatMap(({ lastMs }) => lastMs), 0.99),
      ]),
      figure("last delivery p99, floor", "ms", [
        quantile(floor.flatMap(({ lastMs }) => lastMs), 0.99),
      ]),
      figure(
        "last delivery p50, gateway / floor",
        "",
        ratios(({ lastMs }) => quantile(lastMs, 0.5)),
      ),
      figure("deliveries per second, gateway", "", ours.map(rate)),
      figure(
        "CPU per delivery, gateway",
        "µs",
        ours.map(({ cpuUsPerDelivery }) => cpuUsPerDelivery),
      ),
      figure(
        "CPU per delivery, gateway / floor",
        "",
        ratios(({ cpuUsPerDelivery }) => cpuUsPerDelivery),
      ),
      figure("CPU per opened stream, gateway", "µs", [gateway.cost.openUs]),
      figure("CPU per opened stream, gateway / floor", "", [
        gateway.cost.openUs / bare.cost.openUs,
      ]),
      figure("memory per stream, gateway", "KiB", [gateway.cost.kib]),
      figure("memory per stream, floor", "KiB", [bare.cost.kib]),
    ],
  };
}

/** A server with all its streams open. */
class Subject implements AsyncDisposable {
  readonly cost: StreamCost;
  readonly #server: ServerProcess;
  readonly #streams: StreamReaders;

  private constructor(
    server: ServerProcess,
    streams: StreamReaders,
    cost: StreamCost,
  ) {
    this.#server = server;
    this.#streams = streams;
    this.cost = cost;
  }

  static async start(
    kind: "gateway" | "bare",
    count: number,
  ): Promise<Subject> {
    const server = await ServerProcess.start(kind);
    const before = await server.usage();
    const streams = await StreamReaders.open(server.port, count);
    const after = await server.usage();
    const cost = {
      kib: (after.rss - before.rss) / 1_024 / count,
      openUs: (after.cpuUs - before.cpuUs) / count,
    };
    return new Subject(server, streams, cost);
  }

  /** Publishes events one after the other. */
  async round(events: number): Promise<Round> {
    const { cpuUs } = await this.#server.usage();
    const lastMs: number[] = [];
    for (let event = 0; event < events; event++) {
      const delivered = this.#streams.nextEvent();
      const start = performance.now();
      await this.#server.publish();
      await delivered;
      lastMs.push(performance.now() - start);
    }
    const used = (await this.#server.usage()).cpuUs - cpuUs;
    return { lastMs, cpuUsPerDelivery: used / events / this.#streams.count };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#streams.close();
    await this.#server.close();
  }
}
