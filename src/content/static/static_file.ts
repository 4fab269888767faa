import type { Compressor } from "../../coding/compressor.ts";
import { Representations } from "../../coding/representations.ts";
import type { Log } from "../../observe/log.ts";
import { HtmlFile } from "../../pages/html_file.ts";
import type { Clock } from "../../values/clock.ts";
import { isBeingWritten, isSettled, versionOf } from "./look.ts";
import { isHashedName } from "./hashed_name.ts";
import { mediaTypeOf } from "./media_type.ts";
import { type FileContent, type FilePlace, readFile } from "./open_file.ts";

/** A file as it was when it was looked at. */
export interface StaticFile {
  /** The paths and versions of the file and its variants. */
  readonly version: string;
  /** The hashes of what is in memory. */
  readonly etags: string;
  /** Whether every later change changes the version. If not, the file has to be read again. */
  readonly isSettled: boolean;
  /** Whether it may be incomplete. */
  readonly isBeingWritten: boolean;
  /** What is sent: the same object for as long as the file is unchanged. A page is made of an HTML file. */
  readonly content: HtmlFile | Representations;
}

/** Options of {@linkcode loadFile}. */
interface LoadOptions {
  /** How many bytes are kept in memory. With 0, nothing is, and nothing is compressed. */
  readonly cacheBytes: number;
  readonly clock: Pick<Clock, "now">;
  readonly compressor: Compressor;
  readonly log: Log;
}

/** Larger files are streamed. */
const MAX_KEPT_BYTES = 1024 * 1024;

/** Files up to this size are read into memory even if they cannot be kept. */
const MIN_STREAMED_BYTES = 256 * 1024;

/** The part of the cache that a file may take: with all that is made of a page, it takes seven times its size. */
const FILE_SHARE = 1 / 8;

/** The cache control of a file that never changes: one year, the longest time in common use. */
const IMMUTABLE = "public, max-age=31536000, immutable";

/** The name of a file, as it is requested: a link may lead to a file with another one. */
export interface FileName {
  readonly name: string;
  /** All names in the directory. */
  readonly siblings: ReadonlySet<string>;
}

/**
 * Reads a file and its variants, unless what is known of them is current.
 *
 * @param places The file, and its compressed variants.
 * @throws {Deno.errors.NotFound} If one of them is not there any more. Other errors are those of `Deno.open`.
 */
export async function loadFile(
  name: FileName,
  places: readonly FilePlace[],
  known: StaticFile | undefined,
  { cacheBytes, clock, compressor, log }: LoadOptions,
): Promise<StaticFile> {
  if (known?.isSettled && known.version === versionOfAll(places)) return known;
  const maxKeptBytes = Math.min(MAX_KEPT_BYTES, cacheBytes * FILE_SHARE);
  const contents = await readAll(
    places,
    Math.max(maxKeptBytes, MIN_STREAMED_BYTES),
  );
  const description = describe(contents);
  if (
    known?.version === description.version && known.etags === description.etags
  ) return { ...known, ...description };
  const isKept = contents[0].stats.size <= maxKeptBytes;
  const context = {
    ...name,
    type: await mediaTypeOf(name.name),
    now: clock.now(),
    compressor: isKept ? compressor : undefined,
    log,
  };
  return { ...description, content: contentOf(contents, context) };
}

type Contents = readonly [FileContent, ...FileContent[]];

async function readAll(
  [file, ...variants]: readonly FilePlace[],
  maxBytes: number,
): Promise<Contents> {
  const reading = variants.map((variant) =>
    readFile(variant, maxBytes).catch(ignoreUnreadable)
  );
  const [first, ...others] = await Promise.all([
    readFile(file!, maxBytes),
    ...reading,
  ]);
  return [first, ...others.filter((content) => content !== undefined)];
}

/** A variant that must not be read is left out: the file itself can be sent. */
function ignoreUnreadable(error: unknown): undefined {
  if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
}

function describe(contents: Contents): Omit<StaticFile, "content"> {
  return {
    version: versionOfAll(contents),
    etags: contents.map(({ etag }) => etag).join(),
    isSettled: contents.every(isSettled),
    isBeingWritten: contents.some(isBeingWritten),
  };
}

function versionOfAll(files: readonly FilePlace[]): string {
  return files.map(versionOf).join("\n");
}

/** Returns whether a version is that of a file, or of one of its variants. */
export function hasVersion(
  { version: all }: StaticFile,
  version: string,
): boolean {
  return all.split("\n").includes(version);
}

/** What the content of a response depends on, besides the file. */
interface ContentContext extends FileName {
  /** The media type, with its charset. */
  readonly type: string;
  /** The time, in milliseconds since the Unix epoch. */
  readonly now: number;
  /** `undefined` if the file is not kept, and so not worth compressing. */
  readonly compressor: Compressor | undefined;
  readonly log: Log;
}

function contentOf(
  [file, ...variants]: Contents,
  { name, siblings, type, now, compressor, log }: ContentContext,
): StaticFile["content"] {
  const { body, etag, stats: { mtime } } = file;
  const common = { "content-type": type, "x-content-type-options": "nosniff" };
  if (type.startsWith("text/html")) {
    const headers = {
      ...common,
      "cache-control": "no-cache",
      ...(etag ? { etag } : {}),
    };
    return new HtmlFile({
      body,
      headers: new Headers(headers),
      compressor,
      log,
    });
  }
  const lastModified = mtime
    ? new Date(Math.min(mtime.getTime(), now))
    : undefined; // RFC 9110 §8.8.2.1
  const headers = {
    ...common,
    "accept-ranges": "bytes",
    "cache-control": isHashedName(name, siblings) ? IMMUTABLE : "no-cache",
    ...(lastModified ? { "last-modified": lastModified.toUTCString() } : {}),
  };
  return new Representations(
    { isPage: false, headers, lastModified, compressor },
    file,
    variants,
  );
}
