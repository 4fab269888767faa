import { contentType } from "@std/media-types/content-type";
import { extname, resolve } from "@std/path";
import { type Clock, systemClock } from "../clock.ts";
import { methodNotAllowed, Problem } from "../http/problem.ts";
import { type FilePath, isPagePath, parseFilePath } from "./file_path.ts";
import { assetResponse, type FoundFile, pageResponse } from "./file_response.ts";
import { resolvePath } from "./resolve_path.ts";

/** Options of {@linkcode StaticFiles}. */
interface StaticFilesOptions {
  /** The directory to serve: `--static-dir`. */
  directory: string;
  /** Limits `Last-Modified` to the present (RFC 9110 §8.8.2.1). @default {systemClock} */
  clock?: Pick<Clock, "now">;
  /** The beginning of every request's path that is not part of a file's, such as `/app`. @default {""} */
  basePath?: string;
}

const METHODS = ["GET", "HEAD"];

const INDEX = "index.html";

/**
 * Serves the files of a directory for a single-page app: a path without a file and without an extension is answered
 * with the root's `index.html`.
 *
 * A page (`text/html`) is always sent complete, uncompressed and with its `ETag`, so that the caller can insert the
 * configuration. All other files support conditional requests, ranges, compressed variants and caching.
 */
export class StaticFiles {
  readonly #directory: string;
  readonly #clock: Pick<Clock, "now">;
  readonly #basePath: string;

  private constructor({ directory, clock, basePath }: Required<StaticFilesOptions>) {
    this.#directory = directory;
    this.#clock = clock;
    this.#basePath = basePath;
  }

  /**
   * Opens a directory.
   *
   * @throws {Error} If the directory cannot be read.
   */
  static async open(options: StaticFilesOptions): Promise<StaticFiles> {
    const { directory, clock = systemClock, basePath = "" } = options;
    await assertReadable(directory);
    return new StaticFiles({ directory: resolve(directory), clock, basePath });
  }

  /**
   * Responds to a GET or HEAD request with a file.
   *
   * @returns A response whose body has to be read or cancelled.
   * @throws {Problem} If there is no file at the path, or the request cannot be satisfied.
   */
  async respond(request: Request): Promise<Response> {
    if (!METHODS.includes(request.method)) throw methodNotAllowed(request.method, METHODS);
    // A missing file is looked up twice, since a mount may be swapped during the first lookup.
    const response = await this.#tryToRespond(request) ?? await this.#tryToRespond(request);
    if (response === undefined) throw new Problem(404, { detail: "Nothing found at this path" });
    return response;
  }

  async #tryToRespond(request: Request): Promise<Response | undefined> {
    try {
      return await this.#find(request);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return undefined; // removed between the lookup and the opening
      throw error;
    }
  }

  async #find(request: Request): Promise<Response | undefined> {
    const { pathname, search } = new URL(request.url);
    const path = parseFilePath(pathname.slice(this.#basePath.length));
    const found = path && await findFile(this.#directory, path);
    if (found === undefined) return undefined;
    if ("redirect" in found) return redirect(found.redirect + search);
    if (found.type.startsWith("text/html")) return await pageResponse(request, found);
    return await assetResponse(request, found, { directory: this.#directory, now: this.#clock.now() });
  }
}

async function assertReadable(directory: string): Promise<void> {
  try {
    for await (const _ of Deno.readDir(directory)) break; // closes the directory, which next() alone would not
  } catch (cause) {
    const message = `Cannot serve --static-dir "${directory}": expected a readable directory, got ${cause}`;
    throw new Error(message, { cause });
  }
}

async function findFile(directory: string, path: FilePath): Promise<FoundFile | { redirect: string } | undefined> {
  const { names, isDirectory } = path;
  const resolved = await resolvePath(directory, names);
  if (resolved.kind === "rejected") return undefined;
  if (resolved.kind === "file" && !isDirectory) return describeFile(names, resolved);
  const index = resolved.kind === "directory" ? await findIndex(directory, names) : undefined;
  if (index) return isDirectory ? index : { redirect: withSlash(names) };
  return isPagePath(path) ? await findIndex(directory, []) : undefined;
}

async function findIndex(directory: string, parents: readonly string[]): Promise<FoundFile | undefined> {
  const names = [...parents, INDEX];
  const resolved = await resolvePath(directory, names);
  return resolved.kind === "file" ? describeFile(names, resolved) : undefined;
}

function describeFile(names: readonly string[], { path, root }: Pick<FoundFile, "path" | "root">): FoundFile {
  const type = contentType(extname(names.at(-1) ?? "")) ?? "application/octet-stream";
  return { names, path, root, type };
}

/** Returns a relative location: it cannot lead to another host, and works behind a proxy that strips a prefix. */
function withSlash(names: readonly string[]): string {
  return `./${encodeURIComponent(names.at(-1) ?? "")}/`;
}

function redirect(location: string): Response {
  return new Response(null, { status: 308, headers: { location, "cache-control": "no-cache" } });
}
