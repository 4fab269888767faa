import { Problem } from "./problem.ts";
import {
  type ByteRange,
  isLarge,
  isShared,
  isStreamed,
  type Representation,
  send,
  type SendRequest,
  type StreamedBody,
} from "./send.ts";
import { ClientLimits, type CountedClient } from "./client_limits.ts";
import type { Budget } from "../values/budget.ts";
import type { Clock } from "../values/clock.ts";
import type { Log } from "../observe/log.ts";
import { BrokenBodyError } from "./broken_body.ts";

/** The reasons for which the upstream makes a proxied request or response fail. */
export const UPSTREAM_FAILURES = [
  "timeout",
  "unreachable",
  "broken_body",
] as const;

/** One of {@linkcode UPSTREAM_FAILURES}. */
export type UpstreamFailure = (typeof UPSTREAM_FAILURES)[number];

/** How long a response waits for its client to read. */
const MAX_WAIT_MS = 60_000;

/** Options of {@linkcode Transfers}. */
interface TransfersOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** How many may be in flight in total. One client may use half of them. */
  readonly maxTransfers: number;
  /** What all gateways of the process may have in flight. @default {no further limit} */
  readonly shared?: Budget | undefined;
}

/**
 * Limits what clients can keep in flight by not sending or not reading: bodies of requests, proxied requests, and
 * responses that are read from the disk or are large. `Deno.serve` limits neither their number nor their duration, and
 * one HTTP/2 connection can carry up to 200.
 */
export class Transfers {
  /** Requests whose body is being received. They are transfers as well. */
  readonly uploads = new InFlight();
  /** Open WebSockets, which are transfers as well. */
  readonly webSockets = new InFlight();
  readonly #clock: Clock;
  readonly #limits: ClientLimits<"max_transfers">;
  readonly #inFlight = new InFlight();

  constructor({ clock, log, maxTransfers, shared }: TransfersOptions) {
    this.#clock = clock;
    this.#limits = new ClientLimits({
      clock,
      log,
      event: "rep.transfers.rejected",
      name: "max_transfers",
      max: maxTransfers,
      maxPerClient: Math.ceil(maxTransfers / 2),
      shared,
    });
  }

  /**
   * Begins a transfer to a client.
   *
   * @throws {Problem} 429 if the client has too many of them, 503 if there are too many in total.
   */
  begin(client: CountedClient): Transfer {
    const limit = this.#limits.rejection(client);
    if (limit !== undefined) throw tooMany(limit);
    const removeInFlight = this.#inFlight.add();
    this.#limits.add(client.clientKey);
    return new Transfer(this.#clock, () => {
      removeInFlight();
      this.#limits.remove(client.clientKey);
    });
  }

  /**
   * Sends a representation. If its body is large or not in memory, the response is a transfer.
   *
   * @throws {Problem} As {@linkcode begin} and {@linkcode send}.
   */
  sendCounted(
    request: SendRequest,
    representation: Representation,
    client: CountedClient,
  ): Promise<Response> {
    const { body } = representation;
    if (isShared(body) || (!isStreamed(body) && !isLarge(body))) {
      return send(request, representation);
    }
    const counted: StreamedBody = {
      length: body.length,
      read: (range) => this.#read(body, range, client),
      cancel: () => isStreamed(body) && body.cancel(),
    };
    return send(request, { ...representation, body: counted });
  }

  async #read(
    body: StreamedBody | Uint8Array<ArrayBuffer>,
    range: ByteRange | undefined,
    client: CountedClient,
  ): Promise<ReadableStream<Uint8Array>> {
    const transfer = this.begin(client);
    try {
      const reader = await readerOf(body, range);
      return transferBody(reader, transfer);
    } catch (error) {
      transfer.end();
      throw error;
    }
  }

  /** How many requests are in flight, without WebSockets. */
  get requests(): number {
    return this.#inFlight.count - this.webSockets.count;
  }

  /** Resolves when no transfer is in flight. */
  idle(): Promise<void> {
    return this.#inFlight.idle();
  }

  /** Resolves when no body of a request is being received and no WebSocket is open. */
  async incomingIdle(): Promise<void> {
    while (this.uploads.count + this.webSockets.count > 0) {
      await this.uploads.idle();
      await this.webSockets.idle();
    }
  }

  /** Logs the rejections that were counted and not logged yet. */
  close(): void {
    this.#limits.close();
  }
}

/** A body of a request that is being received, or a response that is awaited or being sent. */
export class Transfer {
  /** Called when the transfer has ended. The code that began it may set it. */
  onEnd: () => void = () => {};
  readonly #clock: Clock;
  readonly #release: () => void;
  #cancelTimer = () => {};
  #hasEnded = false;

  constructor(clock: Clock, release: () => void) {
    this.#clock = clock;
    this.#release = release;
  }

  /**
   * Starts waiting for the client to read.
   *
   * @param cancel Called if the client does not read for a minute. It has to end the body.
   */
  waits(cancel: () => void): void {
    this.#cancelTimer();
    if (this.#hasEnded) return;
    this.#cancelTimer = this.#clock.after(MAX_WAIT_MS, cancel, true);
  }

  /** Stops waiting, because the client reads again. */
  reads(): void {
    this.#cancelTimer();
  }

  /** Ends the transfer, because the response was sent or cancelled. Only the first call has an effect. */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#cancelTimer();
    this.#release();
    this.onEnd();
  }
}

/** Reads the chunks of a body. */
export type BodyReader = Pick<
  ReadableStreamDefaultReader<Uint8Array>,
  "read" | "cancel"
>;

/** How many bytes of a large body are copied at once for each client. */
const PART_BYTES = 64 << 10;

/** Returns a reader for a body, or for a range of it. */
async function readerOf(
  body: StreamedBody | Uint8Array<ArrayBuffer>,
  range: ByteRange | undefined,
): Promise<BodyReader> {
  if (!isStreamed(body)) {
    return readParts(body.subarray(range?.start, range?.end));
  }
  const stream = await body.read(range) ?? new Blob([]).stream();
  return stream.getReader();
}

function readParts(bytes: Uint8Array<ArrayBuffer>): BodyReader {
  let position = 0;
  return {
    read() {
      const value = bytes.subarray(position, position + PART_BYTES);
      position += PART_BYTES;
      const part = value.length > 0
        ? { done: false as const, value }
        : { done: true as const };
      return Promise.resolve(part);
    },
    cancel: () => Promise.resolve(),
  };
}

/** Returns a body that tells its transfer when the client does not read, and when the body has ended. */
export function transferBody(
  reader: BodyReader,
  transfer: Transfer,
): ReadableStream<Uint8Array> {
  async function pull(
    controller: ReadableStreamDefaultController<Uint8Array>,
  ): Promise<void> {
    transfer.reads();
    try {
      const { done, value } = await reader.read();
      if (!done) {
        controller.enqueue(value);
        return transfer.waits(giveUp);
      }
    } catch (error) {
      transfer.end();
      throw error;
    }
    transfer.end();
    controller.close();

    function giveUp(): void {
      transfer.end();
      controller.error(
        new BrokenBodyError("The client has not read for a minute"),
      );
      void reader.cancel().catch(() => {}); // it rejects if the body has already failed
    }
  }
  async function cancel(reason: unknown): Promise<void> {
    transfer.end();
    await reader.cancel(reason);
  }
  return new ReadableStream({ pull, cancel }, { highWaterMark: 0 });
}

/** Counts what is in flight, and resolves a promise when nothing is. */
export class InFlight {
  #count = 0;
  #idle: PromiseWithResolvers<void> | undefined;

  /** How many there are. */
  get count(): number {
    return this.#count;
  }

  /** Adds one, and returns a function that removes it. Only the first call of the function has an effect. */
  add(): () => void {
    this.#count += 1;
    let isRemoved = false;
    return () => {
      if (isRemoved) return;
      isRemoved = true;
      this.#count -= 1;
      if (this.#count > 0) return;
      this.#idle?.resolve();
      this.#idle = undefined;
    };
  }

  /** Resolves when nothing is in flight. */
  idle(): Promise<void> {
    if (this.#count === 0) return Promise.resolve();
    this.#idle ??= Promise.withResolvers();
    return this.#idle.promise;
  }
}

function tooMany(limit: "max_transfers" | "max_transfers_per_client"): Problem {
  const isOfClient = limit === "max_transfers_per_client";
  const whose = isOfClient ? " of this client" : "";
  return new Problem(isOfClient ? 429 : 503, {
    detail: `Too many requests${whose} are in flight`,
    headers: { "retry-after": "1" },
  });
}
