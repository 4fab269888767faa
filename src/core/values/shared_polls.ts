/**
 * The possible intervals between two polls of a page, in seconds. A gateway answers polls of all of them, since open pages
 * keep the interval that they were given.
 */
export const POLL_SECONDS: readonly number[] = [10, 15, 30, 60, 300, 3_600];

/** Valid intervals, for error messages. */
export const EXPECTED_POLL = "10s, 15s, 30s, 60s, 5m or 1h";

/** Returns an interval in milliseconds; `undefined` if it is none of {@linkcode POLL_SECONDS}. */
export function parsePollMs(ms: number | undefined): number | undefined {
  return POLL_SECONDS.find((seconds) => seconds * 1_000 === ms) && ms;
}

const QUERY = new RegExp(
  `^\\?last_event_id=(?:0|[1-9]\\d{0,15})&poll=(${POLL_SECONDS.join("|")})$`,
);

/**
 * Returns the interval of a shared poll, in seconds: a poll whose response depends on its URL and the log alone, so that
 * a shared cache answers all pages with the same cursor. Its query is exactly `?last_event_id=C&poll=N`, since each other
 * spelling would be another entry of the cache.
 *
 * @returns `undefined` if it is any other request.
 */
export function sharedPollSeconds(search: string): number | undefined {
  const seconds = QUERY.exec(search)?.[1];
  return seconds === undefined ? undefined : Number(seconds);
}

/**
 * Returns how long caches may keep the response (RFC 9111 §5.2.2, RFC 5861 §4). A page polls again after at least three
 * quarters of the interval, so it never gets the same response twice, unless the gateway is away.
 */
export function sharedPollCacheControl(seconds: number): string {
  const maxAge = Math.floor(seconds / 2);
  return `public, max-age=${maxAge}, stale-if-error=60, no-transform`;
}
