import type { Log, LogFields } from "../observe/log.ts";
import { RejectionLog } from "../observe/rejection_log.ts";
import type { Clock } from "../values/clock.ts";

/** The client of a stream. */
export interface StreamClient {
  /** Its address, for the log. */
  readonly address: string;
  /** What its streams are counted under. */
  readonly clientKey: string;
}

/** Options of {@linkcode StreamLimits}. */
export interface StreamLimitsOptions {
  clock: Clock;
  log: Log;
  /** The maximum number of open streams. */
  maxStreams: number;
  /** The maximum number of open streams of one client, so that it cannot take those of all others. */
  maxStreamsPerClient: number;
}

/** A limit that was reached, as the log and the metrics name it. */
type StreamLimit = "max_streams" | "max_streams_per_client";

const REJECTED = "rep.streams.rejected";
/** Under which the rejections of a full gateway are counted, whoever the client is. No client has this key. */
const ANY_CLIENT = "";

/** Counts the open streams, in total and per client, and logs the rejected ones. */
export class StreamLimits {
  readonly #options: StreamLimitsOptions;
  readonly #rejections: RejectionLog;
  /** The number of open streams of each client that has any. */
  readonly #clients = new Map<string, number>();
  #total = 0;

  constructor(options: StreamLimitsOptions) {
    this.#options = options;
    const { clock, log } = options;
    this.#rejections = new RejectionLog({ clock, log, summaryEvent: REJECTED, summaryFields: limitOf });
  }

  /** Returns the limit because of which a client cannot have another stream; `undefined` if it can. */
  rejection({ address, clientKey }: StreamClient): StreamLimit | undefined {
    const { maxStreams, maxStreamsPerClient } = this.#options;
    if (this.#countOf(clientKey) >= maxStreamsPerClient) {
      this.#report(clientKey, address);
      return "max_streams_per_client";
    }
    if (this.#total < maxStreams) return undefined;
    this.#report(ANY_CLIENT);
    return "max_streams";
  }

  /** Counts a stream that was opened. */
  add(clientKey: string): void {
    this.#total++;
    this.#clients.set(clientKey, this.#countOf(clientKey) + 1);
  }

  /** Counts a stream that has ended. */
  remove(clientKey: string): void {
    this.#total--;
    const count = this.#countOf(clientKey) - 1;
    if (count > 0) this.#clients.set(clientKey, count);
    else this.#clients.delete(clientKey);
  }

  /** Logs the rejections that have only been counted so far. */
  close(): void {
    this.#rejections.close();
  }

  #report(key: string, address = key): void {
    const fields = { ...limitOf(address), rejected: 1 };
    this.#rejections.report({ key, reason: "rejected", event: REJECTED, fields });
  }

  #countOf(clientKey: string): number {
    return this.#clients.get(clientKey) ?? 0;
  }
}

/** Returns the fields of a line of the log: which limit rejected the streams, and whose. */
function limitOf(client: string): LogFields {
  return client === ANY_CLIENT ? { limit: "max_streams" } : { limit: "max_streams_per_client", client_ip: client };
}
