/** Headers that let a cache store or reuse a response, whatever its `Cache-Control` says. */
const CACHING_HEADERS = [
  "age",
  "edge-control",
  "expires",
  "pragma",
  "surrogate-control",
  "warning",
  "x-accel-expires",
];

/** Targeted headers, such as `CDN-Cache-Control` and `Cloudflare-CDN-Cache-Control` (RFC 9213). */
const TARGETED_SUFFIX = "-cache-control";

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
  return headers.get("sec-fetch-dest") === "empty" && headers.get("sec-fetch-mode") !== "navigate";
}

/**
 * Replaces the caching headers of an HTML document: caches have to revalidate it, and may not store it if it is secret.
 * A stricter original directive is kept. A fragment gets the same headers, since caches that ignore `Vary` would use it
 * as a page.
 */
export function replaceCachingHeaders(headers: Headers, isSecret: boolean): void {
  const targeted: string[] = [];
  headers.forEach((_value, name) => { // not keys(), each of whose steps sorts all headers
    if (name.endsWith(TARGETED_SUFFIX)) targeted.push(name);
  });
  for (const name of [...CACHING_HEADERS, ...targeted]) headers.delete(name);
  headers.set("cache-control", cacheControl(headers.get("cache-control") ?? "", isSecret));
  headers.set("vary", withDecidingHeaders(headers.get("vary")));
}

function cacheControl(original: string, isSecret: boolean): string {
  if (isSecret || /\bno-store\b/i.test(original)) return "no-store";
  return /\bprivate\b/i.test(original) ? "private, no-cache" : "no-cache";
}

function withDecidingHeaders(vary: string | null): string {
  const names = (vary ?? "").split(",").map((name) => name.trim().toLowerCase());
  if (vary !== null && names.includes("*")) return vary;
  const missing = DECIDING_HEADERS.filter((name) => !names.includes(name.toLowerCase()));
  return (vary ? [vary, ...missing] : missing).join(", ");
}
