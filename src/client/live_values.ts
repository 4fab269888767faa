import {
  type Browser,
  type EventStream,
  freezeValues,
  type Page,
  type StreamMessage,
  type Values,
} from "./page.ts";

/** Receives the new value of a variable, `undefined` if it was deleted, and the old one, `undefined` if it is new. */
export type ChangeCallback = (
  newValue: string | undefined,
  oldValue: string | undefined,
) => void;

/** Receives the name of a variable and the arguments of {@linkcode ChangeCallback}. */
export type AnyChangeCallback = (
  key: string,
  newValue: string | undefined,
  oldValue: string | undefined,
) => void;

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

/** The event type of a variable that is added or changed (REP-RFC-0001 §4.6). */
const UPDATE = "rep:config:update";
/** The event type of a variable that is deleted (REP-RFC-0001 §4.6). */
const DELETE = "rep:config:delete";

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
 * Creates the PUBLIC variables of a page. The functions are those of {@linkcode Client}.
 *
 * While there are subscribers and the page is visible, a stream keeps the values up to date. It reconnects after every
 * failure and resumes at its cursor: an `EventSource` alone reconnects after most failures, but not after a status other
 * than 200, and not when the page returns from the back/forward cache. A hidden page has no stream, since over HTTP/1.1 a
 * browser opens only six connections to a host.
 */
export function createLiveValues(page: Page | undefined, browser: Browser) {
  const url = page?.changes;
  const changes = createListeners<Parameters<AnyChangeCallback>>(browser);
  const statuses = createListeners<[StreamStatus]>(browser);
  let values = freezeValues(page?.values);
  let source: EventStream | undefined;
  let failures = 0;
  let isVisible = () => !browser.document?.hidden;

  function connect(url: URL) {
    source?.close();
    const current = source = new browser.EventSource(url.href);
    current.onopen = () => {
      failures = 0;
      reportStatus();
    };
    current.onerror = () => {
      if (current.readyState === CLOSED) browser.setTimeout(retry, pauseMs());
      reportStatus();
    };
    current.addEventListener(UPDATE, receive);
    current.addEventListener(DELETE, receive);
    reportStatus();

    function retry() {
      if (source === current) connect(url);
    }

    function receive(event: StreamMessage) {
      // A new EventSource sends no Last-Event-ID, so the URL has to contain the cursor.
      if (event.lastEventId) url.searchParams.set(CURSOR, event.lastEventId);
      url.searchParams.delete(STATE);
      applyChange(event);
      reportStatus();
    }
  }

  /** Exponential backoff with jitter, so that not all pages reconnect at the same moment. */
  function pauseMs() {
    const longest = Math.min(
      FIRST_PAUSE_MS * 2 ** failures++,
      LONGEST_PAUSE_MS,
    );
    return longest * (1 + browser.Math.random()) / 2;
  }

  function applyChange({ type, data }: StreamMessage) {
    const { key, value } = JSON.parse(data); // the browser reports a SyntaxError
    const newValue = type === DELETE ? undefined : value;
    const oldValue = values[key];
    if (newValue === oldValue) return; // the gateway may resend the whole state
    values = withValue(values, key, newValue);
    changes.call(key, newValue, oldValue);
  }

  function disconnect() {
    if (!source) return;
    source.close();
    source = undefined;
    reportStatus();
  }

  function isWanted() {
    return isVisible() && changes.size() > 0;
  }

  /** Opens or closes the connection if the first subscriber has come or the last one has gone. */
  function refresh() {
    if (!url || !isWanted()) disconnect();
    else if (!source) connect(url);
  }

  function state(): StreamStatus["state"] {
    if (!source) return "closed";
    return source.readyState === OPEN ? "open" : "connecting";
  }

  function status(): StreamStatus {
    const lastEventId = url?.searchParams.get(CURSOR) ?? null;
    return { state: state(), lastEventId };
  }

  function reportStatus() {
    statuses.call(status());
  }

  function onAnyChange(callback: AnyChangeCallback) {
    if (!url) {
      browser.console.warn("[REP] Hot reload is not available"); // REP-RFC-0001 §5.2
      return () => {};
    }
    const remove = changes.add(callback);
    refresh();
    return () => {
      remove();
      refresh();
    };
  }

  function onChange(key: string, callback: ChangeCallback) {
    return onAnyChange((changedKey, newValue, oldValue) => {
      if (changedKey === key) callback(newValue, oldValue);
    });
  }

  function listenInBackground() {
    isVisible = () => true;
    refresh();
  }

  if (url) {
    // Browsers may not put a page with an open connection into the back/forward cache.
    browser.addEventListener("pagehide", disconnect);
    browser.addEventListener("pageshow", refresh);
    // A connection from before the network was lost may be dead without an error.
    browser.addEventListener("online", () => isWanted() && connect(url));
    browser.addEventListener("visibilitychange", () => {
      browser.setTimeout(refresh, isVisible() ? 0 : HIDDEN_PAUSE_MS);
    });
  }

  return {
    getAll: () => values,
    onChange,
    onAnyChange,
    listenInBackground,
    status,
    onStatus: statuses.add,
  };
}

function withValue(
  values: Values,
  key: string,
  value: string | undefined,
): Values {
  if (value !== undefined) return freezeValues({ ...values, [key]: value });
  const { [key]: _, ...others } = values;
  return freezeValues(others);
}

/** Creates a set of listeners. An exception of one is reported and does not affect the others. */
export function createListeners<Arguments extends unknown[]>(
  browser: Pick<Browser, "reportError">,
) {
  const all = new Set<(...values: Arguments) => void>();
  return {
    /** Returns the number of listeners. */
    size: () => all.size,
    /**
     * Adds a listener. One that is added twice is called twice.
     *
     * @returns A function that removes it.
     */
    add(listener: (...values: Arguments) => void): () => void {
      const entry = (...values: Arguments) => listener(...values);
      all.add(entry);
      return () => void all.delete(entry);
    },
    /** Calls all listeners. */
    call(...values: Arguments): void {
      for (const listener of [...all]) {
        try {
          listener(...values);
        } catch (error) {
          browser.reportError(error);
        }
      }
    },
  };
}
