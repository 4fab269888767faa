/** A valid upstream, for error messages. */
export const EXPECTED_UPSTREAM =
  "an http: or https: URL without credentials, query and fragment, such as http://127.0.0.1:3000";

/**
 * Parses the URL of an upstream. Its path is the base path of all proxied requests.
 *
 * @returns `undefined` if it is not an absolute `http:` or `https:` URL, or has credentials, a query or a fragment.
 */
export function parseUpstream(upstream: URL | string): URL | undefined {
  const url = URL.parse(upstream);
  if (url === null || !/^https?:$/.test(url.protocol)) return undefined;
  return url.username + url.password + url.search + url.hash === ""
    ? url
    : undefined;
}
