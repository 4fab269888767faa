import { ClientLimits, type CountedClient } from "../http/client_limits.ts";
import { type Log, logTaskError } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { Budget } from "../values/budget.ts";
import { type Clock, every, sleep } from "../values/clock.ts";
import { concat } from "../values/chunks.ts";
import {
  onceForEachForm,
  STREAM_FORMS,
  type StreamFormName,
} from "./stream_forms.ts";
import {
  STREAM_REJECTIONS,
  type StreamRejection,
} from "./stream_rejections.ts";
import type { Frame, Tail } from "./tail.ts";
import { toUtf8 } from "../values/utf8.ts";

/** Options of {@linkcode Hub}. */
export interface HubOptions {
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  log: Log;
  metrics: Metrics;
  /** The maximum number of open streams. */
  maxStreams: number;
  /** What all gateways of the process may have open. @default {no further limit} */
  streams?: Budget | undefined;
  /** The maximum number of open streams of one client. */
  maxStreamsPerClient: number;
  /** The age at which a stream ends, so that a peer that vanished silently does not hold it forever. */
  maxStreamAgeMs: number;
}

/** Where a stream begins. */
export interface Position {
  /** The id of the last event that the client has received; `undefined` if unknown, so that it gets the whole state. */
  readonly cursor: number | undefined;
  /** Whether it begins with the newest event of each variable that changed after the cursor, instead of every event. */
  readonly skipsOutdated: boolean;
}

/** What a client asks for. */
export interface StreamRequest {
  readonly client: CountedClient;
  readonly position: Position;
  readonly form: StreamFormName;
  /** Whether it is a poll, which ends when the client has received everything. */
  readonly isPoll: boolean;
}

/** The body of a response: a stream, unless all of it is known at once. */
export type StreamBody =
  | ReadableStream<Uint8Array<ArrayBuffer>>
  | Uint8Array<ArrayBuffer>;

type Controller = ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>;

/**
 * An open stream. It has no queue: events are read from the log when its client reads. What was sent but not read takes
 * memory of the server and of the system until the client reads it or leaves. So if the client does not read, its stream
 * counts until then, even after the time at which it should end: otherwise a client could open any number of streams.
 */
interface Subscriber {
  /** The {@linkcode CountedClient.clientKey}. */
  readonly clientKey: string;
  readonly form: StreamFormName;
  /** The id of the last event that was sent. */
  cursor: number;
  /** Whether outdated events are skipped. It ends when the stream is up to date. */
  skipsOutdated: boolean;
  /** When the next heartbeat is due. */
  heartbeatAt: number;
  /** Until when its client has to read what was sent last. */
  readBy: number;
  /** When it ends. If its client does not read at that time, it ends when the client reads again. */
  endsAt: number;
  /** Writes to the stream; `undefined` until that exists. */
  controller: Controller | undefined;
  /** Called when the stream has ended. */
  onRemove: (() => void) | undefined;
}

/** The event of the log for streams and polls that are rejected. */
const REJECTION_EVENT = "rep.streams.rejected";
/** A stream reads nothing before its client does. */
const NO_READ_AHEAD: QueuingStrategy<Uint8Array> = { highWaterMark: 0 };

/**
 * The longest silence of a stream; its heartbeat comes up to a fifth earlier. Middleboxes drop silent connections after
 * 30 to 60 s.
 */
const STREAM_HEARTBEAT_MS = 15_000;
const TICK_MS = 1_000;
/** How long a client may take to read what was sent last. Its cursor says where it goes on if it reconnects. */
const MAX_UNREAD_MS = 60_000;
/** The maximum size of a chunk while a stream catches up, and of what a poll gets. */
const CHUNK_BYTES = 64 << 10;
/** Random for each stream, so that clients do not reconnect all at once after a restart. */
const RETRY_MS = [2_000, 8_000] as const;
const REJECTED_RETRY_MS = [5_000, 30_000] as const;
const POLL_RETRY_MS = [5_000, 10_000] as const;
/** For a poll that has missed more than a chunk, so that it does not take minutes until it has the newest value. */
const UNFINISHED_RETRY_MS = [500, 1_000] as const;
/** Of a poll while there is no room for a stream: every client still gets a change within about a minute. */
const FULL_RETRY_MS = [15_000, 60_000] as const;
/** How many polls may read the store at once, of which one client has half. */
const MAX_READING_POLLS = 100;

/** All open streams: sends them events and heartbeats, and ends them. */
export class Hub {
  readonly #tail: Tail;
  readonly #options: HubOptions;
  readonly #subscribers = new Set<Subscriber>();
  readonly #streams: ClientLimits<"max_streams">;
  readonly #readingPolls: ClientLimits<"max_polls">;
  /** The subscribers that are up to date and whose client waits for the next event. */
  #waiting = new Set<Subscriber>();
  readonly #logError: (error: unknown) => void;
  readonly #stopTicking: () => void;
  #isClosing = false;

  constructor(tail: Tail, options: HubOptions) {
    this.#tail = tail;
    this.#options = options;
    const { clock, log } = options;
    this.#streams = new ClientLimits({
      clock,
      log,
      event: REJECTION_EVENT,
      name: "max_streams",
      max: options.maxStreams,
      maxPerClient: options.maxStreamsPerClient,
      shared: options.streams,
    });
    this.#readingPolls = new ClientLimits({
      clock,
      log,
      event: REJECTION_EVENT,
      name: "max_polls",
      max: MAX_READING_POLLS,
      maxPerClient: MAX_READING_POLLS / 2,
    });
    this.#logError = logTaskError(log, "streams");
    this.#stopTicking = every(TICK_MS, () => this.#tick(), {
      clock,
      onError: this.#logError,
    });
  }

  /** The number of open streams. */
  get size(): number {
    return this.#streams.count;
  }

  /** Opens a stream, once the log has been read. If there is no room for it, the request is treated as a poll. */
  async open(request: StreamRequest): Promise<StreamBody> {
    const { client, position: { cursor }, form, isPoll } = request;
    if (this.#isClosing) return this.reject("stopping", form);
    const limit = isPoll ? undefined : this.#streams.rejection(client);
    if (isPoll || limit !== undefined) return await this.#poll(request, limit);
    this.#options.metrics.count("rep.streams.opened", 1);
    const comment = cursor === undefined
      ? "unknown event id; sending the full public state"
      : "connected";
    const opening = this.#opening(form, comment, RETRY_MS, cursor);
    return this.#stream(request, opening);
  }

  /**
   * Returns a stream that ends immediately. With any status but 200, an `EventSource` would not reconnect (HTML
   * standard §9.2.3).
   */
  reject(reason: StreamRejection, form: StreamFormName): StreamBody {
    this.#options.metrics.count("rep.streams.rejected", 1, reason);
    const isFull = reason.startsWith("max_");
    const retryMs = isFull ? FULL_RETRY_MS : REJECTED_RETRY_MS;
    const comment = reconnectLater(STREAM_REJECTIONS[reason]);
    return this.#opening(form, comment, retryMs, undefined);
  }

  /**
   * Sends a client what it has missed, up to a chunk, and no more. That is an ordinary response, for which nothing stays
   * open. If that is not all, the client soon asks for the rest.
   *
   * @param limit Why it is no stream; `undefined` if the client asked for a poll.
   */
  async #poll(
    { client, position, form }: StreamRequest,
    limit: StreamRejection | undefined,
  ): Promise<StreamBody> {
    const { metrics } = this.#options;
    const { cursor = 0, skipsOutdated } = position;
    const needsStore = !skipsOutdated && cursor < this.#tail.cachedAfter;
    const full = needsStore ? this.#readingPolls.rejection(client) : undefined;
    if (full !== undefined) return this.reject(full, form);
    this.#readingPolls.add(client.clientKey);
    const missed = await this.#missed(position);
    this.#readingPolls.remove(client.clientKey);
    if (missed === undefined) return this.reject("store_unavailable", form);
    metrics.count("rep.streams.polled", 1);
    metrics.count("rep.events.replayed", missed.length);
    if (limit !== undefined) metrics.count("rep.streams.rejected", 1, limit);
    const comment = reconnectLater(limit ? STREAM_REJECTIONS[limit] : "poll");
    const last = missed.at(-1);
    const retryMs = last !== undefined && last.id < this.#tail.head
      ? UNFINISHED_RETRY_MS
      : this.#pollRetryMs(client);
    const opening = this.#opening(form, comment, retryMs, position.cursor);
    if (last === undefined) return opening;
    return concat([opening, STREAM_FORMS[form].events(missed)]);
  }

  #pollRetryMs(client: CountedClient): readonly [number, number] {
    const isFull = this.#streams.limitOf(client) !== undefined;
    return isFull ? FULL_RETRY_MS : POLL_RETRY_MS;
  }

  /** Returns a chunk of what a client has missed; `undefined` if that is in the store, which is unavailable. */
  async #missed(
    { cursor = 0, skipsOutdated }: Position,
  ): Promise<readonly Frame[] | undefined> {
    const tail = this.#tail;
    if (skipsOutdated) return tail.newestOfEach(cursor, CHUNK_BYTES);
    if (cursor >= tail.cachedAfter) return tail.cached(cursor, CHUNK_BYTES);
    try {
      const stored = await tail.readFromStore(cursor, CHUNK_BYTES);
      if (stored.length > 0) return stored;
    } catch {
      return undefined; // the circuit breaker reports it
    }
    return tail.cached(tail.cachedAfter, CHUNK_BYTES);
  }

  /**
   * @param id The client's position, not the log's head: otherwise a client cut off here would miss the events between.
   */
  #opening(
    form: StreamFormName,
    comment: string,
    [minRetryMs, maxRetryMs]: readonly [number, number],
    id: number | undefined,
  ): Uint8Array<ArrayBuffer> {
    const range = maxRetryMs - minRetryMs;
    const retryMs = Math.round(minRetryMs + range * this.#options.random());
    const opening = STREAM_FORMS[form].opening({ retryMs, comment, id });
    return toUtf8(opening);
  }

  #stream(
    request: StreamRequest,
    opening: Uint8Array<ArrayBuffer>,
  ): ReadableStream<Uint8Array<ArrayBuffer>> {
    // The functions of the stream refer neither to the request nor to the opening: they live as long as it does.
    const subscriber = this.#subscribe(request);
    const stream = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start: (controller) => void (subscriber.controller = controller),
      pull: () =>
        this.#pull(subscriber).catch((error) => this.#fail(subscriber, error)),
      cancel: () => void this.#remove(subscriber),
    }, NO_READ_AHEAD);
    subscriber.controller?.enqueue(opening);
    return stream;
  }

  #subscribe(
    { client: { clientKey }, position, form }: StreamRequest,
  ): Subscriber {
    const { clock, random, maxStreamAgeMs } = this.#options;
    const now = clock.monotonic();
    const subscriber: Subscriber = {
      clientKey,
      form,
      cursor: position.cursor ?? 0,
      skipsOutdated: position.skipsOutdated,
      heartbeatAt: this.#nextHeartbeat(now),
      readBy: now + MAX_UNREAD_MS,
      endsAt: now + maxStreamAgeMs * (0.8 + 0.2 * random()),
      controller: undefined,
      onRemove: undefined,
    };
    this.#subscribers.add(subscriber);
    this.#streams.add(clientKey);
    return subscriber;
  }

  /**
   * Sends a client that reads what it has missed, one chunk per call, or remembers that it waits for the next event.
   * The missed events come from the first of these sources that has any after its cursor:
   *
   * 1. the public state, while the stream skips outdated events, which it does until its cursor is the newest event;
   * 2. the log in the store, if memory lacks events after the cursor;
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
    if (subscriber.cursor < tail.cachedAfter) {
      const missed = await this.#missed(subscriber);
      if (!this.#subscribers.has(subscriber)) return;
      if (missed === undefined) return this.#end(subscriber); // the client reconnects with its cursor
      if (missed.length > 0) return this.#replay(subscriber, missed);
      subscriber.cursor = tail.cachedAfter;
    }
    const frames = tail.cached(subscriber.cursor, CHUNK_BYTES);
    if (frames.length > 0) this.#replay(subscriber, frames);
    else this.#waiting.add(subscriber);
  }

  #replay(subscriber: Subscriber, frames: readonly Frame[]): void {
    this.#options.metrics.count("rep.events.replayed", frames.length);
    const chunk = STREAM_FORMS[subscriber.form].events(frames);
    this.#send(subscriber, frames, chunk);
  }

  /** Sends new events to all waiting subscribers. The others get them when they read again. */
  deliver(frames: readonly Frame[]): void {
    const waiting = this.#waiting;
    this.#waiting = new Set();
    const chunkOf = onceForEachForm((form) => form.events(frames));
    for (const subscriber of waiting) {
      this.#guard(subscriber, () => {
        this.#send(subscriber, frames, chunkOf(subscriber.form));
      });
    }
    this.#options.metrics.count(
      "rep.events.delivered",
      frames.length * waiting.size,
    );
  }

  #send(
    subscriber: Subscriber,
    frames: readonly Frame[],
    chunk: Uint8Array<ArrayBuffer>,
  ): void {
    subscriber.cursor = frames.at(-1)?.id ?? subscriber.cursor;
    const now = this.#options.clock.monotonic();
    subscriber.heartbeatAt = this.#nextHeartbeat(now);
    subscriber.readBy = now + MAX_UNREAD_MS;
    subscriber.controller?.enqueue(chunk);
  }

  #tick(): void {
    const now = this.#options.clock.monotonic();
    const { head } = this.#tail;
    const heartbeatOf = onceForEachForm((form) => toUtf8(form.heartbeat(head)));
    for (const subscriber of this.#subscribers) {
      this.#guard(subscriber, () => {
        if (!this.#waiting.has(subscriber)) this.#checkStalled(subscriber, now);
        else if (now >= subscriber.endsAt) this.#end(subscriber);
        else if (now >= subscriber.heartbeatAt) {
          this.#waiting.delete(subscriber);
          this.#send(subscriber, [], heartbeatOf(subscriber.form));
        }
      });
    }
  }

  #checkStalled(subscriber: Subscriber, now: number): void {
    if (now < subscriber.readBy || now >= subscriber.endsAt) return;
    subscriber.endsAt = now;
    this.#options.metrics.count("rep.streams.stalled", 1);
  }

  /** With jitter, so that streams that received an event together are not due together. */
  #nextHeartbeat(now: number): number {
    return now + STREAM_HEARTBEAT_MS * (0.8 + 0.2 * this.#options.random());
  }

  /** Does something with one of several streams. If that fails, only this stream ends. */
  #guard(subscriber: Subscriber, step: () => void): void {
    try {
      step();
    } catch (error) {
      this.#fail(subscriber, error);
    }
  }

  /** Ends a stream because of an unexpected error; the client reconnects with its cursor. */
  #fail(subscriber: Subscriber, error: unknown): void {
    this.#logError(error);
    this.#remove(subscriber);
    subscriber.controller?.error(error);
  }

  #end(subscriber: Subscriber): void {
    if (this.#remove(subscriber)) subscriber.controller?.close();
  }

  #remove(subscriber: Subscriber): boolean {
    this.#waiting.delete(subscriber);
    const isOpen = this.#subscribers.delete(subscriber);
    if (isOpen) this.#streams.remove(subscriber.clientKey);
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
    this.#streams.close();
    this.#readingPolls.close();
  }

  /** Resolves when the stream has ended, earlier if its client leaves. */
  async #endAfter(ms: number, subscriber: Subscriber): Promise<void> {
    const { clock } = this.#options;
    const removed = new AbortController();
    subscriber.onRemove = () => removed.abort();
    if (ms > 0) await sleep(ms, clock, { signal: removed.signal });
    this.#guard(subscriber, () => this.#end(subscriber));
  }
}

function reconnectLater(reason: string): string {
  return `${reason}; reconnect later`;
}
