import { Problem } from "../../http/problem.ts";

/** The path of a URL, relative to the served directory. */
export interface FilePath {
  /** The decoded names of the path's segments; empty for the served directory itself. */
  names: readonly string[];
  /** Whether the path ends with a slash, and so can only be a directory. */
  isDirectory: boolean;
}

/** PATH_MAX of Linux: no longer path can be opened. */
const MAX_PATH_BYTES = 4096;

/** NAME_MAX of every common file system. */
const MAX_NAME_BYTES = 255;

/** The only public name that begins with a dot (RFC 8615 §3). */
const WELL_KNOWN = ".well-known";

/** Path separators of any system, and control characters, including the NUL that ends a string in C. */
const FORBIDDEN = /[/\\]|\p{Cc}/u;

/** A dot, a separator or NUL that is still encoded, any number of times: a program behind this one may decode again. */
const STILL_ENCODED = /%(?:25)*(?:2e|2f|5c|00)/i;

/** A path that can be split without another look at its names: nothing is encoded or begins with a dot. */
const PLAIN_PATH = /^(?:\/[\w~@-][\w.~@-]*)*\/?$/;

/**
 * Parses the path of a URL.
 *
 * Each segment is decoded once, on its own (RFC 3986 §2.4), so an encoded slash never becomes a separator.
 *
 * @returns `undefined` if no file may be served for the path: it has names that begin with a dot, path traversal in any
 * encoding, empty names, or a name or a length that no file system supports.
 * @throws {Problem} 400 if a percent sign is not followed by two hexadecimal digits, or the bytes are not UTF-8.
 */
export function parseFilePath(pathname: string): FilePath | undefined {
  if (pathname.length > MAX_PATH_BYTES) return undefined;
  const segments = pathname.replace(/^\//, "").split("/");
  const isPlain = pathname.length <= MAX_NAME_BYTES &&
    PLAIN_PATH.test(pathname);
  const names = isPlain ? segments : segments.map(decodeName);
  const isDirectory = names.at(-1) === "";
  if (isDirectory) names.pop();
  return isPlain || names.every(isAllowed) ? { names, isDirectory } : undefined;
}

/** What the health port serves: a probe of another port should fail there, and not find a page. */
const PROBES: ReadonlySet<string> = new Set(["livez", "readyz", "metrics"]);

/**
 * Returns whether a request for a path without a file may be for a route of the single-page app: the last name has no
 * extension.
 *
 * Nothing below `/.well-known/` is a page. Some clients first make sure that a missing resource there is answered with
 * 404 (W3C, Detecting the reliability of HTTP status codes).
 */
export function mayBeRoute({ names }: FilePath, headers: Headers): boolean {
  const [first = "", second] = names;
  if (first === WELL_KNOWN || names.at(-1)?.includes(".")) return false;
  return second !== undefined || !PROBES.has(first) ||
    headers.get("accept")?.includes("text/html") === true;
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
  if (name.startsWith(".") && name !== WELL_KNOWN) return false;
  return new TextEncoder().encode(name).length <= MAX_NAME_BYTES;
}
