import type { Changes } from "../changes/changes.ts";
import type { PageBuild } from "../changes/hub.ts";
import type { Position } from "../changes/position.ts";
import type { StreamFormName } from "../changes/stream_forms.ts";
import type { StreamRejection } from "../changes/stream_rejections.ts";
import type { Tail } from "../changes/tail.ts";
import { corsHeaders, preflight, readOrigin } from "../http/origin.ts";
import { Problem } from "../http/problem.ts";
import {
  CORS_METHODS,
  type Endpoint,
  type RouteContext,
} from "../http/routes.ts";
import { shortHash } from "../values/hash.ts";
import {
  sharedPollCacheControl,
  sharedPollSeconds,
} from "../values/shared_polls.ts";
import { parseEventId, readNewEvents } from "../changes/known_events.ts";

/** `no-transform` and `X-Accel-Buffering` keep proxies from buffering the stream. */
const STREAM_HEADERS = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache, no-store, no-transform",
  "x-accel-buffering": "no",
};

/**
 * Creates the endpoint `/rep/changes`.
 *
 * @param changes `undefined` without hot reload: then every method is answered with 404.
 * @param allowedOrigins The origins whose scripts may read the stream, besides the gateway's own.
 */
export function createChangesEndpoint(
  changes: Changes | undefined,
  allowedOrigins: readonly string[],
): Endpoint {
  const headersFor = (request: Request, context: RouteContext) =>
    corsHeaders(readOrigin(request, context, allowedOrigins));

  if (changes === undefined) {
    return {
      handler(request, context) {
        const headers = headersFor(request, context);
        throw new Problem(404, {
          detail: "Hot reload is not enabled",
          headers,
        });
      },
    };
  }
  return {
    methods: CORS_METHODS,
    isServedAtStart: true,
    headersOf405: headersFor,
    async handler(request, context) {
      if (request.method === "OPTIONS") {
        const origin = readOrigin(request, context, allowedOrigins);
        return preflight(request, origin, "GET");
      }
      const seconds = sharedPollSeconds(context.url.search);
      if (seconds !== undefined) {
        // Without allowed origins, the response is the same for all, and caches need no `Vary`.
        const isShared = allowedOrigins.length === 0;
        const headers = isShared ? {} : headersFor(request, context);
        return await answerSharedPoll(seconds, { headers, context, changes });
      }
      const headers = headersFor(request, context);
      const body = await openStream(request.headers, context, changes);
      return new Response(body, { headers: { ...headers, ...STREAM_HEADERS } });
    },
  };
}

/**
 * Handles `GET /rep/changes`: a stream of changes to PUBLIC variables (endpoint specification, GET /rep/changes; HTML
 * standard §9.2). The response is always a stream, since an `EventSource` does not reconnect after any status but 200.
 *
 * - A stream with a `Last-Event-ID` header begins with every event after that id, in order. Without that header, a
 *   stream with `?last_event_id=` begins with the newest event of each variable that changed after it, in order;
 *   without either, with the next event. For an invalid id it begins with the whole public state. If the log has to be
 *   read first, for the first time or to validate the id, and the store is unavailable, the stream ends at once and
 *   asks the client to reconnect.
 * - With `?poll`, or if there are too many streams, it ends when the client has received everything, or a chunk of it.
 * - A poll with an interval is answered for caches, see {@linkcode answerSharedPoll}.
 * - With `?heartbeat=event`, its opening and its heartbeats are events as well, which a script sees.
 * - With `?build=`, the ID of a page's build, and a cursor, it says once no process delivers that build any more.
 * - With `?format=ofrep`, which an SDK finds among the flags, its events say that something has changed.
 */
async function openStream(
  headers: Headers,
  { client, url }: RouteContext,
  changes: Changes,
): Promise<ReadableStream | Uint8Array<ArrayBuffer>> {
  const { hub, polls } = changes;
  const query = new URLSearchParams(url.search);
  const form = readForm(query);
  const build = await readBuild(headers, query, changes);
  const position = await findPosition(headers, query, changes);
  if (typeof position === "string") return polls.reject(position, form);
  const request = { client, position, form, build };
  if (query.has("poll")) return await polls.answer(request, undefined);
  const limit = hub.limits.rejection(client);
  if (limit !== undefined) return await polls.answer(request, limit);
  return hub.open(request);
}

interface SharedPollParts {
  readonly headers: Record<string, string>;
  readonly context: RouteContext;
  readonly changes: Changes;
}

/**
 * Handles a shared poll. It ignores the headers of the request: a cache that asks again sends those of any client, also
 * its `Last-Event-ID`.
 *
 * @throws {Problem} With 503 if there is no answer: a cache would give a stream that says so to all pages.
 */
async function answerSharedPoll(
  seconds: number,
  { headers, context, changes }: SharedPollParts,
): Promise<Response> {
  const query = new URLSearchParams(context.url.search);
  const position = await findPosition(new Headers(), query, changes);
  if (typeof position === "string") {
    const detail = changes.polls.rejectShared(position);
    throw new Problem(503, { detail, headers });
  }
  // A later event may get this id. What was stored before would then take pages back that have received it.
  const isYetToCome = Number(query.get("last_event_id")) > changes.tail.head;
  const body = changes.polls.answerShared(position, seconds);
  return new Response(body, {
    headers: {
      ...headers,
      "content-type": STREAM_HEADERS["content-type"],
      "cache-control": isYetToCome
        ? STREAM_HEADERS["cache-control"]
        : sharedPollCacheControl(seconds),
    },
  });
}

/** Finds where a stream or a poll begins, or why it is rejected. */
async function findPosition(
  headers: Headers,
  query: URLSearchParams,
  { hub, rollout, tail }: Changes,
): Promise<Position | StreamRejection> {
  if (rollout.role === "apart") return "stands_apart";
  const position = await readPosition(headers, query, tail);
  // Not with the public state, which may be older in this process than the client's values.
  if (position === undefined) return "store_unavailable";
  return hub.isClosing ? "stopping" : position;
}

function readForm(query: URLSearchParams): StreamFormName {
  if (query.get("format") === "ofrep") return "ofrep";
  const hasHeartbeatEvents = query.get("heartbeat") === "event";
  return hasHeartbeatEvents ? "with_heartbeat_events" : "plain";
}

/** Returns the build of the client's page, if the client asks for others. One without a cursor is no page. */
async function readBuild(
  headers: Headers,
  query: URLSearchParams,
  changes: Changes,
): Promise<PageBuild | undefined> {
  const id = query.get("build");
  const isPage = readCursor(headers, query) && readForm(query) !== "ofrep";
  if (!id || !isPage) return undefined;
  return { id, replacement: await changes.replacementOf(id) };
}

function readCursor(headers: Headers, query: URLSearchParams): string | null {
  return headers.get("last-event-id") || query.get("last_event_id");
}

/** The newest event of each variable. */
const WHOLE_STATE: Position = { kind: "whole_state" };

/**
 * Reads where a stream begins. An `EventSource` that reconnects sends the header. The query is a page's own cursor:
 * clients use it each time they subscribe, and outdated values would take the page back in time.
 *
 * @returns `undefined` if the log would have to be read first, but the store is unavailable.
 */
async function readPosition(
  headers: Headers,
  query: URLSearchParams,
  tail: Tail,
): Promise<Position | undefined> {
  // After an outage at the start, the store is available, and reported as such, before the log has been read.
  if (!tail.isLoaded && !await readNewEvents(tail)) return undefined;
  const header = headers.get("last-event-id");
  const text = readCursor(headers, query);
  if (!text) return { kind: "every_event", cursor: tail.head };
  const cursor = parseEventId(text);
  if (cursor === undefined) return WHOLE_STATE;
  const isAhead = cursor > tail.head; // another process may have just issued it
  const hasFailed = isAhead && !await readNewEvents(tail);
  if (tail.hasReached(cursor)) { // also during an outage
    return { kind: header ? "every_event" : "newest_of_each", cursor };
  }
  if (hasFailed) return undefined;
  // The cursor is of another log, as after a restart with a store in memory, or of events that this one has lost. The
  // client gets the whole state, unless it has that already: it has received no event, since its header is its page's
  // own cursor, and the values of its page, which the hash identifies, are current.
  const { head } = tail; // read first, so that what is published later is sent
  const state = shortHash(await tail.publicHash);
  const hasState = header === query.get("last_event_id") &&
    query.get("state") === state;
  return hasState ? { kind: "every_event", cursor: head } : WHOLE_STATE;
}
