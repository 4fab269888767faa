import { redactUrl } from "../redact_url.ts";
import { EXPECTED_UPSTREAM, parseUpstream } from "../upstream_url.ts";

/**
 * Parses the URL of an upstream.
 *
 * @throws {TypeError} If it is not an `http:` or `https:` URL, or has a user name, a password, a query or a fragment.
 */
export function parseUpstreamUrl(upstream: URL | string): URL {
  const url = parseUpstream(upstream);
  if (url !== undefined) return url;
  throw new TypeError(`Cannot proxy to "${redactUrl(upstream)}": expected ${EXPECTED_UPSTREAM}`);
}
