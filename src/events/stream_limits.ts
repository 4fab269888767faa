import { RejectionLog, type RejectionLogOptions } from "./rejection_log.ts";

/** The client of a stream. */
export interface StreamClient {
  /** Its address, for the log. */
  readonly address: string;
  /** What its streams are counted by. */
  readonly rateKey: string;
}

/** Options of {@linkcode StreamLimits}. */
export interface StreamLimitsOptions extends RejectionLogOptions {
  /** The maximum number of open streams. */
  maxStreams: number;
  /** The maximum number of open streams of one client, so that it cannot take those of all others. */
  maxStreamsPerClient: number;
}

/** A limit that was reached, as the log and the metrics name it. */
type StreamLimit = "max_streams" | "max_streams_per_client";

/** Counts the open streams, in total and per client, and logs the rejected ones. */
export class StreamLimits {
  readonly #options: StreamLimitsOptions;
  readonly #rejections: RejectionLog;
  /** The number of open streams of each client that has any. */
  readonly #clients = new Map<string, number>();
  #total = 0;

  constructor(options: StreamLimitsOptions) {
    this.#options = options;
    this.#rejections = new RejectionLog(options);
  }

  /** Returns the limit because of which a client cannot have another stream; `undefined` if it can. */
  rejection({ address, rateKey }: StreamClient): StreamLimit | undefined {
    const { maxStreams, maxStreamsPerClient } = this.#options;
    if (this.#countOf(rateKey) >= maxStreamsPerClient) {
      this.#rejections.add(rateKey, { limit: "max_streams_per_client", client_ip: address });
      return "max_streams_per_client";
    }
    if (this.#total < maxStreams) return undefined;
    this.#rejections.add("", { limit: "max_streams" });
    return "max_streams";
  }

  /** Counts a stream that was opened. */
  add(rateKey: string): void {
    this.#total++;
    this.#clients.set(rateKey, this.#countOf(rateKey) + 1);
  }

  /** Counts a stream that has ended. */
  remove(rateKey: string): void {
    this.#total--;
    const count = this.#countOf(rateKey) - 1;
    if (count > 0) this.#clients.set(rateKey, count);
    else this.#clients.delete(rateKey);
  }

  /** Logs the rejections that are due. */
  tick(): void {
    this.#rejections.tick();
  }

  #countOf(rateKey: string): number {
    return this.#clients.get(rateKey) ?? 0;
  }
}
