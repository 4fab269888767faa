import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { NodeHandler } from "../adapters/node_handler.ts";
import type { ViteConfig } from "./vite.ts";

/**
 * The defaults of `server.fs.deny` in Vite 6 to 8. A plugin that sets the option replaces the defaults, so it has to
 * repeat them. A test compares this list with that of each version.
 */
const VITE_DENIALS = [
  ".env",
  ".env.*",
  "*.{crt,pem}",
  "*.{crt,pem,key,p12,pfx,cer,der}",
  ".npmrc",
  ".yarnrc.yml",
  "**/.git/**",
];

/** Returns the patterns for `server.fs.deny` that deny files by their absolute paths. */
export function denialsOf(
  paths: readonly string[],
  denied: readonly string[] | undefined,
): string[] {
  const patterns = paths.map(escape);
  // Vite appends them to the list in the user's configuration, if there is one.
  return denied === undefined ? [...VITE_DENIALS, ...patterns] : patterns;
}

/** Returns a picomatch pattern that matches only this path. */
function escape(path: string): string {
  return path.replaceAll("\\", "/").replace(/[^\w\s/.:-]/g, "\\$&");
}

/**
 * Returns a handler that answers requests for these files with 403 and leaves all other requests to Vite.
 *
 * Vite finds a file under many spellings: encoded, with doubled slashes, below `/@fs/`, through links. So the handler
 * compares the file that a request leads to, not the spelling.
 *
 * @param folders The absolute paths of the folders from which Vite serves files.
 */
export function denyFiles(
  paths: readonly string[],
  { base }: ViteConfig,
  folders: readonly string[],
): NodeHandler {
  return async (request, response, next = () => {}) => {
    const names = namesIn(request.url ?? "/", base);
    const files = [...folders, "/"].flatMap((folder) =>
      names.map((name) => resolve(folder, name))
    );
    const found = await findSame(files, paths);
    if (found === undefined) return next();
    response.writeHead(403, { "cache-control": "no-store" });
    response.end();
  };
}

/** The prefixes that Vite removes from a path, in any order and any number of times. */
const PREFIXES = /^(?:\/|@fs\/|@id\/|file:\/)+/;

/** Different parts of Vite decode a path a different number of times. */
const MAX_DECODINGS = 3;

/** Returns the names of all files, relative to a folder, that Vite may read for a request target. */
function namesIn(url: string, base: string): string[] {
  const names: string[] = [];
  let path = url.replace(/^[a-z]+:\/\/[^/]*/i, "");
  let prefix = base;
  for (let decodings = 0; decodings <= MAX_DECODINGS; decodings++) {
    path = path.replace(/[?#].*$/s, "").replaceAll("\\", "/");
    names.push(nameAfter(prefix, path));
    if (!path.includes("%")) break;
    path = decode(path);
    prefix = decode(prefix);
  }
  return names;
}

function nameAfter(base: string, path: string): string {
  const name = path.replace(PREFIXES, "");
  const folder = base.replace(PREFIXES, "");
  const inner = name.startsWith(folder) ? name.slice(folder.length) : name;
  // Vite ignores slashes at the end; Windows ignores dots and spaces there.
  return inner.replace(PREFIXES, "").replace(/[/. ]+$/, "");
}

function decode(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path; // no file has this name
  }
}

/** Returns the first of the files that is the same file as one of the paths, under any name or link. */
export async function findSame(
  files: readonly string[],
  paths: readonly string[],
): Promise<string | undefined> {
  const own = await Promise.all(paths.map(identityOf));
  for (const file of files) {
    const identity = await identityOf(file);
    if (identity !== undefined && own.includes(identity)) return file;
  }
}

async function identityOf(path: string): Promise<string | undefined> {
  try {
    const { dev, ino } = await stat(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    return undefined; // the file does not exist, or this process may not read it
  }
}
