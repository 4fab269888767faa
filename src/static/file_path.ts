import { Problem } from "../http/problem.ts";

/** What a URL's path asks for, below the directory that is served. */
export interface FilePath {
  /** The decoded names on the way down; none for the directory itself. */
  names: readonly string[];
  /** Whether the path ended with a slash, and so can only be a directory. */
  isDirectory: boolean;
}

/** Linux's PATH_MAX: nothing longer can be opened. */
const MAX_PATH_BYTES = 4096;

/** NAME_MAX of every file system in use. */
const MAX_NAME_BYTES = 255;

/** The one name with a dot in front that is meant for the public (RFC 8615 §3). */
const WELL_KNOWN = ".well-known";

/** What separates names on some system or ends them in C, and what has no place in a name. */
const FORBIDDEN = /[/\\]|\p{Cc}/u;

/** A dot, a separator or NUL that is still encoded, be it ever so often: for somebody behind us who decodes once more. */
const STILL_ENCODED = /%(?:25)*(?:2e|2f|5c|00)/i;

/**
 * Reads the path of a URL as names of files.
 *
 * Decodes once, name by name (RFC 3986 §2.4), so that an encoded slash never becomes a separator.
 *
 * @returns Nothing if no file may be served under that path: dot files, ways up and their disguises, empty names, names
 * and paths too long for a file system.
 * @throws {Problem} 400, if a percent sign is not followed by two hexadecimal digits or the bytes are not UTF-8.
 */
export function parseFilePath(pathname: string): FilePath | undefined {
  if (pathname.length > MAX_PATH_BYTES) return undefined;
  const names = pathname.replace(/^\//, "").split("/").map(decodeName);
  const isDirectory = names.at(-1) === "";
  if (isDirectory) names.pop();
  return names.every(isAllowed) ? { names, isDirectory } : undefined;
}

/**
 * Tells whether the single-page app may own a path that no file has: its last name has no extension.
 *
 * Nothing below `/.well-known/` is a page. Programs look there, and some first make sure that what does not exist is
 * answered with 404 (W3C, Detecting the reliability of HTTP status codes).
 */
export function isPagePath({ names }: FilePath): boolean {
  return names[0] !== WELL_KNOWN && !names.at(-1)?.includes(".");
}

function decodeName(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    throw new Problem(400, { detail: "Cannot read the path: expected percent-encoded UTF-8" });
  }
}

function isAllowed(name: string): boolean {
  if (name === "" || FORBIDDEN.test(name) || STILL_ENCODED.test(name)) return false;
  if (name.startsWith(".") && name !== WELL_KNOWN) return false;
  return new TextEncoder().encode(name).length <= MAX_NAME_BYTES;
}
