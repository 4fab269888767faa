import { ClientLimits, type CountedClient } from "../observe/client_limits.ts";
import { type Log, logTaskError } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import { type Clock, every } from "../values/clock.ts";
import { concat } from "../values/chunks.ts";
import {
  STREAM_REJECTIONS,
  type StreamRejection,
} from "./stream_rejections.ts";
import type { Frame, Tail } from "./tail.ts";

/** Options of {@linkcode Hub}. */
export interface HubOptions {
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  log: Log;
  metrics: Metrics;
  /** The maximum number of open streams. */
  maxStreams: number;
  /** The maximum number of open streams of one client. */
  maxStreamsPerClient: number;
  /** When a stream ends, so that a peer that vanished silently does not hold it forever. */
  maxStreamAgeMs: number;
}

/** Where a stream begins. */
export interface Position {
  /** The id of the last event that the client has; `undefined` if that is unknown, so that it gets the whole state. */
  readonly cursor: number | undefined;
  /** Whether it begins with the newest event of each variable that changed after the cursor, and not with every one. */
  readonly skipsOutdated: boolean;
}

type Controller = ReadableStreamDefaultController<Uint8Array>;

/**
 * An open stream. It has no queue: events that its client has not read yet are read from the log when it does. What was
 * sent and not read is in the memory of the server and of the system, which nothing frees before the client reads it or
 * leaves. So a stream that is due to end, but whose client does not read, counts until then: otherwise a client could
 * have any number of them.
 */
interface Subscriber {
  /** The {@linkcode CountedClient.clientKey}. */
  readonly clientKey: string;
  /** The id of the last event that was sent. */
  cursor: number;
  /** Whether outdated events are skipped. It ends when the stream is up to date. */
  skipsOutdated: boolean;
  /** When the next heartbeat is due. */
  heartbeatAt: number;
  /** Until when its client has to read what was sent last. */
  readBy: number;
  /** When it ends. If its client does not read then, it ends when the client reads on. */
  endsAt: number;
  readonly controller: Controller;
  /** Called when the stream has ended. */
  onRemove: (() => void) | undefined;
}

/** A stream reads nothing before its client does. */
const NO_READ_AHEAD: QueuingStrategy<Uint8Array> = { highWaterMark: 0 };

/** The longest silence of a stream; its heartbeat comes up to a fifth earlier. Middleboxes drop it after 30 to 60 s. */
const STREAM_HEARTBEAT_MS = 15_000;
const TICK_MS = 1_000;
/** How long a client may take to read what was sent last. Its cursor says where it goes on if it reconnects. */
const MAX_UNREAD_MS = 60_000;
/** The maximum size of a chunk while a stream catches up. */
const CHUNK_BYTES = 64 << 10;
/** Random for each stream, so that clients do not reconnect all at once after a restart. */
const RETRY_MS = [2_000, 8_000] as const;
const REJECTED_RETRY_MS = [5_000, 30_000] as const;

/** All open streams: sends them events and heartbeats, and ends them. */
export class Hub {
  readonly #tail: Tail;
  readonly #options: HubOptions;
  readonly #subscribers = new Set<Subscriber>();
  readonly #limits: ClientLimits<"max_streams">;
  /** The subscribers that are up to date and whose client waits for the next event. */
  #waiting = new Set<Subscriber>();
  readonly #stopTicking: () => void;
  #isClosing = false;

  constructor(tail: Tail, options: HubOptions) {
    this.#tail = tail;
    this.#options = options;
    const { clock, log, maxStreams: max, maxStreamsPerClient: maxPerClient } =
      options;
    this.#limits = new ClientLimits({
      clock,
      log,
      event: "rep.streams.rejected",
      name: "max_streams",
      max,
      maxPerClient,
    });
    this.#stopTicking = every(TICK_MS, () => this.#tick(), {
      clock,
      onError: logTaskError(log, "streams"),
    });
  }

  /** The number of open streams. */
  get size(): number {
    return this.#subscribers.size;
  }

  /** Opens a stream. */
  subscribe(
    client: CountedClient,
    position: Position,
  ): ReadableStream<Uint8Array> {
    const rejection = this.#rejection(client);
    if (rejection !== undefined) return this.reject(rejection);
    let subscriber: Subscriber;
    const open = (controller: Controller) => {
      subscriber = this.#open(client.clientKey, position, controller);
    };
    const source = {
      start: open,
      pull: () => this.#pull(subscriber),
      cancel: () => void this.#remove(subscriber),
    };
    return new ReadableStream(source, NO_READ_AHEAD);
  }

  #rejection(client: CountedClient): StreamRejection | undefined {
    if (this.#isClosing) return "stopping";
    if (!this.#tail.isLoaded) return "store_unavailable";
    return this.#limits.rejection(client);
  }

  /**
   * Returns a stream that ends immediately. With any status but 200, an `EventSource` would not reconnect (HTML
   * standard §9.2.3).
   */
  reject(reason: StreamRejection): ReadableStream<Uint8Array> {
    this.#options.metrics.count("rep.streams.rejected", 1, reason);
    const comment = `${STREAM_REJECTIONS[reason]}; reconnect later`;
    const retryMs = this.#randomBetween(REJECTED_RETRY_MS);
    return ReadableStream.from([
      encoder.encode(openingFrame({ retryMs, comment, id: undefined })),
    ]);
  }

  #open(
    clientKey: string,
    { cursor, skipsOutdated }: Position,
    controller: Controller,
  ): Subscriber {
    const { clock, random, maxStreamAgeMs } = this.#options;
    const age = maxStreamAgeMs * (0.8 + 0.2 * random());
    const subscriber: Subscriber = {
      clientKey,
      cursor: cursor ?? 0,
      skipsOutdated,
      heartbeatAt: this.#nextHeartbeat(),
      readBy: clock.monotonic() + MAX_UNREAD_MS,
      endsAt: clock.monotonic() + age,
      controller,
      onRemove: undefined,
    };
    this.#subscribers.add(subscriber);
    this.#options.metrics.count("rep.streams.opened", 1);
    this.#limits.add(clientKey);
    controller.enqueue(encoder.encode(this.#opening(cursor)));
    return subscriber;
  }

  /**
   * The id is the client's position, not the log's head: otherwise a client cut off here would miss the events between.
   */
  #opening(cursor: number | undefined): string {
    const comment = cursor === undefined
      ? "unknown event id; sending the full public state"
      : "connected";
    return openingFrame({
      retryMs: this.#randomBetween(RETRY_MS),
      comment,
      id: cursor,
    });
  }

  /**
   * Sends what a client that reads has missed, a chunk a call, or remembers that it waits for the next event. What it has
   * missed comes from the first of these that has anything after its cursor:
   *
   * 1. the public state, while the stream skips outdated events, which it does until its cursor is the newest event;
   * 2. the log in the store, if the cursor is before the oldest event in memory;
   * 3. the events in memory.
   */
  async #pull(subscriber: Subscriber): Promise<void> {
    const tail = this.#tail;
    const now = this.#options.clock.monotonic();
    if (now >= subscriber.endsAt) return this.#end(subscriber);
    subscriber.readBy = now + MAX_UNREAD_MS;
    if (subscriber.skipsOutdated) {
      const newest = tail.newestOfEach(subscriber.cursor, CHUNK_BYTES);
      if (newest.length > 0) return this.#replay(subscriber, newest);
      subscriber.skipsOutdated = false;
    }
    if (subscriber.cursor < tail.oldestInMemory) {
      const isSent = await this.#replayFromStore(subscriber);
      if (isSent) return;
    }
    const frames = tail.cached(subscriber.cursor, CHUNK_BYTES);
    if (frames.length > 0) this.#replay(subscriber, frames);
    else this.#waiting.add(subscriber);
  }

  /** @returns Whether the stream needs nothing else now: it was sent something, or has ended. */
  async #replayFromStore(subscriber: Subscriber): Promise<boolean> {
    const { cursor } = subscriber;
    try {
      const frames = await this.#tail.readFromStore(cursor, CHUNK_BYTES);
      if (!this.#subscribers.has(subscriber)) return true;
      if (frames.length > 0) {
        this.#replay(subscriber, frames);
        return true;
      }
      // The store has no events between the cursor and the cache.
      subscriber.cursor = this.#tail.oldestInMemory;
      return false;
    } catch {
      // The circuit breaker reports a failure of the store; the client reconnects with its cursor.
      this.#end(subscriber);
      return true;
    }
  }

  #replay(subscriber: Subscriber, frames: readonly Frame[]): void {
    this.#options.metrics.count("rep.events.replayed", frames.length);
    this.#send(subscriber, frames, concatenate(frames));
  }

  /** Sends new events to all waiting subscribers. The others get them when they read on. */
  deliver(frames: readonly Frame[]): void {
    const waiting = this.#waiting;
    this.#waiting = new Set();
    const chunk = concatenate(frames);
    for (const subscriber of waiting) this.#send(subscriber, frames, chunk);
    this.#options.metrics.count(
      "rep.events.delivered",
      frames.length * waiting.size,
    );
  }

  #send(
    subscriber: Subscriber,
    frames: readonly Frame[],
    chunk: Uint8Array,
  ): void {
    subscriber.cursor = frames.at(-1)?.id ?? subscriber.cursor;
    subscriber.heartbeatAt = this.#nextHeartbeat();
    subscriber.readBy = this.#options.clock.monotonic() + MAX_UNREAD_MS;
    subscriber.controller.enqueue(chunk);
  }

  /** Called by a timer, where an exception would be uncaught. */
  #tick(): void {
    const now = this.#options.clock.monotonic();
    const heartbeat = encoder.encode(heartbeatFrame(this.#tail.head));
    for (const subscriber of this.#subscribers) {
      if (!this.#waiting.has(subscriber)) this.#checkStalled(subscriber, now);
      else if (now >= subscriber.endsAt) this.#end(subscriber);
      else if (now >= subscriber.heartbeatAt) {
        this.#waiting.delete(subscriber);
        this.#send(subscriber, [], heartbeat);
      }
    }
  }

  #checkStalled(subscriber: Subscriber, now: number): void {
    if (now < subscriber.readBy || now >= subscriber.endsAt) return;
    subscriber.endsAt = now;
    this.#options.metrics.count("rep.streams.stalled", 1);
  }

  /** With jitter, so that the streams that received an event together are not all due together. */
  #nextHeartbeat(): number {
    return this.#options.clock.monotonic() +
      STREAM_HEARTBEAT_MS * (0.8 + 0.2 * this.#options.random());
  }

  #randomBetween([min, max]: readonly [number, number]): number {
    return Math.round(min + (max - min) * this.#options.random());
  }

  #end(subscriber: Subscriber): void {
    if (this.#remove(subscriber)) subscriber.controller.close();
  }

  #remove(subscriber: Subscriber): boolean {
    this.#waiting.delete(subscriber);
    const isOpen = this.#subscribers.delete(subscriber);
    if (isOpen) this.#limits.remove(subscriber.clientKey);
    subscriber.onRemove?.();
    return isOpen;
  }

  /**
   * Rejects new streams and ends the open ones, spread over `drainMs`, so that clients do not reconnect all at once.
   */
  async close(drainMs: number): Promise<void> {
    this.#isClosing = true;
    const open = [...this.#subscribers];
    await Promise.all(
      open.map((subscriber, index) =>
        this.#endAfter(drainMs * index / open.length, subscriber)
      ),
    );
    this.#stopTicking();
    this.#limits.close();
  }

  /** Resolves when the stream has ended, earlier if its client leaves. */
  async #endAfter(ms: number, subscriber: Subscriber): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    subscriber.onRemove = resolve;
    if (ms === 0) return this.#end(subscriber);
    const cancelTimer = this.#options.clock.after(
      ms,
      () => this.#end(subscriber),
    );
    await promise;
    cancelTimer();
  }
}

const encoder = new TextEncoder();

/** Returns one chunk for all frames. A single frame is not copied, since all streams share its bytes. */
function concatenate(frames: readonly Frame[]): Uint8Array {
  return concat(frames.map(({ bytes }) => bytes));
}

/** The fields of {@linkcode openingFrame}. */
interface OpeningFields {
  /** How long the client waits before it reconnects. */
  retryMs: number;
  /** A comment for people who read the stream. */
  comment: string;
  /** The client's new cursor. An id without data sets it and dispatches no event (HTML standard §9.2.6). */
  id: number | undefined;
}

/** Returns the first frame of a stream. */
export function openingFrame({ retryMs, comment, id }: OpeningFields): string {
  return `retry: ${retryMs}\n: ${comment}\n${
    id === undefined ? "" : `id: ${id}\n`
  }\n`;
}

/** Returns a frame that keeps the connection open and sets the client's cursor. */
export function heartbeatFrame(id: number): string {
  return `: heartbeat\nid: ${id}\n\n`;
}
