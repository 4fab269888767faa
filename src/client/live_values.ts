import {
  type Browser,
  type EventStream,
  freezeValues,
  type StreamMessage,
} from "./page.ts";
import type { Payload } from "../core/pages/payload.ts";
import {
  advance,
  HIDDEN_PAUSE_MS,
  MAX_MUTE,
  OPEN,
  RECEIVED,
  RESUME,
  SILENT,
  START,
  type Transport,
} from "./transport.ts";

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
  /**
   * `poll` if the gateway wants polls (`--poll`), or if something between gateway and page holds streams back. The page then
   * asks again and again, and `state` is `open` only while it asks. It is also `poll` for a moment when the page is shown
   * again.
   */
  readonly transport: "stream" | "poll";
  /** The ID of the last change that the page has received or does not need; `null` if it is unknown. */
  readonly lastEventId: string | null;
  /** The ID of the build that has replaced the page's in all gateways; `undefined` while none is known. */
  readonly newBuild: string | undefined;
}

/** The event type of a variable that is added or changed (REP-RFC-0001 §4.6). */
const UPDATE = "rep:config:update";
/** The event type of a variable that is deleted (REP-RFC-0001 §4.6). */
const DELETE = "rep:config:delete";

const CURSOR = "last_event_id";
/** The hash of the values with which the page was generated. It is invalid after a change. */
const STATE = "state";

/** The event type of the heartbeats that `?heartbeat=event` requests. */
const HEARTBEAT = "rep:heartbeat";

/** The event type of the message that tells a page of another build, which `?build=` requests. */
const BUILD = "rep:build";

/**
 * Creates the PUBLIC variables of a page. Besides `start()`, it returns functions of {@linkcode Client}.
 *
 * While the page is visible and has subscribers, a stream or polls keep the values up to date. `transport.ts` decides
 * which, and when. Each attempt resumes at the cursor, so that the page gets the newest value of each variable that has
 * changed since, and never an older one. A hidden page has no stream, since over HTTP/1.1 a browser opens only six
 * connections to a host.
 *
 * A gateway whose pages contain no cursor, such as REP's own, supports neither heartbeat events nor polls. The client does
 * not request them from it, and does not notice if its stream is mute. A gateway with a cursor but without heartbeat
 * events treats a poll as a stream. The client repeats it every 30 s, and so misses nothing.
 */
export function createLiveValues(
  browser: Browser,
  look: () => void,
  warn: (findMissing: () => string | false) => void,
) {
  const changes = createListeners<Parameters<AnyChangeCallback>>(browser);
  const statuses = createListeners<[StreamStatus]>(browser);
  /** The URL of the changes since the page was generated. */
  let url: URL | undefined;
  let values = freezeValues({});
  let newBuild: string | undefined;
  let hasHeartbeats: boolean;
  let transport: Partial<Transport> = {};
  let timer: unknown;
  let source: EventStream | undefined;
  let isVisible = () => !browser.document?.hidden;

  function step(event: number) {
    const now = browser.performance.now();
    const { until, waitMs } = transport = advance(
      transport,
      event,
      now,
      browser.Math.random(),
    );
    browser.clearTimeout(timer);
    if (hasHeartbeats || waitMs) {
      const onDue = () => step(waitMs ? START : SILENT);
      timer = browser.setTimeout(onDue, until - now);
    }
    if (waitMs !== undefined) source?.close();
    if (waitMs === 0) open(url!);
    reportStatus();
  }

  function open(url: URL) {
    const heartbeat = hasHeartbeats ? "&heartbeat=event" : "";
    const poll = transport.poll ? "&poll" : "";
    const query = transport.pollMs ? "" : heartbeat + poll;
    const opened = new browser.EventSource(url.href + query);
    opened.onerror = () => {
      // A prefix of the path that a proxy removes, or an extension that blocks /rep/, looks like an outage.
      if (transport.attempts! > 1) {
        warn(() => "Cannot get changes: expected --base-path, no blocker");
      }
      step(opened.readyState);
    };
    opened.onopen = () => step(hasHeartbeats ? OPEN : RECEIVED);
    opened.addEventListener(HEARTBEAT, receive);
    opened.addEventListener(BUILD, receive);
    opened.addEventListener(UPDATE, receive);
    opened.addEventListener(DELETE, receive);
    source = opened;
  }

  function receive({ type, data, lastEventId }: StreamMessage) {
    // A new EventSource sends no Last-Event-ID, so the URL has to contain the cursor.
    if (lastEventId) url!.searchParams.set(CURSOR, lastEventId);
    const { key, value, build = newBuild } = JSON.parse(data); // the browser reports a SyntaxError
    newBuild = build;
    // Only a change has a key.
    if (key) applyChange(key, type === DELETE ? undefined : value);
    if (source) step(RECEIVED); // a callback may have ended the last subscription
  }

  function applyChange(key: string, newValue: string | undefined) {
    const oldValue = values[key];
    if (newValue === oldValue) return; // the gateway may send all values again
    url!.searchParams.delete(STATE);
    const { [key]: _, ...others } = values;
    const isDeleted = newValue === undefined;
    values = freezeValues(isDeleted ? others : { ...values, [key]: newValue });
    changes.call(key, newValue, oldValue);
  }

  function disconnect() {
    browser.clearTimeout(timer);
    if (!source) return;
    source.close();
    source = undefined;
    reportStatus();
  }

  function isWanted() {
    return isVisible() && changes.size();
  }

  /** Opens the connection if the page needs one now, and closes it if the page no longer does. */
  function refresh(event: number) {
    if (!url || !isWanted()) disconnect();
    else if (!source) step(event);
  }

  function status(): StreamStatus {
    const isOpen = source?.readyState === OPEN;
    return {
      state: isOpen ? "open" : source ? "connecting" : "closed",
      transport: transport.poll ? "poll" : "stream",
      lastEventId: url?.searchParams.get(CURSOR) ?? null,
      newBuild,
    };
  }

  function reportStatus() {
    statuses.call(status());
  }

  function onAnyChange(callback: AnyChangeCallback) {
    look();
    warn(() => !url && "Cannot get changes: no hot reload"); // REP-RFC-0001 §5.2
    const remove = changes.add(callback);
    refresh(START);
    return () => {
      remove();
      refresh(START);
    };
  }

  function onChange(key: string, callback: ChangeCallback) {
    return onAnyChange((changedKey, newValue, oldValue) => {
      if (changedKey === key) callback(newValue, oldValue);
    });
  }

  function listenInBackground() {
    isVisible = () => true;
    refresh(START);
  }

  /**
   * Sets the page's configuration and its build, and calls back for each value if there are subscribers already.
   */
  function start(
    { public: { ...first }, _meta: { hot_reload, poll } }: Payload,
    build: string | null,
  ) {
    if (hot_reload) url = new URL(hot_reload, browser.location.origin);
    if (build && !poll) url?.searchParams.set("build", build);
    values = freezeValues(first);
    hasHeartbeats = !!url?.searchParams.has(CURSOR);
    transport = { mute: hasHeartbeats ? 0 : NaN };
    if (url && poll) {
      transport = { mute: MAX_MUTE, pollMs: poll * 1_000 };
      // Caches answer the polls of all pages with the same cursor, so their URL contains nothing else.
      url.searchParams.delete(STATE);
      url.searchParams.set("poll", `${poll}`);
    }
    if (url) {
      const resume = hasHeartbeats ? RESUME : START;
      // A page with an open connection may be excluded from the back/forward cache.
      browser.addEventListener("pagehide", disconnect);
      browser.addEventListener("pageshow", () => refresh(resume));
      // After a loss of the network, an old connection may be dead without an error.
      browser.addEventListener("online", () => isWanted() && step(resume));
      browser.addEventListener("visibilitychange", () => {
        const pauseMs = isVisible() ? 0 : HIDDEN_PAUSE_MS;
        browser.setTimeout(() => refresh(resume), pauseMs);
      });
    }
    if (!changes.size()) return;
    // Not at once: the caller may be a component that is being rendered.
    browser.setTimeout(() => {
      refresh(START);
      for (const key in values) changes.call(key, values[key], undefined);
    }, 0);
  }

  return {
    start,
    getAll: () => values,
    onChange,
    onAnyChange,
    listenInBackground,
    status,
    onStatus: statuses.add,
  };
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
     * Adds a listener. If it is added twice, it is called twice.
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
