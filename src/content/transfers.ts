import { Problem } from "../http/problem.ts";
import { ClientLimits, type CountedClient } from "../observe/client_limits.ts";
import type { Clock } from "../values/clock.ts";
import type { Log } from "../observe/log.ts";
import { BrokenBodyError } from "./broken_body.ts";

/** Requests that are in flight. WebSockets are not counted. */
export interface RequestCounts {
  /** Requests whose body is being received. */
  readonly uploads: number;
  /** All requests: the uploads, and those whose response is awaited or being sent. */
  readonly all: number;
}

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
}

/**
 * Limits the responses that hold a file descriptor while they are sent: those that are read from the disk, and those of
 * the upstream. `Deno.serve` limits neither their number nor their duration, and one HTTP/2 connection can carry up to 200.
 */
export class Transfers {
  readonly #clock: Clock;
  readonly #limits: ClientLimits<"max_transfers">;
  readonly #inFlight = new InFlight();

  constructor({ clock, log, maxTransfers }: TransfersOptions) {
    this.#clock = clock;
    this.#limits = new ClientLimits({
      clock,
      log,
      event: "rep.transfers.rejected",
      name: "max_transfers",
      max: maxTransfers,
      maxPerClient: Math.ceil(maxTransfers / 2),
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

  /** The number of transfers in flight. */
  get count(): number {
    return this.#inFlight.count;
  }

  /** Resolves when no transfer is in flight. */
  idle(): Promise<void> {
    return this.#inFlight.idle();
  }

  /** Logs the rejections that were counted and not logged yet. */
  close(): void {
    this.#limits.close();
  }
}

/** A response that is being sent. */
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
  ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>,
  "read" | "cancel"
>;

/** Returns a body that tells its transfer when the client does not read, and when the body has ended. */
export function transferBody(
  reader: BodyReader,
  transfer: Transfer,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  async function pull(
    controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>,
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
      void reader.cancel();
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
  const whose = isOfClient ? " to this client" : "";
  return new Problem(isOfClient ? 429 : 503, {
    detail: `Too many responses are being sent${whose}`,
    headers: { "retry-after": "1" },
  });
}
