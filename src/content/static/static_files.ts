import { resolve } from "@std/path/resolve";
import { Compressor } from "../../coding/compressor.ts";
import { methodNotAllowed, Problem } from "../../http/problem.ts";
import { type Clock, systemClock } from "../../values/clock.ts";
import { FileCache, type ServedFile } from "./file_cache.ts";
import { assetResponse, memoryResponse, pageResponse } from "./file_response.ts";
import type { FoundFile } from "./found_file.ts";
import { PathLookup, type Target } from "./path_lookup.ts";
import type { StaticPage } from "./static_page.ts";

/** Options of {@linkcode StaticFiles}. */
interface StaticFilesOptions {
  /** The directory to serve: `--static-dir`. */
  directory: string;
  /** How many bytes of files are kept in memory: `--static-cache`. @default {67_108_864} */
  cacheBytes?: number;
  /** Limits `Last-Modified` to the present (RFC 9110 §8.8.2.1), and the age of the cache. @default {systemClock} */
  clock?: Pick<Clock, "now">;
  /** The beginning of every request's path that is not part of a file's, such as `/app`. @default {""} */
  basePath?: string;
  /** Compresses files in the cache. @default {a new one} */
  compressor?: Compressor;
}

/** What is found for a request. The caller inserts the configuration into a page. */
export type StaticResult =
  | { readonly kind: "response"; readonly response: Response }
  | { readonly kind: "page"; readonly page: StaticPage }
  /** A response with a page that is not in memory. It is complete, whatever the request's preconditions and range. */
  | { readonly kind: "pageResponse"; readonly response: Response };

const METHODS = ["GET", "HEAD"];

/** The part of the cache that is for paths, not for files. */
const LOOKUP_SHARE = 1 / 16;

/**
 * Serves the files of a directory for a single-page app: a path without a file and without an extension is answered
 * with the root's `index.html`.
 *
 * A page (`text/html`) is returned complete, uncompressed and with its `ETag`, so that the caller can insert the
 * configuration. All other files support conditional requests, ranges, compressed variants and caching.
 *
 * What was found for a path is used for a second; files of up to 1 MiB stay in memory.
 */
export class StaticFiles {
  readonly #clock: Pick<Clock, "now">;
  readonly #lookup: PathLookup;
  readonly #files: FileCache;

  private constructor(options: Required<StaticFilesOptions>) {
    const { directory, cacheBytes, clock, basePath, compressor } = options;
    const lookupBytes = cacheBytes * LOOKUP_SHARE;
    this.#clock = clock;
    this.#lookup = new PathLookup({ directory, basePath, clock, maxBytes: lookupBytes });
    this.#files = new FileCache({ directory, clock, compressor, maxBytes: cacheBytes - lookupBytes });
  }

  /**
   * Opens a directory.
   *
   * @throws {Error} If the directory cannot be read.
   */
  static async open(options: StaticFilesOptions): Promise<StaticFiles> {
    const { directory, cacheBytes = 64 * 1024 * 1024, clock = systemClock, basePath = "" } = options;
    const { compressor = new Compressor() } = options;
    await assertReadable(directory);
    return new StaticFiles({ directory: resolve(directory), cacheBytes, clock, basePath, compressor });
  }

  /**
   * Responds to a GET or HEAD request with a file: at once, if it is in memory and was looked at within the last
   * second.
   *
   * @returns A response whose body has to be read or cancelled, or a page.
   * @throws {Problem} If there is no file at the path, or the request cannot be satisfied.
   */
  respond(request: Request): StaticResult | Promise<StaticResult> {
    if (!METHODS.includes(request.method)) throw methodNotAllowed(request.method, METHODS);
    const now = this.#clock.now();
    const target = this.#lookup.getFresh(pathOf(request.url), now);
    if (target?.kind === "absent") throw notFound();
    const file = target?.kind === "file" ? this.#files.getFresh(target.key, now) : undefined;
    return file === undefined || file.kind === "uncached" ? this.#find(request) : respondFromMemory(request, file);
  }

  async #find(request: Request): Promise<StaticResult> {
    const { pathname, search } = new URL(request.url);
    const first = await this.#lookup.find(pathname);
    const result = await this.#tryToRespond(request, first, search) ??
      await this.#tryToRespond(request, await this.#lookup.findAgain(pathname), search);
    if (result !== undefined) return result;
    this.#lookup.setAbsent(pathname);
    throw notFound();
  }

  async #tryToRespond(request: Request, target: Target, search: string): Promise<StaticResult | undefined> {
    if (target.kind === "absent") return undefined;
    if (target.kind === "redirect") return { kind: "response", response: redirect(target.location + search) };
    const file = await this.#files.load(target.names);
    if (file === undefined) return undefined;
    if (file.kind !== "uncached") return respondFromMemory(request, file);
    try {
      return await this.#respondUncached(request, file.found);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      this.#files.forget(target.names); // removed since it was found
      return undefined;
    }
  }

  async #respondUncached(request: Request, found: FoundFile): Promise<StaticResult> {
    if (found.isPage) return { kind: "pageResponse", response: await pageResponse(request, found) };
    return { kind: "response", response: await assetResponse(request, found, this.#clock.now()) };
  }
}

function respondFromMemory(request: Request, file: Exclude<ServedFile, { kind: "uncached" }>): StaticResult {
  if (file.kind === "page") return file;
  return { kind: "response", response: memoryResponse(request, file.representations) };
}

/**
 * Returns the path of a URL as it is written. If `URL` would change it, it is not that of a cached file: the paths of
 * those are normalized.
 */
function pathOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("//") + 2);
  const end = url.indexOf("?", start);
  return url.slice(start, end === -1 ? undefined : end);
}

async function assertReadable(directory: string): Promise<void> {
  try {
    for await (const _ of Deno.readDir(directory)) break; // closes the directory, which next() alone would not
  } catch (cause) {
    const message = `Cannot serve staticDir "${directory}": expected a readable directory, got ${cause}`;
    throw new Error(message, { cause });
  }
}

function notFound(): Problem {
  return new Problem(404, { detail: "Nothing found at this path" });
}

function redirect(location: string): Response {
  return new Response(null, { status: 308, headers: { location, "cache-control": "no-cache" } });
}
