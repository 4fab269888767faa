import { type Clock, every } from "../clock.ts";
import { type Log, logTaskError } from "../log.ts";
import { type Metrics, noMetrics } from "../metrics/metrics.ts";
import { heartbeatFrame, openingFrame } from "./frame.ts";
import type { Frame, Tail } from "./tail.ts";

/** Options of {@linkcode Hub}. */
interface HubOptions {
  clock: Clock;
  /** Returns a number from 0 to below 1. */
  random: () => number;
  log: Log;
  /** @default {noMetrics} */
  metrics?: Metrics;
  /** The maximum number of open streams. */
  maxStreams: number;
  /** When a stream ends, so that a peer that vanished silently does not hold it forever. */
  maxStreamAgeMs: number;
}

/** An open stream. It has no queue: events that its client has not read yet are read from the log when it does. */
interface Subscriber {
  readonly controller: ReadableStreamDefaultController<Uint8Array>;
  /** The id of the last event that was sent. */
  cursor: number;
  /** When the next heartbeat is due. */
  heartbeatAt: number;
  readonly endsAt: number;
}

/** Middleboxes drop connections that are silent for 30 to 60 s. */
const HEARTBEAT_MS = 15_000;
const TICK_MS = 1_000;
/** The maximum size of a chunk while a stream catches up. */
const CHUNK_BYTES = 64 << 10;
/** Random for each stream, so that clients do not reconnect all at once after a restart. */
const RETRY_MS = [2_000, 8_000] as const;
const BUSY_RETRY_MS = [5_000, 30_000] as const;

/** Why a stream is refused, and what its client is told. */
const REFUSALS = {
  stopping: "the gateway is stopping",
  store_unavailable: "the store is unavailable",
  too_many: "too many open streams",
} as const;

/** All open streams: sends them events and heartbeats, and ends them. */
export class Hub {
  readonly #tail: Tail;
  readonly #options: HubOptions;
  readonly #metrics: Metrics;
  readonly #subscribers = new Set<Subscriber>();
  /** The subscribers that are up to date and whose client waits for the next event. */
  #waiting = new Set<Subscriber>();
  readonly #stopTicking: () => void;
  #isClosing = false;

  constructor(tail: Tail, options: HubOptions) {
    this.#tail = tail;
    this.#options = options;
    this.#metrics = options.metrics ?? noMetrics;
    this.#stopTicking = every(TICK_MS, () => this.#tick(), {
      clock: options.clock,
      onError: logTaskError(options.log, "streams"),
    });
  }

  /** The number of open streams. */
  get size(): number {
    return this.#subscribers.size;
  }

  /**
   * Opens a stream.
   *
   * @param cursor The id of the last event that the client has. `"state"` stands for an unknown position: the stream
   * begins with the full public state. Without a cursor, the stream begins with the next event.
   */
  subscribe(cursor?: number | "state"): ReadableStream<Uint8Array> {
    const refusal = this.#refusal();
    if (refusal !== undefined) return this.refuse(refusal);
    let subscriber: Subscriber;
    return new ReadableStream<Uint8Array>({
      start: (controller) => void (subscriber = this.#open(controller, cursor)),
      pull: () => this.#pull(subscriber),
      cancel: () => void this.#remove(subscriber),
    }, { highWaterMark: 0 });
  }

  #refusal(): keyof typeof REFUSALS | undefined {
    if (this.#isClosing) return "stopping";
    if (!this.#tail.isLoaded) return "store_unavailable";
    return this.size >= this.#options.maxStreams ? "too_many" : undefined;
  }

  /**
   * Returns a stream that ends immediately. With any status but 200, an `EventSource` would not reconnect (HTML
   * standard §9.2.3).
   */
  refuse(reason: keyof typeof REFUSALS): ReadableStream<Uint8Array> {
    this.#metrics.count("rep.streams.refused", 1, reason);
    const comment = `${REFUSALS[reason]}; reconnect later`;
    const retryMs = this.#randomBetween(BUSY_RETRY_MS);
    return ReadableStream.from([encoder.encode(openingFrame({ retryMs, comment }))]);
  }

  #open(controller: Subscriber["controller"], from: number | "state" | undefined): Subscriber {
    const { clock, random, maxStreamAgeMs } = this.#options;
    const cursor = typeof from === "number" ? from : this.#tail.head;
    const endsAt = clock.now() + maxStreamAgeMs * (0.8 + 0.2 * random());
    const subscriber = { controller, cursor, heartbeatAt: this.#nextHeartbeat(), endsAt };
    this.#subscribers.add(subscriber);
    this.#metrics.count("rep.streams.opened", 1);
    controller.enqueue(encoder.encode(this.#opening(subscriber, from)));
    if (from === "state") this.#sendState(controller);
    return subscriber;
  }

  #sendState(controller: Subscriber["controller"]): void {
    const { state } = this.#tail;
    for (const { bytes } of state) controller.enqueue(bytes);
    this.#metrics.count("rep.events.replayed", state.length);
  }

  /**
   * The id is the client's position, not the log's head: otherwise a client cut off here would miss the events between.
   */
  #opening({ cursor }: Subscriber, from: number | "state" | undefined): string {
    const retryMs = this.#randomBetween(RETRY_MS);
    if (from !== "state") return openingFrame({ retryMs, comment: "connected", id: cursor });
    return openingFrame({ retryMs, comment: "unknown event id; sending the full public state" });
  }

  #pull(subscriber: Subscriber): Promise<void> | void {
    if (subscriber.cursor < this.#tail.oldestInMemory) return this.#catchUp(subscriber);
    const frames = this.#tail.cached(subscriber.cursor, CHUNK_BYTES);
    if (frames.length === 0) this.#waiting.add(subscriber);
    else this.#replay(subscriber, frames);
  }

  async #catchUp(subscriber: Subscriber): Promise<void> {
    try {
      const frames = await this.#tail.readFromStore(subscriber.cursor, CHUNK_BYTES);
      if (!this.#subscribers.has(subscriber)) return; // closed in the meantime
      if (frames.length > 0) return this.#replay(subscriber, frames);
      subscriber.cursor = this.#tail.oldestInMemory; // the store has no events between the cursor and the cache
      return await this.#pull(subscriber);
    } catch {
      this.#end(subscriber); // the circuit breaker reports a store failure; the client reconnects with its cursor
    }
  }

  #replay(subscriber: Subscriber, frames: readonly Frame[]): void {
    this.#metrics.count("rep.events.replayed", frames.length);
    this.#send(subscriber, frames, concatenate(frames));
  }

  /** Sends new events to all waiting subscribers. The others get them when they read on. */
  deliver(frames: readonly Frame[]): void {
    const waiting = this.#waiting;
    this.#waiting = new Set();
    const chunk = concatenate(frames);
    for (const subscriber of waiting) this.#send(subscriber, frames, chunk);
    this.#metrics.count("rep.events.delivered", frames.length * waiting.size);
  }

  #send(subscriber: Subscriber, frames: readonly Frame[], chunk: Uint8Array): void {
    subscriber.cursor = frames.at(-1)?.id ?? subscriber.cursor;
    subscriber.heartbeatAt = this.#nextHeartbeat();
    subscriber.controller.enqueue(chunk);
  }

  /** Called by a timer, where an exception would be uncaught. */
  #tick(): void {
    const now = this.#options.clock.now();
    const heartbeat = encoder.encode(heartbeatFrame(this.#tail.head));
    for (const subscriber of this.#subscribers) {
      if (now >= subscriber.endsAt) this.#end(subscriber);
      else if (now >= subscriber.heartbeatAt && this.#waiting.delete(subscriber)) this.#send(subscriber, [], heartbeat);
    }
  }

  /** With jitter, so that the streams that received an event together are not all due together. */
  #nextHeartbeat(): number {
    return this.#options.clock.now() + HEARTBEAT_MS * (0.8 + 0.2 * this.#options.random());
  }

  #randomBetween([min, max]: readonly [number, number]): number {
    return Math.round(min + (max - min) * this.#options.random());
  }

  #end(subscriber: Subscriber): void {
    if (this.#remove(subscriber)) subscriber.controller.close();
  }

  #remove(subscriber: Subscriber): boolean {
    this.#waiting.delete(subscriber);
    return this.#subscribers.delete(subscriber);
  }

  /**
   * Refuses new streams and ends the open ones, spread over `drainMs`, so that clients do not reconnect all at once.
   */
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

/** Returns one chunk for all frames. A single frame is not copied, since all streams share its bytes. */
function concatenate(frames: readonly Frame[]): Uint8Array {
  const [first] = frames;
  if (first !== undefined && frames.length === 1) return first.bytes;
  const chunk = new Uint8Array(frames.reduce((sum, { bytes }) => sum + bytes.length, 0));
  let offset = 0;
  for (const { bytes } of frames) {
    chunk.set(bytes, offset);
    offset += bytes.length;
  }
  return chunk;
}
