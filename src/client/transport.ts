/** How changes reach a page, and what its client has to do next. */
export interface Transport {
  /** Whether the client polls; otherwise it uses a stream. */
  readonly poll: boolean;
  /** How often the client polls; 0 if it uses streams as far as possible. */
  readonly pollMs: number;
  /**
   * How long to wait before the client opens a stream or a poll; 0 means that it opens one now. In both cases it closes
   * the open one. `undefined` if nothing changes.
   */
  readonly waitMs: number | undefined;
  /** When the wait ends. Without a wait, when the open stream or poll has been silent for too long. */
  readonly until: number;
  /** How many streams in a row were mute. `NaN` for a gateway without heartbeats, whose streams never count as mute. */
  readonly mute: number;
  /** The time after which a stream follows the end of a poll. */
  readonly pollEnd: number;
  /** How many requests in a row have received no heartbeat. */
  readonly attempts: number;
  /** The time until which the previous requests have used up the permitted rate. */
  readonly used: number;
}

/** The `EventSource` will reconnect by itself. This is its `readyState` after an `error` (HTML standard §9.2.2). */
export const CONNECTING = 0;
/** The `EventSource` is open. */
export const OPEN = 1;
/** The `EventSource` has given up, such as after a status other than 200. */
export const CLOSED = 2;
/** A heartbeat or a change has arrived. */
export const RECEIVED = 3;
/** The page wants changes, or a wait is over. */
export const START = 4;
/** The page is shown or online again, and wants changes. */
export const RESUME = 5;
/** Nothing has happened until {@linkcode Transport.until}. */
export const SILENT = 6;

/** How long the first heartbeat may take after the request. The gateway sends it immediately. */
const FIRST_HEARTBEAT_MS = 20_000;
/** How long each later heartbeat may take: three periods of the gateway. */
const HEARTBEAT_MS = 45_000;
/** After so many mute streams in a row, a page polls. */
export const MAX_MUTE = 2;
/** How long a page stays connected after it was hidden, so that users can switch between tabs for a moment. */
export const HIDDEN_PAUSE_MS = 1_500;
/** How long a poll may take. The next poll delivers what this one could not. */
const POLL_MS = 30_000;
/** How long a page polls before it tries a stream again. */
const POLLING_MS = 3_600_000;
/** The longest pause before a browser reconnects (`retry:`). The client sees only the beginning of this pause. */
const LONGEST_RETRY_MS = 60_000;

/** Each attempt doubles it, so the first pause is about as long as the restart of a gateway. */
const FIRST_PAUSE_MS = 500;
/** How long a page may stay outdated after an outage. */
const LONGEST_PAUSE_MS = 30_000;

/** In the long run, a page sends at most one request in this time. */
const INTERVAL_MS = 5_000;
/** A page may send the requests of this time at once. Twelve are enough for a user who switches between tabs. */
const BURST_MS = 60_000;

/**
 * Returns the transport after an event. A proxy between gateway and page may hold the body of a response until its end, or
 * forget a connection. The stream is then open, but mute. So:
 *
 * - A stream is mute if no heartbeat arrives within 20 s of its request, or for 45 s later. A change counts as a heartbeat.
 *   The client opens a mute stream again. After two mute streams in a row, or one after a poll, it polls. A heartbeat
 *   resets the count.
 * - A poll is a stream that the gateway ends when the page has everything. The browser then reconnects after `retry:`, as
 *   after every end of a stream. If a poll does not end within 30 s, the client gives it up and repeats it.
 * - A page that is shown or online again, or that has polled for an hour, polls once and then tries a stream.
 * - After an error, the client opens the stream or the poll again, with exponential backoff and jitter, so that pages do
 *   not reconnect at the same moment. An error does not count as a mute stream: a gateway that is down is no reason to poll
 *   for an hour. But the proxy that holds a stream may also cut it before the client notices the silence, or answer 504. So
 *   after two requests in a row without a heartbeat, whatever ended them, the page polls once and then tries a stream.
 * - In the long run, a page never sends more than one request in 5 s. If the browser would reconnect sooner, the client
 *   closes the stream and reconnects itself.
 *
 * - With an interval, the client only polls. It ends each poll, and opens the next after 0.75 to 1.25 intervals: a browser
 *   that reconnects would send a `Last-Event-ID`, which caches do not look at. After an error, it waits for at least half
 *   an interval.
 *
 * The pause before the browser reconnects does not count as silence. But the client cannot see its end. So if the request
 * after the pause is never answered, the client notices that only after the longest pause, of 60 s.
 *
 * @param transport `{}` at the beginning.
 * @param event One of the numbers above.
 * @param now A monotonic time, in milliseconds. A timer may be late, such as after a laptop has slept.
 * @param random A number in [0, 1).
 */
export function advance(
  {
    pollMs = 0,
    until = 0,
    mute = 0,
    pollEnd = 0,
    attempts = 0,
    used = 0,
  }: Partial<Transport>,
  event: number,
  now: number,
  random: number,
): Transport {
  const excessMs = used - now - BURST_MS;
  const polls = mute >= MAX_MUTE;
  let waitMs: number | undefined;

  function responseMs() {
    return mute >= MAX_MUTE ? POLL_MS : FIRST_HEARTBEAT_MS;
  }

  /** Counts a request, which the client sends now or the browser sends after a pause. */
  function request(pauseMs: number) {
    attempts++;
    used = Math.max(used, now) + INTERVAL_MS;
    until = now + pauseMs + responseMs();
  }

  function open(afterMs: number) {
    waitMs = Math.max(afterMs, excessMs);
    until = now + waitMs;
    if (waitMs === 0) request(0);
  }

  function reopen() {
    if (attempts >= MAX_MUTE) mute = Math.max(mute, MAX_MUTE);
    const longestMs = (pollMs / 2 || FIRST_PAUSE_MS) * 2 ** attempts;
    const limitMs = Math.max(pollMs, LONGEST_PAUSE_MS);
    open(Math.min(longestMs, limitMs) * (1 + random) / 2);
  }

  switch (event) {
    case CONNECTING:
      if (pollMs && attempts === 0) open(pollMs * (0.75 + random / 2));
      else if (pollMs) reopen();
      else if (polls && attempts === 0 && now >= pollEnd) {
        mute = MAX_MUTE - 1;
        open(0);
      } else if (excessMs > 0 || attempts >= MAX_MUTE) reopen();
      else request(LONGEST_RETRY_MS);
      break;
    case OPEN:
      until = Math.min(until, now + responseMs());
      break;
    case RECEIVED:
      attempts = 0;
      if (polls) break;
      mute &&= 0;
      until = now + HEARTBEAT_MS;
      break;
    case RESUME:
      mute = MAX_MUTE;
      pollEnd = now;
      open(0);
      break;
    case START:
      open(0);
      break;
    case SILENT:
      mute++;
      if (mute === MAX_MUTE) pollEnd = now + POLLING_MS;
      reopen();
      break;
    case CLOSED:
      reopen();
  }
  return {
    poll: mute >= MAX_MUTE,
    pollMs,
    waitMs,
    until,
    mute,
    pollEnd,
    attempts,
    used,
  };
}
