import { accepts } from "@std/http/negotiation";
import { Problem } from "../../core/http/problem.ts";

/** The path of a URL, relative to the served directory. */
export interface FilePath {
  /** The names of the path's segments, decoded if that is possible; empty for the served directory itself. */
  readonly names: readonly string[];
  /** Whether the path ends with a slash, so that only a directory matches. */
  readonly isDirectory: boolean;
  /** Whether a file may be there. If not, the path may still be a route of the app. */
  readonly mayBeFile: boolean;
  /** The response if it is neither. */
  readonly problem: Problem;
}

/** The request headers that decide whether a path without a file is a route. */
export const ROUTE_HEADERS = ["Sec-Fetch-Dest", "Sec-Fetch-Mode", "Accept"];

const VARY = ROUTE_HEADERS.join(", ");

const NEITHER = new Problem(404, {
  detail: "Nothing found at this path",
  headers: { vary: VARY },
});

const MALFORMED = new Problem(400, {
  detail: "Cannot parse the path: expected percent-encoded UTF-8",
  headers: { vary: VARY },
});

/** The only public name that begins with a dot (RFC 8615 §3). */
const WELL_KNOWN = ".well-known";

/**
 * What the name of a file never contains: path separators of any system; control characters, including the NUL that ends a
 * string in C; a dot, a separator or NUL that was encoded more than once, since a program behind the gateway may decode it
 * again.
 */
const FORBIDDEN = /[/\\]|\p{Cc}|%(?:25)*(?:2e|2f|5c|00)/iu;

/** A dot at the beginning of a name, or behind a separator in it, however often it was encoded. */
const HIDDEN = /(?:^|[/\\]|%(?:25)*(?:2f|5c))(?:\.|%(?:25)*2e)/i;

/**
 * Parses the path of a URL.
 *
 * It decodes each segment once, separately (RFC 3986 §2.4), so an encoded slash never becomes a separator.
 *
 * @returns `undefined` if nothing is served for the path: it contains a name that begins with a dot, or path traversal, in
 * any encoding.
 */
export function parseFilePath(pathname: string): FilePath | undefined {
  const segments = pathname.replace(/^\//, "").split("/");
  const isDirectory = segments.at(-1) === "";
  if (isDirectory) segments.pop();
  const decoded = decodeNames(segments);
  const names = decoded ?? segments;
  const isHidden = (name: string) => HIDDEN.test(name) && name !== WELL_KNOWN;
  if (names.some(isHidden)) return undefined;
  return {
    names,
    isDirectory,
    mayBeFile: decoded?.every((name) => name !== "" && !FORBIDDEN.test(name)) ??
      false,
    problem: decoded === undefined ? MALFORMED : NEITHER,
  };
}

/** Returns `undefined` if a percent sign is not followed by two hexadecimal digits, or the bytes are not UTF-8. */
function decodeNames(segments: readonly string[]): string[] | undefined {
  try {
    return segments.map(decodeURIComponent);
  } catch {
    return undefined; // browsers send such a path as it is in a link
  }
}

/** Paths of the health port. A probe that is sent to this port by mistake should fail, and not get a page. */
const PROBES: ReadonlySet<string> = new Set(["livez", "readyz", "metrics"]);

/** Returns whether a path without a file looks like that of a file, or like a mistake: only a document may be there. */
export function isOnlyForDocuments({ names, mayBeFile }: FilePath): boolean {
  return !mayBeFile || names.at(-1)?.includes(".") === true;
}

/**
 * Returns whether a path without a file is a route of the single-page app for a request.
 *
 * Nothing below `/.well-known/` is a route. Some clients test whether a missing resource there is answered with 404 before
 * they use one (W3C, Detecting the reliability of HTTP status codes).
 */
export function isRoute(path: FilePath, headers: Headers): boolean {
  const [first = "", second] = path.names;
  if (first === WELL_KNOWN) return false;
  if (isOnlyForDocuments(path)) {
    return !path.names.includes(WELL_KNOWN) && isDocumentRequest(headers);
  }
  const accepted = headers.get("accept") ?? "";
  if (second === undefined && PROBES.has(first)) {
    return accepted.includes("text/html");
  }
  return !/json/i.test(accepted) ||
    prefersHtml(headers, "text/html", "application/json");
}

/**
 * Returns whether a browser requests a document for a tab. It says so only to secure origins: elsewhere, it is who prefers
 * HTML. A service worker that forwards the request makes its destination empty, but not its mode; a script that looks for
 * another build says what it wants (`isFragmentRequest()`). A download
 * (`<a download>`) has both, too, and no `Accept`.
 */
function isDocumentRequest(headers: Headers): boolean {
  const destination = headers.get("sec-fetch-dest");
  if (destination === "document") return true;
  const isForwarded = destination === "empty" &&
    (headers.get("sec-fetch-mode") === "navigate" || headers.has("rep-page"));
  return (destination === null || isForwarded) &&
    prefersHtml(headers, "text/plain", "application/json", "text/html");
}

/** The longest `Accept` that is read: those of browsers have 200 characters, and 100,000 would take 0.1 s. */
const MAX_ACCEPT_LENGTH = 1_000;

/** Returns whether a client prefers HTML among media types; of those that it likes as much, it gets the first one. */
function prefersHtml(headers: Headers, ...types: string[]): boolean {
  const { length } = headers.get("accept") ?? "";
  const isLong = length > MAX_ACCEPT_LENGTH;
  const preferred = isLong ? types[0] : accepts({ headers }, ...types);
  return preferred === "text/html";
}

/** The extensions of `text/html` in `@std/media-types`. */
export const HTML = /\.(?:html|htm|shtml)$/i;

/** JSON without an extension: iOS looks for it in `/.well-known/`, and requires its media type. */
const APPLE_APP_SITE_ASSOCIATION = /(?:^|\/)apple-app-site-association$/;

/**
 * Returns the media type for a file's path, with its charset. It loads the table of types for the first file that is not
 * HTML.
 */
export async function mediaTypeOf(path: string): Promise<string> {
  if (HTML.test(path)) return "text/html; charset=UTF-8";
  if (APPLE_APP_SITE_ASSOCIATION.test(path)) return "application/json";
  const { contentType } = await import("@std/media-types/content-type");
  const [extension = ""] = /\.[^./]*$/.exec(path) ?? [];
  return contentType(extension) ?? "application/octet-stream";
}
