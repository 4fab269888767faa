import type { RouteContext } from "./routes.ts";

/** The parts of a request and of the configuration on which cross-origin access depends. */
export interface OriginContext {
  /** The `Origin` header. */
  origin: string | null;
  /** The `Sec-Fetch-Site` header, which page scripts can neither set nor change. */
  secFetchSite: string | null;
  /** The gateway's own origin, to which the request was made. */
  own: string;
  /** The configured origins; if there are none, only the own origin is allowed. */
  allowed: readonly string[];
}

/** Valid origins, for error messages. */
export const EXPECTED_ORIGINS =
  "origins such as https://app.example.com, without wildcards";

/** Reads on what cross-origin access depends. */
export function readOrigin(
  { headers }: Request,
  { client }: RouteContext,
  allowed: readonly string[],
): OriginContext {
  const origin = headers.get("origin");
  const secFetchSite = headers.get("sec-fetch-site");
  return { origin, secFetchSite, own: client.origin, allowed };
}

/**
 * Returns an origin as browsers serialize it (RFC 6454 §6.2): scheme and host in lower case, and a port only if it is
 * not the default. It ignores a trailing slash, and accepts schemes of web views, such as `capacitor://localhost`,
 * although the URL standard defines no origin for them.
 *
 * @returns `undefined` if the text is not an origin, or contains a wildcard, which no `Origin` header matches.
 */
export function normalizeOrigin(text: string): string | undefined {
  if (!/^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@*\\]+\/?$/i.test(text)) return undefined;
  const url = URL.parse(text);
  if (url === null) return undefined;
  if (url.origin !== "null") return url.origin;
  return text.replace(/\/$/, "").toLowerCase();
}

/**
 * Decides whether the origin of a request may get a session key (endpoint specification, Authentication 1 and 2).
 *
 * Browsers send no `Origin` with a same-origin GET, but `Sec-Fetch-Site: same-origin`. So a page of the gateway is
 * recognized by that header, and its origin is the one to which it made the request.
 *
 * @returns `undefined` if it may; otherwise the reason for the rejection.
 */
export function originRejection(context: OriginContext): string | undefined {
  if (context.allowed.length === 0) return sameOriginRejection(context);
  return listRejection(context);
}

function sameOriginRejection(
  { origin, secFetchSite, own }: OriginContext,
): string | undefined {
  if (origin === own) return undefined;
  if (origin !== null) {
    return `the origin is not the gateway's own, ${own}, and no other origin is allowed`;
  }
  if (secFetchSite === "cross-site" || secFetchSite === "same-site") {
    return `the request is ${secFetchSite}, not same-origin`;
  }
  return undefined;
}

function listRejection(
  { origin, secFetchSite, own, allowed }: OriginContext,
): string | undefined {
  if (origin !== null) {
    if (allowed.includes(origin)) return undefined;
    return "the origin is not an allowed origin";
  }
  if (secFetchSite !== "same-origin") return "the Origin header is missing";
  if (allowed.includes(own)) return undefined;
  return `the gateway's own origin, ${own}, is not an allowed origin`;
}

/**
 * Returns the CORS headers of a response (Fetch standard, CORS protocol): `Access-Control-Allow-Origin` with the origin
 * of the request if it is allowed, but never `*`, and always `Vary: Origin`, so that caches do not mix up the responses.
 * Scripts of a listed origin may send credentials, such as a cookie that a proxy in front of the gateway requires.
 */
export function corsHeaders(context: OriginContext): Record<string, string> {
  const headers: Record<string, string> = { "vary": "Origin" };
  const { origin } = context;
  if (origin !== null && originRejection(context) === undefined) {
    headers["access-control-allow-origin"] = origin;
    if (context.allowed.includes(origin)) {
      headers["access-control-allow-credentials"] = "true";
    }
  }
  return headers;
}

/** A list of header names (RFC 9110 §5.6.2). */
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~-]+(?: *, *[\w!#$%&'*+.^`|~-]+)*$/;
const MAX_HEADER_NAMES = 2_000;

/**
 * Responds to a CORS preflight (Fetch standard). Scripts of an allowed origin may send any header: what they add, such as
 * `traceparent`, depends on their libraries. For other origins, the response permits nothing.
 *
 * @param method The method that they may use.
 */
export function preflight(
  request: Request,
  context: OriginContext,
  method: string,
): Response {
  const headers = corsHeaders(context);
  headers["vary"] += ", Access-Control-Request-Headers";
  headers["allow"] = `${method}, OPTIONS`;
  if (originRejection(context) === undefined) {
    headers["access-control-allow-methods"] = method;
    headers["access-control-max-age"] = "600";
    const asked = request.headers.get("access-control-request-headers") ?? "";
    if (asked.length <= MAX_HEADER_NAMES && HEADER_NAMES.test(asked)) {
      headers["access-control-allow-headers"] = asked;
    }
  }
  return new Response(null, { status: 204, headers });
}
