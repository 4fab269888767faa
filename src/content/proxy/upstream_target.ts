import type { RequestUrl } from "../../http/request_urls.ts";

/**
 * Returns the request target for the upstream: its base path, followed by the path and the query of the request.
 *
 * The path is the normalized one, since the gateway's own routes are matched against it. Dot segments are
 * resolved before the base path is prepended, so no request leaves the base path. The path is not decoded or normalized
 * further. The query is forwarded byte for byte. The host is not part of the result: a request cannot choose it.
 *
 * @param upstream Its path is the base path.
 * @param basePath The beginning of the request's path that the upstream does not know, such as `/app`.
 * @returns The target in origin form (RFC 9112 §3.2.1), which always begins with a slash.
 */
export function upstreamTarget(upstream: URL, url: RequestUrl, basePath = ""): string {
  const base = upstream.pathname.replace(/\/$/, "");
  const path = url.path.slice(basePath.length);
  return base + (path.startsWith("/") ? path : `/${path}`) + url.search;
}
