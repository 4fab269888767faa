import { type Clock, every } from "../clock.ts";
import { type Log, logTaskError } from "../log.ts";
import { heartbeatFrame, openingFrame } from "./frame.ts";
import type { Frame, Tail } from "./tail.ts";

/** Settings of {@linkcode Hub}. */
export interface HubOptions {
  clock: Clock;
  log: Log;
  /** From 0 to below 1. */
  random: () => number;
  /** How many streams may be open at once. */
  maxStreams: number;
  /** After which time a stream ends, so that a peer that vanished without a word is noticed. */
  maxStreamAgeMs: number;
}

/** A stream's place in the log. It has no queue: what its client has not read yet is in the log. */
interface Subscriber {
  readonly controller: ReadableStreamDefaultController<Uint8Array>;
  /** The id of the last event that was handed over. */
  cursor: number;
  /** When the next heartbeat is due. */
  heartbeatAt: number;
  readonly endsAt: number;
}

/** Middleboxes drop connections that are silent for 30 to 60 s. */
const HEARTBEAT_MS = 15_000;
const TICK_MS = 1_000;
/** What a stream is given at once when it catches up. */
const CHUNK_BYTES = 64 << 10;
/** Different for each stream, so that a restart brings no herd. */
const RETRY_MS = [2_000, 8_000] as const;
const BUSY_RETRY_MS = [5_000, 30_000] as const;

/** Why a stream is refused that depends on what only the store knows. */
export const STORE_UNAVAILABLE = "the store does not answer yet";

/** All open streams, and what wakes them. */
export class Hub {
  readonly #tail: Tail;
  readonly #options: HubOptions;
  readonly #subscribers = new Set<Subscriber>();
  /** Those whose client waits for what comes next: they have been told everything. */
  #waiting = new Set<Subscriber>();
  readonly #stopTicking: () => void;
  #isClosing = false;

  constructor(tail: Tail, options: HubOptions) {
    this.#tail = tail;
    this.#options = options;
    this.#stopTicking = every(TICK_MS, () => this.#tick(), {
      clock: options.clock,
      onError: logTaskError(options.log, "streams"),
    });
  }

  /** How many streams are open. */
  get size(): number {
    return this.#subscribers.size;
  }

  /**
   * Opens a stream.
   *
   * @param cursor The id of the last event the client has; without one it wants what comes from now on, and with `"state"`
   * the whole public state first, since what it has is not known.
   */
  subscribe(cursor?: number | "state"): ReadableStream<Uint8Array> {
    const refusal = this.#refusal();
    if (refusal !== undefined) return this.refuse(refusal);
    let subscriber: Subscriber;
    return new ReadableStream<Uint8Array>({
      start: (controller) => void (subscriber = this.#open(controller, cursor)),
      pull: () => this.#pull(subscriber),
      cancel: () => void this.#forget(subscriber),
    }, { highWaterMark: 0 });
  }

  #refusal(): string | undefined {
    if (this.#isClosing) return "this gateway is stopping";
    if (!this.#tail.isLoaded) return STORE_UNAVAILABLE;
    return this.size >= this.#options.maxStreams ? "all streams are taken" : undefined;
  }

  /**
   * A stream that ends at once. Any status but 200 would end an `EventSource` for good; this one comes back (HTML standard
   * §9.2.3).
   */
  refuse(reason: string): ReadableStream<Uint8Array> {
    const comment = `${reason}; come back`;
    return ReadableStream.from([encoder.encode(openingFrame({ retryMs: this.#between(BUSY_RETRY_MS), comment }))]);
  }

  #open(controller: Subscriber["controller"], wanted: number | "state" | undefined): Subscriber {
    const { clock, random, maxStreamAgeMs } = this.#options;
    const cursor = typeof wanted === "number" ? wanted : this.#tail.head;
    const endsAt = clock.now() + maxStreamAgeMs * (0.8 + 0.2 * random());
    const subscriber = { controller, cursor, heartbeatAt: this.#heartbeatAt(), endsAt };
    this.#subscribers.add(subscriber);
    controller.enqueue(encoder.encode(this.#opening(subscriber, wanted)));
    if (wanted === "state") { for (const { bytes } of this.#tail.state) controller.enqueue(bytes); }
    return subscriber;
  }

  /** The id is where the client stands, not where the log does: else one that is cut off here would miss what is between. */
  #opening({ cursor }: Subscriber, wanted: number | "state" | undefined): string {
    const retryMs = this.#between(RETRY_MS);
    if (wanted !== "state") return openingFrame({ retryMs, comment: "connected", id: cursor });
    return openingFrame({ retryMs, comment: "the id is not one of ours; here is the whole public state" });
  }

  #pull(subscriber: Subscriber): Promise<void> | void {
    if (subscriber.cursor < this.#tail.oldestInMemory) return this.#catchUp(subscriber);
    const frames = this.#tail.cached(subscriber.cursor, CHUNK_BYTES);
    if (frames.length === 0) this.#waiting.add(subscriber);
    else this.#send(subscriber, frames, joined(frames));
  }

  async #catchUp(subscriber: Subscriber): Promise<void> {
    try {
      const frames = await this.#tail.readFromStore(subscriber.cursor, CHUNK_BYTES);
      if (!this.#subscribers.has(subscriber)) return; // closed in the meantime
      if (frames.length > 0) return this.#send(subscriber, frames, joined(frames));
      subscriber.cursor = this.#tail.oldestInMemory; // nothing between the cursor and what is at hand
      return await this.#pull(subscriber);
    } catch {
      this.#end(subscriber); // the store does not answer, as the log says already; the client comes back with its cursor
    }
  }

  /** Hands new events to those who wait for them; the others find them when they read on. */
  deliver(frames: readonly Frame[]): void {
    const waiting = this.#waiting;
    this.#waiting = new Set();
    const chunk = joined(frames);
    for (const subscriber of waiting) this.#send(subscriber, frames, chunk);
  }

  #send(subscriber: Subscriber, frames: readonly Frame[], chunk: Uint8Array): void {
    subscriber.cursor = frames.at(-1)?.id ?? subscriber.cursor;
    subscriber.heartbeatAt = this.#heartbeatAt();
    subscriber.controller.enqueue(chunk);
  }

  #tick(): void {
    const now = this.#options.clock.now();
    const heartbeat = encoder.encode(heartbeatFrame(this.#tail.head));
    for (const subscriber of this.#subscribers) {
      if (now >= subscriber.endsAt) this.#end(subscriber);
      else if (now >= subscriber.heartbeatAt && this.#waiting.delete(subscriber)) this.#send(subscriber, [], heartbeat);
    }
  }

  /** A little different each time, so that not all streams of one broadcast are due at once. */
  #heartbeatAt(): number {
    return this.#options.clock.now() + HEARTBEAT_MS * (0.8 + 0.2 * this.#options.random());
  }

  #between([least, most]: readonly [number, number]): number {
    return Math.round(least + (most - least) * this.#options.random());
  }

  #end(subscriber: Subscriber): void {
    if (this.#forget(subscriber)) subscriber.controller.close();
  }

  #forget(subscriber: Subscriber): boolean {
    this.#waiting.delete(subscriber);
    return this.#subscribers.delete(subscriber);
  }

  /** Opens no more streams and ends those that are open, spread over a time, so that their clients do not come back as one. */
  async close(drainMs: number): Promise<void> {
    this.#isClosing = true;
    const open = [...this.#subscribers];
    await Promise.all(open.map((subscriber, index) => this.#endAfter(drainMs * index / open.length, subscriber)));
    this.#stopTicking();
  }

  #endAfter(ms: number, subscriber: Subscriber): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        this.#end(subscriber);
        resolve();
      };
      if (ms === 0) end();
      else this.#options.clock.after(ms, end);
    });
  }
}

const encoder = new TextEncoder();

/** One chunk of many frames; of a single one, itself: all streams share it. */
function joined(frames: readonly Frame[]): Uint8Array {
  const [first] = frames;
  if (first !== undefined && frames.length === 1) return first.bytes;
  const chunk = new Uint8Array(frames.reduce((sum, { bytes }) => sum + bytes.length, 0));
  let at = 0;
  for (const { bytes } of frames) {
    chunk.set(bytes, at);
    at += bytes.length;
  }
  return chunk;
}
