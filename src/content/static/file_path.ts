import { Problem } from "../../core/http/problem.ts";

/** The path of a URL, relative to the served directory. */
export interface FilePath {
  /** The decoded names of the path's segments; empty for the served directory itself. */
  readonly names: readonly string[];
  /** Whether the path ends with a slash, so that only a directory matches. */
  readonly isDirectory: boolean;
}

/** The only public name that begins with a dot (RFC 8615 §3). */
const WELL_KNOWN = ".well-known";

/** Path separators of any system, and control characters, including the NUL that ends a string in C. */
const FORBIDDEN = /[/\\]|\p{Cc}/u;

/** A dot, a separator or NUL that was encoded more than once: a program behind the gateway may decode it again. */
const STILL_ENCODED = /%(?:25)*(?:2e|2f|5c|00)/i;

/**
 * Parses the path of a URL.
 *
 * It decodes each segment once, separately (RFC 3986 §2.4), so an encoded slash never becomes a separator.
 *
 * @returns `undefined` if the gateway must not serve a file for the path: it contains a name that begins with a dot, path
 * traversal in any encoding, or an empty name.
 * @throws {Problem} 400 if a percent sign is not followed by two hexadecimal digits, or the bytes are not UTF-8.
 */
export function parseFilePath(pathname: string): FilePath | undefined {
  const names = pathname.replace(/^\//, "").split("/").map(decodeName);
  const isDirectory = names.at(-1) === "";
  if (isDirectory) names.pop();
  if (!names.every(isAllowed)) return undefined;
  return { names, isDirectory };
}

function decodeName(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    throw new Problem(400, {
      detail: "Cannot parse the path: expected percent-encoded UTF-8",
    });
  }
}

function isAllowed(name: string): boolean {
  if (name === "" || FORBIDDEN.test(name) || STILL_ENCODED.test(name)) {
    return false;
  }
  return !name.startsWith(".") || name === WELL_KNOWN;
}

/** Paths of the health port. A probe that is sent to this port by mistake should fail, and not get a page. */
const PROBES: ReadonlySet<string> = new Set(["livez", "readyz", "metrics"]);

/**
 * Returns whether a path without a file may be a route of the single-page app. Its last name then has no extension.
 *
 * Nothing below `/.well-known/` is a route. Some clients test whether a missing resource there is answered with 404 before
 * they use one (W3C, Detecting the reliability of HTTP status codes).
 */
export function mayBeRoute({ names }: FilePath, headers: Headers): boolean {
  const [first = "", second] = names;
  if (first === WELL_KNOWN || names.at(-1)?.includes(".")) return false;
  return second !== undefined || !PROBES.has(first) ||
    headers.get("accept")?.includes("text/html") === true;
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
