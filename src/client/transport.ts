/** How changes reach a page, and what its client has to do now. */
export interface Transport {
  /** Whether by polls, and not over a stream. */
  readonly poll: boolean;
  /**
   * How long to wait before a stream or a poll is opened; 0: open it now. Either way, what is open is closed.
   * `undefined` if all stays as it is.
   */
  readonly waitMs: number | undefined;
  /** When that wait ends, or else when what is open has been silent for too long. */
  readonly until: number;
  /** How many streams in a row were mute. `NaN` if the gateway has no heartbeats: none is mute then, and none a poll. */
  readonly mute: number;
  /** From when on a poll that ends is followed by a stream. */
  readonly pollEnd: number;
  /** How many requests in a row have no heartbeat. */
  readonly attempts: number;
  /** Until when the rate of requests is used up by those so far. */
  readonly used: number;
}

/** The `EventSource` reconnects by itself: its `readyState` after an `error` (HTML standard §9.2.2). */
export const CONNECTING = 0;
/** It is open. */
export const OPEN = 1;
/** It has given up, as after a status other than 200. */
export const CLOSED = 2;
/** A heartbeat or a change has arrived. */
export const RECEIVED = 3;
/** The page wants changes, or a wait is over. */
export const START = 4;
/** The page wants changes again: it is shown or online again. */
export const RESUME = 5;
/** Nothing else has happened until {@linkcode Transport.until}. */
export const SILENT = 6;

/** From the request to the first heartbeat, which the gateway sends at once. */
const FIRST_HEARTBEAT_MS = 20_000;
/** From then on: three heartbeats of the gateway. */
const HEARTBEAT_MS = 45_000;
/** A page whose last streams were mute, so many in a row, polls. */
const MAX_MUTE = 2;
/** Switching between tabs for a moment does not cost a connection. */
export const HIDDEN_PAUSE_MS = 1_500;
/** How long a poll may take. What it could not catch up with comes with the next one. */
const POLL_MS = 30_000;
/** How long a page polls before it tries a stream again. */
const POLLING_MS = 3_600_000;
/** The longest pause before a browser reconnects (`retry:`). A page sees when it begins, and not when it ends. */
const LONGEST_RETRY_MS = 60_000;

/** Doubled with each attempt, so that the first pause is about as long as a gateway takes to restart. */
const FIRST_PAUSE_MS = 500;
/** The longest that a page may be outdated after an outage. */
const LONGEST_PAUSE_MS = 30_000;

/** In the long run, a page sends one request in this time, */
const INTERVAL_MS = 5_000;
/** but twelve at once, as a user who switches between tabs needs them. */
const BURST_MS = 60_000;

/**
 * Returns the transport after an event. Something between gateway and page may hold the body of a response until its end,
 * or forget a connection: the stream is open, and mute. So:
 *
 * - A stream is mute if no heartbeat arrives within 20 s of its request, or for 45 s later; a change counts as one. It is
 *   opened again. After two in a row, or one after a poll, the page polls; a heartbeat resets the count.
 * - A poll is a stream that the gateway ends once the page has everything. The browser then reconnects after `retry:`, as
 *   after every end of a stream. A poll that does not end within 30 s is given up and repeated.
 * - A page that is shown or online again, or that has polled for an hour, polls once and then tries a stream.
 * - After an error the stream or the poll is opened again, with exponential backoff and jitter, so that not all pages
 *   reconnect at the same moment. An error is not a mute stream: a gateway that is down is no reason to poll for an hour.
 *   But what holds a stream may also cut it before its silence is noticed, or answer 504. So after two requests in a row
 *   without a heartbeat, whatever ended them, the page polls once and then tries a stream.
 * - Whatever happens, there is one request in 5 s in the long run. Where the browser would reconnect sooner, the client
 *   does it instead.
 *
 * A pause before the browser reconnects does not count. But the page cannot see its end, so that a request after it that
 * is never answered is noticed after the longest pause, of 60 s.
 *
 * @param transport `{}` at the beginning.
 * @param event One of the numbers above.
 * @param now A monotonic time, in milliseconds. A timer may be late, as after the sleep of a laptop.
 * @param random A number in [0, 1).
 */
export function advance(
  {
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

  /** There is a request: by the client, at once, or by the browser, after a pause. */
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
    const longestMs = FIRST_PAUSE_MS * 2 ** attempts;
    open(Math.min(longestMs, LONGEST_PAUSE_MS) * (1 + random) / 2);
  }

  switch (event) {
    case CONNECTING:
      if (polls && attempts === 0 && now >= pollEnd) {
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
    waitMs,
    until,
    mute,
    pollEnd,
    attempts,
    used,
  };
}
