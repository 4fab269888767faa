import { contentType } from "@std/media-types/content-type";
import { extname, resolve } from "@std/path";
import { type Clock, systemClock } from "../clock.ts";
import { methodNotAllowed, Problem } from "../http/problem.ts";
import { type FilePath, isPagePath, parseFilePath } from "./file_path.ts";
import { assetResponse, type FoundFile, pageResponse } from "./file_response.ts";
import { resolvePath } from "./resolve_path.ts";

/** Answers a request with a file. What cannot be answered is thrown as a {@linkcode Problem}. */
export type FileHandler = (request: Request) => Promise<Response>;

/** Settings of {@linkcode createStaticFiles}. */
export interface StaticFilesOptions {
  /** The directory that is served: `--static-dir`. */
  directory: string;
  /** Keeps a file from the future from saying so (RFC 9110 §8.8.2.1). @default {systemClock} */
  clock?: Pick<Clock, "now">;
}

const METHODS = ["GET", "HEAD"];

const INDEX = "index.html";

/**
 * Serves the files of a directory, as a single-page app wants them: a path that no file has and that has no extension
 * is answered with the root's `index.html`.
 *
 * A page (`text/html`) is always sent whole, uncompressed and with its `ETag`, for the layer that puts the
 * configuration into it. Everything else has conditional requests, ranges, compressed files and caching.
 *
 * @returns A handler for GET and HEAD. The body of its response has to be read or cancelled.
 * @throws {Error} If the directory cannot be read.
 */
export async function createStaticFiles(options: StaticFilesOptions): Promise<FileHandler> {
  const { directory, clock = systemClock } = options;
  await assertReadable(directory);
  const site = { directory: resolve(directory), clock };
  return async (request) => {
    if (!METHODS.includes(request.method)) throw methodNotAllowed(request.method, METHODS);
    // What is missing is looked for twice: it may be there, in a mount that was being swapped.
    const response = await tryToAnswer(request, site) ?? await tryToAnswer(request, site);
    if (response === undefined) throw new Problem(404, { detail: "Cannot find a file at this path" });
    return response;
  };
}

async function assertReadable(directory: string): Promise<void> {
  try {
    for await (const _ of Deno.readDir(directory)) break; // which closes it; next() alone would not
  } catch (cause) {
    const message = `Cannot serve --static-dir "${directory}": expected a directory that can be read, got ${cause}`;
    throw new Error(message, { cause });
  }
}

type Site = Required<StaticFilesOptions>;

async function tryToAnswer(request: Request, site: Site): Promise<Response | undefined> {
  try {
    return await answer(request, site);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined; // found, and gone before it could be opened
    throw error;
  }
}

async function answer(request: Request, { directory, clock }: Site): Promise<Response | undefined> {
  const { pathname, search } = new URL(request.url);
  const path = parseFilePath(pathname);
  const found = path && await findFile(directory, path);
  if (found === undefined) return undefined;
  if ("redirect" in found) return redirect(found.redirect + search);
  if (found.type.startsWith("text/html")) return await pageResponse(request, found);
  return await assetResponse(request, found, { directory, now: clock.now() });
}

async function findFile(directory: string, path: FilePath): Promise<FoundFile | { redirect: string } | undefined> {
  const { names, isDirectory } = path;
  const entry = await resolvePath(directory, names);
  if (entry.kind === "refused") return undefined;
  if (entry.kind === "file" && !isDirectory) return described(names, entry.path);
  const index = entry.kind === "directory" ? await findIndex(directory, names) : undefined;
  if (index) return isDirectory ? index : { redirect: withSlash(names) };
  return isPagePath(path) ? await findIndex(directory, []) : undefined;
}

async function findIndex(directory: string, above: readonly string[]): Promise<FoundFile | undefined> {
  const names = [...above, INDEX];
  const entry = await resolvePath(directory, names);
  return entry.kind === "file" ? described(names, entry.path) : undefined;
}

function described(names: readonly string[], path: string): FoundFile {
  const type = contentType(extname(names.at(-1) ?? "")) ?? "application/octet-stream";
  return { names, path, type };
}

/** Relative, so that it leads to no other host and stays right behind a proxy that strips a prefix. */
function withSlash(names: readonly string[]): string {
  return `./${encodeURIComponent(names.at(-1) ?? "")}/`;
}

function redirect(location: string): Response {
  return new Response(null, { status: 308, headers: { location, "cache-control": "no-cache" } });
}
