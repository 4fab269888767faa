import type { ClientEnvironment, EventStream } from "./environment.ts";

/** How the stream of changes is doing. */
export interface StreamStatus {
  /** `closed` while nobody is subscribed; `connecting` also in the pause before another try. */
  readonly state: "closed" | "connecting" | "open";
  /** The id of the newest change that the page has; `null` if it does not know. */
  readonly lastEventId: string | null;
}

/** Settings of {@linkcode createChangeStream}. */
export interface ChangeStreamOptions {
  /** Where the changes after those that the page has are to be had. It is moved on as they come. */
  readonly url: URL;
  /** Whether anybody wants to hear of changes. */
  readonly isWanted: () => boolean;
  /** Takes an event of the stream, of type {@linkcode UPDATE} or {@linkcode DELETE}. */
  readonly onEvent: (event: MessageEvent<string>) => void;
  /** Is called when the status may be another. */
  readonly onStatus: () => void;
}

/** A connection that is kept up for as long as it is wanted. */
export interface ChangeStream {
  /** Opens or closes it, if what is wanted has changed. */
  readonly refresh: () => void;
  readonly status: () => StreamStatus;
}

/** The events that say that a variable has a value (REP-RFC-0001 §4.6). */
export const UPDATE = "rep:config:update";
/** The events that say that a variable is gone (REP-RFC-0001 §4.6). */
export const DELETE = "rep:config:delete";

const CURSOR = "last_event_id";

/** `EventSource.OPEN` and `EventSource.CLOSED` (HTML, "Server-sent events"). */
const OPEN = 1;
const CLOSED = 2;

/** About what a gateway needs to be back after a restart; and the longest that a page should then stay behind. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

/**
 * Makes the stream of changes. While it is wanted it comes back from everything, and goes on where it was. An
 * `EventSource` alone comes back from most failures, but gives up on an answer other than 200, and is lost in the
 * back/forward cache.
 */
export function createChangeStream(environment: ClientEnvironment, options: ChangeStreamOptions): ChangeStream {
  const { url, isWanted, onEvent, onStatus } = options;
  let source: EventStream | undefined;
  let failures = 0;

  function connect() {
    source?.close();
    const own = source = new environment.EventSource(url.href);
    own.onopen = () => {
      failures = 0;
      onStatus();
    };
    own.onerror = () => {
      if (own.readyState === CLOSED) environment.setTimeout(() => source === own && connect(), pauseMs());
      onStatus();
    };
    own.addEventListener(UPDATE, receive);
    own.addEventListener(DELETE, receive);
    onStatus();
  }

  /** Doubles with each failure, and differs from page to page, so that they are not all back in the same moment. */
  function pauseMs() {
    return Math.min(FIRST_PAUSE_MS * 2 ** failures++, LONGEST_PAUSE_MS) * (1 + environment.Math.random()) / 2;
  }

  function receive(event: MessageEvent<string>) {
    // A new EventSource sends no Last-Event-ID, so the place to go on from has to stand in its URL.
    if (event.lastEventId) url.searchParams.set(CURSOR, event.lastEventId);
    onEvent(event);
    onStatus();
  }

  function disconnect() {
    if (!source) return;
    source.close();
    source = undefined;
    onStatus();
  }

  function refresh() {
    if (!isWanted()) disconnect();
    else if (!source) connect();
  }

  // A page with an open connection may be refused by the back/forward cache, and one in it hears nothing.
  environment.addEventListener("pagehide", disconnect);
  environment.addEventListener("pageshow", refresh);
  // What was open before the network went may be dead, and nothing would ever say so.
  environment.addEventListener("online", () => isWanted() && connect());

  return {
    refresh,
    status: () => ({
      state: !source ? "closed" : source.readyState === OPEN ? "open" : "connecting",
      lastEventId: url.searchParams.get(CURSOR),
    }),
  };
}
