import { eTag } from "@std/http/etag";
import { contentType } from "@std/media-types/content-type";
import type { Compressor } from "../../coding/compressor.ts";
import { preferredCoding } from "../../coding/content_coding.ts";
import { represent, Representations, type Resource, type StreamedBody } from "../../coding/representations.ts";
import { send } from "../../coding/send.ts";
import type { Log } from "../../observe/log.ts";
import type { ConfigScript } from "../../pages/config_script.ts";
import { representationOf } from "../../pages/page_response.ts";
import type { Clock } from "../../values/clock.ts";
import { isHashedName } from "./hashed_name.ts";
import { type FilePlace, type FilePlaces, type OpenFile, openFile, streamBytes } from "./open_file.ts";

/** A file, ready to be sent. It is the same object for as long as the file is unchanged. */
export interface ServedFile {
  /** Whether the configuration is inserted into it. */
  readonly isPage: boolean;
  /** What it takes in memory, in bytes, with all that may be made of it. */
  readonly bytes: number;
  /**
   * Responds to a GET or HEAD request.
   *
   * @param script What is inserted into a page; `undefined` for a fragment.
   * @throws {Problem} 412 or 416.
   * @throws {Deno.errors.NotFound} If the file is not there any more.
   */
  readonly respond: (request: Request, script: ConfigScript | undefined) => Response | Promise<Response>;
}

/** A file or a variant, in memory. */
export interface FileContent extends FilePlace {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /**
   * A hash of the bytes. Size and time would not distinguish versions: images are often built with the same date for
   * all files, and a page or a service worker in which only a hash changes keeps its size.
   */
  readonly etag: string | undefined;
}

/** The cache control of a file that never changes: one year, the longest time in common use. */
const IMMUTABLE = "public, max-age=31536000, immutable";

/** Returns whether the configuration is inserted into a file with this name. */
export function isPageName(name: string): boolean {
  return typeOf(name).startsWith("text/html");
}

/** Returns the media type, with its charset. */
function typeOf(name: string): string {
  const [extension = ""] = /\.[^.]*$/.exec(name) ?? [];
  return contentType(extension) ?? "application/octet-stream";
}

/** Returns the headers of a page as it is. */
export function pageHeaders(name: string, etag: string | undefined): Headers {
  const headers = { "content-type": typeOf(name), "cache-control": "no-cache", "x-content-type-options": "nosniff" };
  return new Headers({ ...headers, ...(etag ? { etag } : {}) });
}

/** RFC 9110 §8.8.2.1: `Last-Modified` is never in the future. */
function assetOf(name: string, { stats: { mtime } }: FilePlace, now: number): Resource {
  const lastModified = mtime ? new Date(Math.min(mtime.getTime(), now)) : undefined;
  const headers = {
    "accept-ranges": "bytes",
    "cache-control": isHashedName(name) ? IMMUTABLE : "no-cache",
    "content-type": typeOf(name),
    "x-content-type-options": "nosniff",
    ...(lastModified ? { "last-modified": lastModified.toUTCString() } : {}),
  };
  return { isPage: false, headers, lastModified };
}

/** What an asset in memory needs besides its contents. */
interface AssetContext {
  /** The time, in milliseconds since the Unix epoch. */
  readonly now: number;
  /** `undefined` if the file is not kept, and so not worth compressing. */
  readonly compressor: Compressor | undefined;
}

/** Returns a file in memory that is not a page. Variants next to it take precedence over those that are made here. */
export function servedAsset(
  name: string,
  [file, ...variants]: readonly [FileContent, ...FileContent[]],
  { now, compressor }: AssetContext,
): ServedFile {
  const representations = new Representations(assetOf(name, file, now), file, { variants, compressor });
  return {
    isPage: false,
    bytes: representations.maxBytes,
    respond: (request) => send(request, representations.select(request.headers)),
  };
}

/** What a streamed file needs besides its places. */
interface StreamContext {
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
}

/** Returns a file that is opened for each request, with its variants; those of a page are not used. */
export function streamedFile(name: string, places: FilePlaces, { clock, log }: StreamContext): ServedFile {
  const isPage = isPageName(name);
  const variants = isPage ? [] : places.variants;
  const respond: ServedFile["respond"] = async (request, script) => {
    const opened = await openPreferred({ ...places, variants }, request.headers.get("accept-encoding"));
    const { coding, stats: { size } } = opened;
    // Strong, although derived from size and time: If-Range requires it, and file systems keep at least milliseconds.
    const etag = await eTag(opened.stats, { weak: false });
    const body = bodyOf(opened);
    if (isPage) return send(request, representationOf({ headers: pageHeaders(name, etag), body }, script, log));
    const options = { coding, etag, body, size, varies: variants.length > 0 };
    return send(request, represent(assetOf(name, opened, clock.now()), options));
  };
  return { isPage, bytes: 0, respond };
}

/** Opens the variant that a client prefers; the file itself if there is none, or it must not be read. */
async function openPreferred({ file, variants }: FilePlaces, accepted: string | null): Promise<OpenFile> {
  const coding = preferredCoding(accepted, variants.map(({ coding }) => coding));
  const variant = variants.find((variant) => variant.coding === coding);
  try {
    if (variant !== undefined) return await openFile(variant);
  } catch (error) {
    if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
  }
  return await openFile(file);
}

function bodyOf({ file, path, stats: { size } }: OpenFile): StreamedBody {
  return {
    size,
    read: (range = { start: 0, end: size }) => streamBytes(file, path, range),
    cancel: () => file.close(),
  };
}
