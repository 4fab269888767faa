import { concat } from "@std/bytes/concat";
import { ClientLimits, type CountedClient } from "../http/client_limits.ts";
import {
  buildNews,
  type Hub,
  type HubOptions,
  REJECTION_EVENT,
  type StreamRequest,
} from "./hub.ts";
import { cursorAt, type Position, progressAt, readMissed } from "./position.ts";
import {
  openStreamForm,
  type RetryMs,
  STREAM_FORMS,
  type StreamFormName,
} from "./stream_forms.ts";
import {
  STREAM_REJECTIONS,
  type StreamRejection,
} from "./stream_rejections.ts";
import type { Tail } from "./tail.ts";

const REJECTED_RETRY_MS: RetryMs = [5_000, 30_000];
const POLL_RETRY_MS: RetryMs = [5_000, 10_000];
/** For a poll that has missed more than a chunk, so that it does not take minutes until it has the newest value. */
const UNFINISHED_RETRY_MS: RetryMs = [500, 1_000];
/** Of a poll while there is no room for a stream: every client still gets a change within about a minute. */
const FULL_RETRY_MS: RetryMs = [15_000, 60_000];
/** How many polls may read the store at once, of which one client has half. */
const MAX_READING = 100;

type PollsOptions = Pick<HubOptions, "clock" | "random" | "log" | "metrics">;

/**
 * The streams that end at once: polls, and those that are rejected. With any status but 200, an `EventSource` would not
 * reconnect (HTML standard §9.2.3).
 */
export class Polls {
  readonly #tail: Tail;
  readonly #hub: Hub;
  readonly #options: PollsOptions;
  readonly #reading: ClientLimits<"max_polls">;

  constructor(tail: Tail, hub: Hub, options: PollsOptions) {
    this.#tail = tail;
    this.#hub = hub;
    this.#options = options;
    this.#reading = new ClientLimits({
      clock: options.clock,
      log: options.log,
      event: REJECTION_EVENT,
      name: "max_polls",
      max: MAX_READING,
      maxPerClient: MAX_READING / 2,
    });
  }

  /** Asks a client to reconnect later. */
  reject(
    reason: StreamRejection,
    form: StreamFormName,
  ): Uint8Array<ArrayBuffer> {
    this.#options.metrics.count("rep.streams.rejected", 1, reason);
    const isFull = reason.startsWith("max_");
    const retryMs = isFull ? FULL_RETRY_MS : REJECTED_RETRY_MS;
    return this.#open(form, STREAM_REJECTIONS[reason], retryMs, undefined);
  }

  /**
   * Sends a client what it has missed, up to a chunk, and no more. That is an ordinary response, for which nothing stays
   * open. If that is not all, the client soon asks for the rest.
   *
   * @param limit Why it is no stream; `undefined` if the client asked for a poll.
   */
  async answer(
    request: StreamRequest,
    limit: StreamRejection | undefined,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const { client, position, form } = request;
    const { metrics } = this.#options;
    const tail = this.#tail;
    const progress = progressAt(position);
    const isStored = !progress.skipsOutdated &&
      progress.cursor < tail.cachedAfter;
    const full = isStored ? this.#reading.rejection(client) : undefined;
    if (full !== undefined) return this.reject(full, form);
    this.#reading.add(client.clientKey);
    const missed = await readMissed(progress, tail);
    this.#reading.remove(client.clientKey);
    if (missed === undefined) return this.reject("store_unavailable", form);
    metrics.count("rep.streams.polled", 1);
    metrics.count("rep.events.replayed", missed.length);
    if (limit !== undefined) metrics.count("rep.streams.rejected", 1, limit);
    const reason = limit === undefined ? "poll" : STREAM_REJECTIONS[limit];
    const last = missed.at(-1);
    const retryMs = last !== undefined && last.id < tail.head
      ? UNFINISHED_RETRY_MS
      : this.#retryMs(client);
    const parts = [
      this.#open(form, reason, retryMs, cursorAt(position)),
      buildNews(request),
    ];
    if (last !== undefined) parts.push(STREAM_FORMS[form].events(missed));
    return concat(parts);
  }

  /**
   * Answers a shared poll with the newest event of each variable that its client has missed. It is all that it has missed,
   * since the rest would come an interval later.
   */
  answerShared(position: Position, seconds: number): Uint8Array<ArrayBuffer> {
    const { metrics } = this.#options;
    const { cursor } = progressAt(position);
    const missed = this.#tail.newestOfEach(cursor, Infinity);
    metrics.count("rep.streams.polled", 1);
    metrics.count("rep.events.replayed", missed.length);
    const form = "with_heartbeat_events";
    const retryMs: RetryMs = [seconds * 1_000, seconds * 1_000]; // the same for all
    const opening = this.#open(form, "poll", retryMs, cursorAt(position));
    return concat([opening, STREAM_FORMS[form].events(missed)]);
  }

  /** Counts a shared poll that is rejected, and returns why. */
  rejectShared(reason: StreamRejection): string {
    this.#options.metrics.count("rep.streams.rejected", 1, reason);
    return `Cannot answer this poll: ${STREAM_REJECTIONS[reason]}`;
  }

  #retryMs(client: CountedClient): RetryMs {
    const isFull = this.#hub.limits.limitOf(client) !== undefined;
    return isFull ? FULL_RETRY_MS : POLL_RETRY_MS;
  }

  #open(
    form: StreamFormName,
    reason: string,
    retryMs: RetryMs,
    id: number | undefined,
  ): Uint8Array<ArrayBuffer> {
    const comment = `${reason}; reconnect later`;
    return openStreamForm(form, { retryMs, comment, id }, this.#options.random);
  }

  close(): void {
    this.#reading.close();
  }
}
