import type {
  ClientEnvironment,
  EventStream,
  StreamMessage,
} from "./environment.ts";

/** The state of the stream of changes. */
export interface StreamStatus {
  /**
   * `closed` without subscribers and while the page is hidden; `connecting` also during the pause before the next
   * attempt.
   */
  readonly state: "closed" | "connecting" | "open";
  /** The id of the last change that the page has received; `null` if it is unknown. */
  readonly lastEventId: string | null;
}

/** Options of {@linkcode createChangeStream}. */
interface ChangeStreamOptions {
  /** The URL of the stream. Its cursor is updated with each event. */
  readonly url: URL;
  /** Returns whether there are subscribers. */
  readonly isWanted: () => boolean;
  /** Called with each event, of type {@linkcode UPDATE} or {@linkcode DELETE}. */
  readonly onEvent: (event: StreamMessage) => void;
  /** Called when the status may have changed. */
  readonly onStatus: () => void;
}

/** The event type of a variable that is added or changed (REP-RFC-0001 §4.6). */
const UPDATE = "rep:config:update";
/** The event type of a variable that is deleted (REP-RFC-0001 §4.6). */
export const DELETE = "rep:config:delete";

const CURSOR = "last_event_id";
/** The digest of the values that the page was generated with, which an event makes invalid. */
const STATE = "state";

/** `EventSource.OPEN` and `EventSource.CLOSED` (HTML, "Server-sent events"). */
const OPEN = 1;
const CLOSED = 2;

/** About as long as a gateway takes to restart, and the longest that a page may be outdated after an outage. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

/** Switching between tabs for a moment does not cost a connection. */
const HIDDEN_PAUSE_MS = 1_500;

/**
 * Creates the stream of changes. While there are subscribers and the page is visible, it reconnects after every failure
 * and resumes at its cursor. A hidden page has no stream: over HTTP/1.1, a browser opens only six connections to a host.
 * An `EventSource` alone reconnects after most failures, but not after a status other than 200, and not when
 * the page returns from the back/forward cache.
 */
export function createChangeStream(
  environment: ClientEnvironment,
  options: ChangeStreamOptions,
) {
  const { url, onEvent, onStatus } = options;
  let isHeard = () => !environment.document?.hidden;
  const isWanted = () => isHeard() && options.isWanted();
  let source: EventStream | undefined;
  let failures = 0;

  function connect() {
    source?.close();
    const current = source = new environment.EventSource(url.href);
    current.onopen = () => {
      failures = 0;
      onStatus();
    };
    current.onerror = () => {
      if (current.readyState === CLOSED) {
        environment.setTimeout(
          () => source === current && connect(),
          pauseMs(),
        );
      }
      onStatus();
    };
    current.addEventListener(UPDATE, receive);
    current.addEventListener(DELETE, receive);
    onStatus();
  }

  /** Exponential backoff with jitter, so that not all pages reconnect at the same moment. */
  function pauseMs() {
    return Math.min(FIRST_PAUSE_MS * 2 ** failures++, LONGEST_PAUSE_MS) *
      (1 + environment.Math.random()) / 2;
  }

  function receive(event: StreamMessage) {
    // A new EventSource sends no Last-Event-ID, so the URL has to contain the cursor.
    if (event.lastEventId) url.searchParams.set(CURSOR, event.lastEventId);
    url.searchParams.delete(STATE);
    onEvent(event);
    onStatus();
  }

  function disconnect() {
    if (!source) return;
    source.close();
    source = undefined;
    onStatus();
  }

  /** Opens or closes the connection if the first subscriber has come or the last one has gone. */
  function refresh() {
    if (!isWanted()) disconnect();
    else if (!source) connect();
  }

  // Browsers may not put a page with an open connection into the back/forward cache.
  environment.addEventListener("pagehide", disconnect);
  environment.addEventListener("pageshow", refresh);
  // A connection from before the network was lost may be dead without an error.
  environment.addEventListener("online", () => isWanted() && connect());
  environment.addEventListener(
    "visibilitychange",
    () => environment.setTimeout(refresh, isHeard() ? 0 : HIDDEN_PAUSE_MS),
  );

  return {
    refresh,
    /** Keeps the connection open while the page is hidden. */
    listenInBackground() {
      isHeard = () => true;
      refresh();
    },
    status: (): StreamStatus => ({
      state: !source
        ? "closed"
        : source.readyState === OPEN
        ? "open"
        : "connecting",
      lastEventId: url.searchParams.get(CURSOR),
    }),
  };
}
