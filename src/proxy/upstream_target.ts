/**
 * Tells what to ask the upstream for: its base path, and after it the path and the query of the request.
 *
 * The path is as `URL` reads it, since that is what the gateway's own routes were matched against: dot segments are
 * resolved before the base path is put in front, so that no request climbs out of it; nothing else in it is decoded or
 * tidied. The query is passed on byte for byte. The host is nowhere in the answer: a request does not choose it.
 *
 * @param upstream Where requests go; its path is the base path.
 * @param requestUrl The URL of the request as the server gives it: unlike a `URL`, it is not normalised.
 * @returns The request target in origin form (RFC 9112 §3.2.1), always with a slash at its beginning.
 */
export function upstreamTarget(upstream: URL, requestUrl: string): string {
  const base = upstream.pathname.replace(/\/$/, "");
  const { pathname, search } = new URL(requestUrl);
  const path = pathname.startsWith("/") ? pathname : `/${pathname}`;
  return base + path + (rawQuery(requestUrl) ?? search);
}

/** The query as it was sent, or nothing if it holds what must not stand in a request line. */
function rawQuery(url: string): string | undefined {
  const [withoutFragment = ""] = url.split("#", 1);
  const start = withoutFragment.indexOf("?");
  const query = start === -1 ? "" : withoutFragment.slice(start);
  return /^[\x21-\x7e]*$/.test(query) ? query : undefined;
}
