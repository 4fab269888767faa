/** What the rule about origins looks at. */
export interface OriginContext {
  /** The `Origin` header. */
  origin: string | null;
  /** The `Sec-Fetch-Site` header, which page scripts can neither set nor change. */
  secFetchSite: string | null;
  /** The origin that the request itself was made to. */
  own: string;
  /** The configured origins. */
  allowed: readonly string[];
}

/**
 * Whether a text is an origin as browsers write it (RFC 6454 §6.2): scheme, host and port, without a slash at the end. Of
 * schemes that only an app's web view knows, such as `capacitor://localhost`, the URL standard has no origin to compare with.
 */
export function isOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { origin } = new URL(text);
  return origin === "null" ? /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@]+$/.test(text) : origin === text;
}

/**
 * Decides whether a request may have a session key (spec, Authentication 1 and 2).
 *
 * A browser sends no `Origin` with a same-origin GET, only `Sec-Fetch-Site: same-origin`: so a page of our own is told
 * from a stranger by that header and by the origin it asked.
 *
 * @returns Nothing if it may; else the reason why not.
 */
export function originRefusal(question: OriginContext): string | undefined {
  return question.allowed.length > 0 ? listedRefusal(question) : sameOriginRefusal(question);
}

function listedRefusal({ origin, secFetchSite, own, allowed }: OriginContext): string | undefined {
  if (origin !== null) {
    return allowed.includes(origin) ? undefined : "the origin is not one of the allowed origins";
  }
  if (secFetchSite !== "same-origin") return "there is no Origin header";
  return allowed.includes(own) ? undefined : `the request's own origin, ${own}, is not one of the allowed origins`;
}

function sameOriginRefusal({ origin, secFetchSite, own }: OriginContext): string | undefined {
  if (origin !== null) {
    return origin === own ? undefined : "the origin is not the gateway's own, and no other is allowed";
  }
  const isForeign = secFetchSite === "cross-site" || secFetchSite === "same-site";
  return isForeign ? `a ${secFetchSite} request is not a same-origin one` : undefined;
}

/**
 * The CORS headers for a request (Fetch standard, CORS protocol): an `Access-Control-Allow-Origin` for an origin that
 * is permitted, never `*`, and `Vary` in any case, so that no cache gives one origin's answer to another.
 */
export function corsHeaders(question: OriginContext): Headers {
  const headers = new Headers({ vary: "Origin" });
  const { origin } = question;
  if (origin !== null && originRefusal(question) === undefined) {
    headers.set("access-control-allow-origin", origin);
  }
  return headers;
}
