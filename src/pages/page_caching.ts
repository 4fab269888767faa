import { copyHeaders } from "../http/headers.ts";

/** Headers that let a cache store or reuse a response, whatever its `Cache-Control` says. */
const CACHING_HEADERS: ReadonlySet<string> = new Set([
  "age",
  "edge-control",
  "expires",
  "pragma",
  "surrogate-control",
  "warning",
  "x-accel-expires",
]);

/** Targeted headers, such as `CDN-Cache-Control` and `Cloudflare-CDN-Cache-Control` (RFC 9213). */
const TARGETED_SUFFIX = "-cache-control";

const NO_NAMES: ReadonlySet<string> = new Set();

/** Decide whether an HTML document is sent as a page, with the configuration, or as a fragment. */
const DECIDING_HEADERS = ["Sec-Fetch-Dest", "Sec-Fetch-Mode"];

/**
 * Returns whether a script of a page requested the response (Fetch Metadata §2.1, §2.2). HTML is then a fragment, which
 * the script inserts into a page that has the configuration.
 *
 * A service worker that passes a navigation on with `fetch(event.request)` requests a page: the copy of the request has
 * no destination any more, but it still has the mode `navigate`, which no other script can set (Fetch §5.4).
 */
export function isFragmentRequest(headers: Headers): boolean {
  return headers.get("sec-fetch-dest") === "empty" &&
    headers.get("sec-fetch-mode") !== "navigate";
}

/** Destinations of documents (Fetch §2.2.5). */
const DOCUMENTS: ReadonlySet<string> = new Set([
  "document",
  "embed",
  "fencedframe",
  "frame",
  "iframe",
  "object",
]);

/** Returns whether the response may become a page: not if the browser says that it is for a part of one. */
export function mayExpectPage(headers: Headers): boolean {
  const destination = headers.get("sec-fetch-dest");
  return destination === null || DOCUMENTS.has(destination) ||
    headers.get("sec-fetch-mode") === "navigate";
}

/**
 * Copies the headers of an HTML document, with other caching headers: caches have to revalidate it, and may not store it
 * if it is secret. A stricter original directive is kept. A fragment gets the same headers, since caches that ignore
 * `Vary` would use it as a page.
 *
 * @param omitted Names of further headers that are not copied. To copy takes less time than to delete.
 */
export function withCachingHeaders(
  original: Headers,
  isSecret: boolean,
  omitted = NO_NAMES,
): Headers {
  const headers = copyHeaders(
    original,
    (name) => !isCachingHeader(name) && !omitted.has(name),
  );
  headers.append(
    "cache-control",
    cacheControl(original.get("cache-control") ?? "", isSecret),
  );
  headers.append("vary", withDecidingHeaders(original.get("vary")));
  return headers;
}

/** Whether a header is removed or replaced. */
function isCachingHeader(name: string): boolean {
  return CACHING_HEADERS.has(name) || name.endsWith(TARGETED_SUFFIX) ||
    name === "cache-control" || name === "vary";
}

function cacheControl(original: string, isSecret: boolean): string {
  if (isSecret || /\bno-store\b/i.test(original)) return "no-store";
  return /\bprivate\b/i.test(original) ? "private, no-cache" : "no-cache";
}

function withDecidingHeaders(vary: string | null): string {
  const names = (vary ?? "").split(",").map((name) =>
    name.trim().toLowerCase()
  );
  if (vary !== null && names.includes("*")) return vary;
  const missing = DECIDING_HEADERS.filter((name) =>
    !names.includes(name.toLowerCase())
  );
  return (vary ? [vary, ...missing] : missing).join(", ");
}
