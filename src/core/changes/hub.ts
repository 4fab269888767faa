import { concat } from "@std/bytes/concat";
import { ClientLimits, type CountedClient } from "../http/client_limits.ts";
import { type Log, logTaskError } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { Budget } from "../values/budget.ts";
import { type Clock, every, sleep } from "../values/clock.ts";
import {
  CHUNK_BYTES,
  cursorAt,
  type Position,
  type Progress,
  progressAt,
  readMissed,
} from "./position.ts";
import {
  buildMessage,
  onceForEachForm,
  openStreamForm,
  type RetryMs,
  STREAM_FORMS,
  type StreamFormName,
} from "./stream_forms.ts";
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

/** The build of a client's page. */
export interface PageBuild {
  readonly id: string;
  /** The build that it is told of; `undefined` for none yet. */
  readonly replacement: string | undefined;
}

/** What a client asks for. */
export interface StreamRequest {
  readonly client: CountedClient;
  readonly position: Position;
  readonly form: StreamFormName;
  /** @default {the client does not ask for other builds} */
  readonly build?: PageBuild | undefined;
}

type Controller = ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>;

/**
 * An open stream. It has no queue: events are read from the log when its client reads. What was sent but not read takes
 * memory of the server and of the system until the client reads it or leaves. So if the client does not read, its stream
 * counts until then, even after the time at which it should end: otherwise a client could open any number of streams.
 */
interface Subscriber extends Progress {
  /** The {@linkcode CountedClient.clientKey}. */
  readonly clientKey: string;
  readonly form: StreamFormName;
  build: PageBuild | undefined;
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
export const REJECTION_EVENT = "rep.streams.rejected";
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
/** Random for each stream, so that clients do not reconnect all at once after a restart. */
const RETRY_MS: RetryMs = [2_000, 8_000];

/** All open streams: sends them events and heartbeats, and ends them. */
export class Hub {
  /** Counts the open streams. */
  readonly limits: ClientLimits<"max_streams">;
  /** Whether no stream is opened any more. */
  isClosing = false;
  readonly #tail: Tail;
  readonly #options: HubOptions;
  readonly #subscribers = new Set<Subscriber>();
  /** The subscribers that are up to date and whose client waits for the next event. */
  #idle = new Set<Subscriber>();
  readonly #logError: (error: unknown) => void;
  readonly #stopTicking: () => void;

  constructor(tail: Tail, options: HubOptions) {
    this.#tail = tail;
    this.#options = options;
    const { clock, log } = options;
    this.limits = new ClientLimits({
      clock,
      log,
      event: REJECTION_EVENT,
      name: "max_streams",
      max: options.maxStreams,
      maxPerClient: options.maxStreamsPerClient,
      shared: options.streams,
    });
    this.#logError = logTaskError(log, "streams");
    this.#stopTicking = every(TICK_MS, () => this.#tick(), {
      clock,
      onError: this.#logError,
    });
  }

  /** The number of open streams. */
  get size(): number {
    return this.limits.count;
  }

  /** Opens a stream, once the log has been read and there is room for it. */
  open(request: StreamRequest): ReadableStream<Uint8Array<ArrayBuffer>> {
    const { metrics, random } = this.#options;
    metrics.count("rep.streams.opened", 1);
    const id = cursorAt(request.position);
    const comment = id === undefined
      ? "unknown event id; sending the full public state"
      : "connected";
    const fields = { retryMs: RETRY_MS, comment, id };
    const opening = openStreamForm(request.form, fields, random);
    return this.#stream(request, concat([opening, buildNews(request)]));
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
    { client: { clientKey }, position, form, build }: StreamRequest,
  ): Subscriber {
    const { clock, random, maxStreamAgeMs } = this.#options;
    const { cursor, skipsOutdated } = progressAt(position);
    const now = clock.monotonic();
    const subscriber: Subscriber = {
      clientKey,
      form,
      build,
      cursor,
      skipsOutdated,
      heartbeatAt: this.#nextHeartbeat(now),
      readBy: now + MAX_UNREAD_MS,
      endsAt: now + maxStreamAgeMs * (0.8 + 0.2 * random()),
      controller: undefined,
      onRemove: undefined,
    };
    this.#subscribers.add(subscriber);
    this.limits.add(clientKey);
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
      const missed = await readMissed(subscriber, tail);
      if (!this.#subscribers.has(subscriber)) return;
      if (missed === undefined) return this.#end(subscriber); // the client reconnects with its cursor
      if (missed.length > 0) return this.#replay(subscriber, missed);
      subscriber.cursor = tail.cachedAfter;
    }
    const frames = tail.cached(subscriber.cursor, CHUNK_BYTES);
    if (frames.length > 0) this.#replay(subscriber, frames);
    else this.#idle.add(subscriber);
  }

  #replay(subscriber: Subscriber, frames: readonly Frame[]): void {
    this.#options.metrics.count("rep.events.replayed", frames.length);
    const chunk = STREAM_FORMS[subscriber.form].events(frames);
    this.#send(subscriber, frames, chunk);
  }

  /** Sends new events to all waiting subscribers. The others get them when they read again. */
  deliver(frames: readonly Frame[]): void {
    const waiting = this.#idle;
    this.#idle = new Set();
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

  /**
   * Tells the pages whose build no process delivers any more, if their client waits for the next event. The others are
   * told at the next call.
   */
  tellBuilds(replacementOf: (build: string) => string | undefined): void {
    for (const subscriber of [...this.#idle]) {
      const { id, replacement: told } = subscriber.build ?? {};
      const replacement = id === undefined ? undefined : replacementOf(id);
      if (id === undefined || replacement === undefined) continue;
      if (replacement === told) continue;
      this.#guard(subscriber, () => {
        subscriber.build = { id, replacement };
        this.#idle.delete(subscriber);
        const message = buildMessage(replacement, subscriber.cursor);
        this.#send(subscriber, [], toUtf8(message));
      });
    }
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
        if (!this.#idle.has(subscriber)) this.#noteStalled(subscriber, now);
        else if (now >= subscriber.endsAt) this.#end(subscriber);
        else if (now >= subscriber.heartbeatAt) {
          this.#idle.delete(subscriber);
          this.#send(subscriber, [], heartbeatOf(subscriber.form));
        }
      });
    }
  }

  /** Its stream ends when the client reads again. */
  #noteStalled(subscriber: Subscriber, now: number): void {
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
    this.#idle.delete(subscriber);
    const isOpen = this.#subscribers.delete(subscriber);
    if (isOpen) this.limits.remove(subscriber.clientKey);
    subscriber.onRemove?.();
    return isOpen;
  }

  /**
   * Rejects new streams and ends the open ones, spread over `drainMs`, so that clients do not reconnect all at once.
   */
  async close(drainMs: number): Promise<void> {
    this.isClosing = true;
    const open = [...this.#subscribers];
    await Promise.all(
      open.map((subscriber, index) =>
        this.#endAfter(drainMs * index / open.length, subscriber)
      ),
    );
    this.#stopTicking();
    this.limits.close();
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

/** Returns what a client is told of builds when it connects. */
export function buildNews(
  { build, position }: StreamRequest,
): Uint8Array<ArrayBuffer> {
  const { replacement } = build ?? {};
  return toUtf8(
    replacement === undefined
      ? ""
      : buildMessage(replacement, cursorAt(position)),
  );
}
