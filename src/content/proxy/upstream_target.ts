/**
 * Returns the request target for the upstream: its base path, followed by the path and the query of the request.
 *
 * The path is the one that `URL` parses, since the gateway's own routes are matched against it. Dot segments are
 * resolved before the base path is prepended, so no request leaves the base path. The path is not decoded or normalized
 * further. The query is forwarded byte for byte. The host is not part of the result: a request cannot choose it.
 *
 * @param upstream Its path is the base path.
 * @param basePath The beginning of the request's path that the upstream does not know, such as `/app`.
 * @param requestUrl The URL of the request as the server received it, which, unlike a `URL`, is not normalized.
 * @returns The target in origin form (RFC 9112 §3.2.1), which always begins with a slash.
 */
export function upstreamTarget(upstream: URL, requestUrl: string, basePath = ""): string {
  const base = upstream.pathname.replace(/\/$/, "");
  const { pathname: fullPath, search } = new URL(requestUrl);
  const pathname = fullPath.slice(basePath.length);
  const path = pathname.startsWith("/") ? pathname : `/${pathname}`;
  return base + path + (rawQuery(requestUrl) ?? search);
}

/** Returns the query as it was sent, or `undefined` if it has characters that are not allowed in a request line. */
function rawQuery(url: string): string | undefined {
  const [withoutFragment = ""] = url.split("#", 1);
  const start = withoutFragment.indexOf("?");
  const query = start === -1 ? "" : withoutFragment.slice(start);
  return /^[\x21-\x7e]*$/.test(query) ? query : undefined;
}
