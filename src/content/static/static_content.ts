import { isCompressibleType } from "../../coding/content_coding.ts";
import type { Compressor } from "../../coding/compressor.ts";
import { eTag } from "@std/http/etag";
import {
  type CodedBody,
  CODINGS,
  type RepresentationCoding,
  Representations,
} from "../../coding/representations.ts";
import {
  type ByteRange,
  isStreamed,
  send,
  type SendRequest,
  type StreamedBody,
} from "../../http/send.ts";
import { Problem } from "../../http/problem.ts";
import { notFound, type RouteContext } from "../../http/routes.ts";
import type { Log } from "../../observe/log.ts";
import type { GetConfigScript } from "../../pages/config_script.ts";
import { HtmlFile, isFragmentRequest } from "../../pages/page.ts";
import { type Clock, withDeadline } from "../../values/clock.ts";
import {
  globMatcher,
  isInside,
  SEPARATOR,
  toAbsolute,
} from "../../values/paths.ts";
import { SharedCalls } from "../../values/shared_calls.ts";
import { SizeBoundedCache } from "../../values/size_bounded_cache.ts";
import { type RequestCounts, transferBody, Transfers } from "../transfers.ts";
import { BarredFiles } from "./barred_files.ts";

// Names -----------------------------------------------------------------------

/** The path of a URL, relative to the served directory. */
export interface FilePath {
  /** The decoded names of the path's segments; empty for the served directory itself. */
  readonly names: readonly string[];
  /** Whether the path ends with a slash, and so can only be a directory. */
  readonly isDirectory: boolean;
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
  const names = pathname.replace(/^\//, "").split("/").map(decodeName);
  const isDirectory = names.at(-1) === "";
  if (isDirectory) names.pop();
  return names.every(isAllowed) ? { names, isDirectory } : undefined;
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

/** The extensions of `text/html` in `@std/media-types`. */
const HTML = /\.(?:html|htm|shtml)$/i;

/**
 * Returns the media type of a file by its name, with its charset. The table of types is loaded for the first file that is
 * not HTML.
 */
export async function mediaTypeOf(name: string): Promise<string> {
  if (HTML.test(name)) return "text/html; charset=UTF-8";
  const { contentType } = await import("@std/media-types/content-type");
  const [extension = ""] = /\.[^.]*$/.exec(name) ?? [];
  return contentType(extension) ?? "application/octet-stream";
}

// Look ------------------------------------------------------------------------

/** What was seen at a path. */
type Seen = SeenFile | SeenOther;

/** A file that may be served, and its compressed variants. */
interface SeenFile {
  readonly kind: "file";
  /** The path in the served directory, as it was requested. */
  readonly key: string;
  /** The media type, with its charset. */
  readonly type: string;
  readonly coding: RepresentationCoding;
  readonly variants: readonly SeenFile[];
  /** The real path, and that of the served directory. */
  readonly path: string;
  readonly root: string;
  readonly stats: Deno.FileInfo;
  /**
   * When it was looked at, or a little earlier, by the clock that file systems use: the system's, in milliseconds since
   * the Unix epoch.
   */
  readonly lookedAt: number;
}

/** `rejected`: it must not be served. `unreadable`: the log says why. `gone`: the served directory is not there. */
interface SeenOther {
  readonly kind: "directory" | "absent" | "rejected" | "unreadable" | "gone";
}

const DIRECTORY: Seen = { kind: "directory" };
const ABSENT: Seen = { kind: "absent" };
const REJECTED: Seen = { kind: "rejected" };
const UNREADABLE: Seen = { kind: "unreadable" };
const GONE: Seen = { kind: "gone" };

interface Look {
  readonly seen: Seen;
  /** In milliseconds of the monotonic clock. */
  until: number;
}

/** How long what was seen is used without looking again. */
const MAX_AGE_MS = 1_000;
/** How long it is while the app is not there, so that it is back at once. */
const GONE_AGE_MS = 20;

/** Each takes a kilobyte or two, also for a path that does not exist. */
const MAX_LOOKS = 4_096;

/** How long a look, or reading a file into memory, may take. */
const DEADLINE_MS = 5_000;

/** How often it is logged that something cannot be read. */
const LOG_INTERVAL_MS = 60_000;

/** What {@linkcode Looks} needs. */
interface LooksOptions {
  /** The served directory, as an absolute path: it may be, or lead over, a link that is switched. */
  readonly directory: string;
  readonly barred: BarredFiles;
  readonly clock: Clock;
  readonly log: Log;
}

/** What is at the paths of a directory, looked at once a second at most. */
class Looks {
  readonly #options: LooksOptions;
  readonly #looks = new SizeBoundedCache<Look>(MAX_LOOKS);
  readonly #looking = new SharedCalls<Seen>();
  /** What the directory itself was when something was last not found in it. */
  #root: string | undefined;
  #isAppGone = false;
  #loggedAt = -Infinity;

  constructor(options: LooksOptions) {
    this.#options = options;
  }

  /** Returns what was at a path within the last second. Requests that come in at once share one look. */
  async look(key: string): Promise<Seen> {
    const last = this.#looks.get(key);
    const now = this.#options.clock.monotonic();
    if (last !== undefined && now < last.until) return last.seen;
    return await this.#looking.run(key, () => this.#lookAgain(key, last?.seen));
  }

  /** Looks again when the file is asked for the next time. */
  forget({ key }: SeenFile): void {
    const last = this.#looks.get(key);
    if (last !== undefined) last.until = -Infinity;
  }

  /** While the app is not there, what is not found is looked for again soon: it will be back as soon as the app is. */
  set isAppGone(isGone: boolean) {
    if (isGone && !this.#isAppGone) this.#looks.clear();
    this.#isAppGone = isGone;
  }

  /** Logs that something cannot be read, once a minute. */
  report(error: unknown, key: string): void {
    const { clock, directory, log } = this.#options;
    const now = clock.monotonic();
    if (now - this.#loggedAt < LOG_INTERVAL_MS) return;
    this.#loggedAt = now;
    log.error("rep.static.unreadable", {
      detail: `cannot read "${directory}/${key}": ${error}`,
    });
  }

  async #lookAgain(key: string, before: Seen | undefined): Promise<Seen> {
    const now = this.#options.clock.monotonic();
    let seen: Seen;
    try {
      seen = await inTime(
        this.#see(key, before?.kind === "file"),
        this.#options.clock,
      );
    } catch (error) {
      seen = this.#explain(error, key);
    }
    this.#looks.set(key, { seen, until: now + this.#maxAgeOf(seen) });
    return seen;
  }

  #explain(error: unknown, key: string): Seen {
    if (isPermanent(error)) return REJECTED;
    if (!isUnreadable(error)) throw error; // it may be over with the next request
    this.report(error, key);
    return UNREADABLE;
  }

  /** What is not there during a deployment, or is not complete yet, will be soon. */
  #maxAgeOf(seen: Seen): number {
    if (seen.kind === "file") {
      return [seen, ...seen.variants].some(isBeingWritten) ? 0 : MAX_AGE_MS;
    }
    const isGone = seen.kind === "gone" ||
      (seen.kind === "absent" && this.#isAppGone);
    return isGone ? GONE_AGE_MS : MAX_AGE_MS;
  }

  /**
   * Sees what is at a path. If nothing is, it looks once more where there was something before, or if the directory has
   * been replaced: the links of a mounted ConfigMap, or the directory itself, may just have been switched. So does it if
   * what is there must not be served: it may lie in the directory to which a link has led until now.
   */
  async #see(key: string, wasFile: boolean): Promise<Seen> {
    const { directory } = this.#options;
    let wasThere = wasFile;
    for (let attempt = 1;; attempt++) {
      try {
        const path = await Deno.realPath(`${directory}/${key}`);
        wasThere = true;
        const seen = await this.#inspect(path, key);
        if (seen !== REJECTED || attempt === 2) return seen;
        continue;
      } catch (error) {
        if (!isAbsence(error)) throw error;
      }
      const root = await identifyDirectory(directory);
      if (root === undefined) return GONE;
      const wasReplaced = this.#root !== undefined && root !== this.#root;
      this.#root = root;
      if (attempt === 2 || !(wasThere || wasReplaced)) return ABSENT;
    }
  }

  async #inspect(path: string, key: string): Promise<Seen> {
    const root = await Deno.realPath(this.#options.directory);
    const seen = await this.#judge(path, root, key);
    if (seen.kind !== "file" || !isCompressibleType(seen.type)) return seen;
    if (HTML.test(key)) return seen; // a page is never sent as it is
    const variants = CODINGS.map(async ({ name, suffix }) => {
      try {
        const path = await Deno.realPath(`${root}/${key}${suffix}`);
        const variant = await this.#judge(path, root, key + suffix);
        if (variant.kind === "file") return { ...variant, coding: name };
      } catch {
        // The file itself can be sent.
      }
    });
    const found = (await Promise.all(variants)).filter((it) =>
      it !== undefined
    );
    return { ...seen, variants: found };
  }

  /** Links may lead anywhere, but only regular files in the directory are sent, and none of the gateway's own. */
  async #judge(path: string, root: string, key: string): Promise<Seen> {
    const lookedAt = Date.now();
    const stats = await Deno.stat(path);
    if (!isInside(path, root)) return REJECTED;
    if (isSpelledOtherwise(path.slice(root.length), `/${key}`)) return ABSENT;
    if (stats.isDirectory) return DIRECTORY;
    const file = { path, stats, root, lookedAt };
    if (!stats.isFile || await this.#options.barred.includes(file, root)) {
      return REJECTED;
    }
    const type = await mediaTypeOf(key);
    return {
      kind: "file",
      key,
      type,
      coding: "identity",
      variants: [],
      ...file,
    };
  }
}

/** Opening a FIFO waits for its writer, and a network file system for its server. */
function inTime<T>(work: Promise<T>, clock: Clock): Promise<T> {
  const expected = `expected an answer within ${DEADLINE_MS / 1_000} s`;
  const createError = () => new Deno.errors.TimedOut(expected);
  return withDeadline(work, DEADLINE_MS, clock, createError);
}

/** Returns what a directory keeps when it is moved; `undefined` if there is none at the path. */
async function identifyDirectory(path: string): Promise<string | undefined> {
  try {
    const { isDirectory, dev, ino } = await Deno.stat(path);
    return isDirectory ? `${dev} ${ino}` : undefined;
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

/**
 * Returns whether a path only differs in upper and lower case, or in how letters are composed: on some file systems a
 * file has many names. The app would break on the others, and caches would not know that they are one.
 */
function isSpelledOtherwise(realPath: string, path: string): boolean {
  const real = realPath.replaceAll(SEPARATOR, "/");
  return real !== path && fold(real) === fold(path);
}

function fold(path: string): string {
  return path.normalize("NFC").toLowerCase();
}

function isAbsence(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound ||
    error instanceof Deno.errors.NotADirectory;
}

function isPermanent(error: unknown): boolean {
  return error instanceof Deno.errors.NotCapable ||
    error instanceof Deno.errors.FilesystemLoop ||
    (error instanceof Error && "code" in error &&
      error.code === "ENAMETOOLONG"); // Deno has no class for it
}

function isUnreadable(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied ||
    error instanceof Deno.errors.TimedOut;
}

// Version ---------------------------------------------------------------------

/** A file as it was at one time. */
type FileState = Pick<SeenFile, "path" | "stats" | "lookedAt">;

/**
 * After this time a change has another time than the one before. Deno cuts `ctime` to whole seconds, and Linux sets it
 * with a clock that ticks every 1 to 10 ms.
 */
const RESOLUTION_MS = 2_000;

/** Returns a text that changes when a file is replaced, written to, or gets other permissions. */
function versionOf({ path, stats }: FileState): string {
  const { dev, ino, size, mtime, ctime } = stats;
  return [dev, ino, size, mtime?.getTime(), ctime?.getTime(), path].join(" ");
}

function versionOfAll(seen: SeenFile): string {
  return [seen, ...seen.variants].map(versionOf).join("\n");
}

/** Returns whether every change after a look changes the version. Otherwise a second change in the same tick may not. */
function hasSettled({ stats, lookedAt }: Omit<FileState, "path">): boolean {
  return isBefore(stats.mtime, lookedAt) && isBefore(stats.ctime, lookedAt);
}

/** Returns whether a file was written to just before a look, and so may be incomplete: `cp` copies in several writes. */
function isBeingWritten({ stats, lookedAt }: FileState): boolean {
  return !isBefore(stats.mtime, lookedAt) && !isBefore(stats.ctime, lookedAt);
}

function isBefore(time: Date | null, lookedAt: number): boolean {
  return time !== null && time.getTime() <= lookedAt - RESOLUTION_MS;
}

/** Returns whether two looks saw the same file. Windows has no inodes. */
function isSameFile(a: Deno.FileInfo, b: Deno.FileInfo): boolean {
  return a.dev === b.dev && a.ino === b.ino;
}

// Read ------------------------------------------------------------------------

/** What is sent: the same object for as long as the file is unchanged. A page is made of an HTML file. */
type FileContent = HtmlFile | Representations;

/** A file that was read, or that is streamed when it is sent. */
interface ReadFile extends SeenFile, CodedBody {
  readonly coding: RepresentationCoding;
}

/** What is kept of a file. */
interface KeptFile {
  /** The look that has confirmed it. */
  readonly seen: SeenFile;
  /** The versions of the file and its variants, and the hashes of their bytes. */
  readonly version: string;
  readonly etags: string;
  /** Whether every later change changes the version. If not, the file has to be read again. */
  readonly isSettled: boolean;
  readonly content: FileContent;
}

/** Larger files are streamed. */
const MAX_KEPT_BYTES = 1024 * 1024;

/** Files up to this size are read into memory even if they cannot be kept. */
const MIN_STREAMED_BYTES = 256 * 1024;

/** The part of the cache that a file may take: with all that is made of a page, it takes seven times its size. */
const FILE_SHARE = 1 / 8;

/** What a file takes in memory besides its name and its bytes, roughly. */
const ENTRY_BYTES = 2_048;

/** The cache control of a file that never changes: one year, the longest time in common use. */
const IMMUTABLE = "public, max-age=31536000, immutable";

/** How many bytes of a streamed file are in memory for each client. */
const CHUNK_BYTES = 64 * 1024;

/**
 * How often a path is looked at while its directories change. Somebody who exchanges a directory and a link all the
 * time has to be lucky twice each time.
 */
const MAX_CHECKS = 16;

/** What {@linkcode Contents} needs. */
interface ContentsOptions {
  /** How many bytes of files and pages are kept in memory. With 0, nothing is, and nothing is compressed. */
  readonly cacheBytes: number;
  /** Returns whether a file never changes, by its path in the directory. */
  readonly isImmutable: (path: string) => boolean;
  readonly compressor: Compressor;
  readonly clock: Clock;
  readonly log: Log;
}

/** The contents of files, with what is made of them, of which as many are kept as fit. */
class Contents {
  readonly #options: ContentsOptions;
  readonly #files: SizeBoundedCache<KeptFile>;
  readonly #reading = new SharedCalls<KeptFile>();
  /** The size of the last config script: each page in memory contains one. */
  scriptBytes = 0;

  constructor(options: ContentsOptions) {
    this.#options = options;
    this.#files = new SizeBoundedCache(options.cacheBytes);
  }

  /** Returns the content of a file: from memory, if the file is the same as when it was read. */
  async read(seen: SeenFile): Promise<FileContent> {
    const kept = this.#files.get(seen.key);
    if (kept?.seen === seen) return kept.content;
    const read = () => this.#readAgain(seen, kept);
    return (await this.#reading.run(seen.key, read)).content;
  }

  async #readAgain(
    seen: SeenFile,
    kept: KeptFile | undefined,
  ): Promise<KeptFile> {
    if (kept?.isSettled && kept.version === versionOfAll(seen)) {
      return this.#keep({ ...kept, seen });
    }
    const maxBytes = Math.max(this.#maxKeptBytes, MIN_STREAMED_BYTES);
    const reading = readWithVariants(
      seen,
      (file) => this.#readFile(file, maxBytes),
    );
    const { main, variants } = await inTime(reading, this.#options.clock);
    const files = [main, ...variants];
    const version = files.map(versionOf).join("\n");
    const etags = files.map(({ etag }) => etag).join();
    const isSame = kept?.version === version && kept.etags === etags;
    const content = isSame ? kept.content : this.#contentOf(main, variants);
    const isSettled = files.every(hasSettled);
    return this.#keep({ seen, version, etags, isSettled, content });
  }

  #keep(file: KeptFile): KeptFile {
    const { content, seen: { key } } = file;
    const bytes = content instanceof HtmlFile
      ? content.maxBytes(this.scriptBytes)
      : content.maxBytes;
    this.#files.set(key, file, ENTRY_BYTES + 2 * key.length + bytes);
    return file;
  }

  get #maxKeptBytes(): number {
    return Math.min(MAX_KEPT_BYTES, this.#options.cacheBytes * FILE_SHARE);
  }

  /** Reads a file into memory; a large one is streamed when it is sent. */
  async #readFile(seen: SeenFile, maxBytes: number): Promise<ReadFile> {
    if (seen.stats.size > maxBytes) {
      // Strong, although derived from size and time: If-Range requires it, and file systems keep at least milliseconds.
      const etag = await eTag(seen.stats, { weak: false });
      return { ...seen, body: this.#streamOf(seen), etag };
    }
    const { file, stats, lookedAt } = await openFile(seen);
    using _file = file;
    if (stats.size > maxBytes) { // the next look sees that it has to be streamed
      throw new Deno.errors.NotFound(
        `Cannot read "${seen.path}": it has grown meanwhile`,
      );
    }
    const body = await readBytes(file, stats.size);
    return { ...seen, stats, lookedAt, body, etag: await eTag(body) };
  }

  /** Returns a body that opens the file when it is read, for each response. */
  #streamOf(seen: SeenFile): StreamedBody {
    const { path, stats: { size } } = seen;
    const read = async (range: ByteRange = { start: 0, end: size }) => {
      const opening = openFile(seen);
      try {
        const { file, stats } = await inTime(opening, this.#options.clock);
        if (stats.size >= size) return streamBytes(file, path, range);
        throw new Deno.errors.NotFound(
          `Cannot read "${path}": it was truncated meanwhile`,
        );
      } catch (error) {
        closeLater(opening);
        throw error;
      }
    };
    return { length: size, read, cancel() {} }; // nothing is open
  }

  #contentOf(file: ReadFile, variants: readonly ReadFile[]): FileContent {
    const { key, type, body, etag, stats: { size, mtime } } = file;
    const { clock, log } = this.#options;
    // What is not kept is not worth compressing.
    const compressor = size <= this.#maxKeptBytes
      ? this.#options.compressor
      : undefined;
    const headers: Record<string, string> = {
      "content-type": type,
      "x-content-type-options": "nosniff",
      "cache-control": "no-cache",
    };
    if (HTML.test(key)) {
      if (etag !== undefined) headers["etag"] = etag;
      const original = new Headers(headers);
      return new HtmlFile({ body, headers: original, compressor, log });
    }
    headers["accept-ranges"] = "bytes";
    if (this.#options.isImmutable(key)) headers["cache-control"] = IMMUTABLE;
    const lastModified = mtime === null
      ? undefined
      : new Date(Math.min(mtime.getTime(), clock.now())); // RFC 9110 §8.8.2.1
    if (lastModified !== undefined) {
      headers["last-modified"] = lastModified.toUTCString();
    }
    const resource = { isPage: false, headers, lastModified, compressor };
    return new Representations(resource, file, variants);
  }
}

/** Reads a file and its variants. One that must not be read is left out: the file itself can be sent. */
async function readWithVariants(
  seen: SeenFile,
  read: (file: SeenFile) => Promise<ReadFile>,
): Promise<{ main: ReadFile; variants: ReadFile[] }> {
  const main = await read(seen);
  const variants: ReadFile[] = [];
  for (const variant of seen.variants) {
    try {
      variants.push(await read(variant));
    } catch (error) {
      if (!isUnreadable(error)) throw error;
    }
  }
  return { main, variants };
}

/** A file that is open for reading, as it was then. */
interface OpenFile {
  readonly file: Deno.FsFile;
  readonly stats: Deno.FileInfo;
  readonly lookedAt: number;
}

/**
 * Opens a file, and verifies that it is the one that was looked at: between the two, the file or any of its parent
 * directories may have been replaced by a link to another place. `Deno.open` follows links.
 *
 * @throws {Deno.errors.NotFound} If it is not at the path any more. Other errors are those of `Deno.open`.
 */
async function openFile(seen: SeenFile): Promise<OpenFile> {
  const lookedAt = Date.now();
  const file = await Deno.open(seen.path);
  try {
    const stats = await file.stat();
    if (
      isSameFile(stats, seen.stats) && await isStillAt(seen, stats, lookedAt)
    ) return { file, stats, lookedAt };
    throw new Deno.errors.NotFound(
      `Cannot open "${seen.path}": it was replaced meanwhile`,
    );
  } catch (error) {
    file.close();
    throw error;
  }
}

/** Closes a file, also if it is opened only after somebody has stopped waiting for that. */
function closeLater(opening: Promise<OpenFile>): void {
  void opening.then(({ file }) => file.close(), () => {});
}

/**
 * Returns whether an open file is at its path, and no part of the path below the root is a link. That is certain if no
 * entry of its directories has changed since it was opened. Otherwise, as in a directory to which files are being
 * written, it is next to certain.
 */
async function isStillAt(
  { path, root }: SeenFile,
  stats: Deno.FileInfo,
  openedAt: number,
): Promise<boolean> {
  if (!isSameFile(await Deno.lstat(path), stats)) return false;
  if (await haveSettled(path, root, openedAt)) return true;
  for (let check = 0; check < MAX_CHECKS; check++) {
    if (await Deno.realPath(path) !== path) return false;
    if (!isSameFile(await Deno.lstat(path), stats)) return false;
  }
  return true;
}

/**
 * Returns whether the directories of a file have not changed since it was opened. From the inside out: a directory that
 * did not change confirms what was just seen in it.
 */
async function haveSettled(
  path: string,
  root: string,
  lookedAt: number,
): Promise<boolean> {
  let directory = path;
  while (directory !== root) {
    const end = directory.lastIndexOf(SEPARATOR);
    directory = directory.slice(0, Math.max(end, root.length));
    const stats = await Deno.lstat(directory);
    if (!stats.isDirectory || !hasSettled({ stats, lookedAt })) return false;
  }
  return true;
}

async function readBytes(
  file: Deno.FsFile,
  size: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(size);
  for (let position = 0; position < size;) {
    const count = await file.read(bytes.subarray(position));
    if (count === null) {
      throw new Deno.errors.NotFound(
        "Cannot read all of a file: it was truncated",
      );
    }
    position += count;
  }
  return bytes;
}

/**
 * Sends exactly the bytes of a range, even if the file grows, and closes it. If it shrinks, the stream ends in an
 * error. The stream has to be read or cancelled.
 *
 * @param path Names the file in the error.
 */
function streamBytes(
  file: Deno.FsFile,
  path: string,
  { start, end }: ByteRange,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let position: number | undefined;
  async function read(): Promise<Uint8Array<ArrayBuffer>> {
    position ??= await file.seek(start, Deno.SeekMode.Start);
    const buffer = new Uint8Array(Math.min(end - position, CHUNK_BYTES));
    const count = await file.read(buffer);
    if (count === null) {
      throw new Error(`Cannot send all of "${path}": the file was truncated`);
    }
    position += count;
    return buffer.subarray(0, count);
  }
  const close = () => file[Symbol.dispose](); // unlike close(), it can be called again: a read may end after the stream
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      try {
        controller.enqueue(await read());
      } catch (error) {
        close();
        throw error;
      }
      if (position !== end) return;
      close();
      controller.close();
    },
    cancel: close,
  }, { highWaterMark: 0 });
}

// Send -------------------------------------------------------------------------

/** Options of {@linkcode openStaticContent}. */
export interface StaticContentOptions {
  /** The directory to serve. */
  readonly directory: string;
  /** The path under which it is served: empty, or such as `/app`. */
  readonly basePath: string;
  /** How many bytes of files and pages are kept in memory. With 0, nothing is, and nothing is compressed. */
  readonly cacheBytes: number;
  /** Globs of the files that never change, relative to the directory: `assets/*`. */
  readonly immutable: readonly string[];
  /** Returns the paths of files and directories that are never served. */
  readonly neverServed: () => Promise<readonly string[]>;
  /** The maximum number of files that are streamed at once. */
  readonly maxTransfers: number;
  /** Compresses files and pages in memory. It is closed with the content. */
  readonly compressor: Compressor;
  readonly clock: Clock;
  readonly log: Log;
}

const INDEX = "index.html";

/**
 * How often a file that is replaced between the look at it and its opening is looked at again: a deployment replaces it
 * once, and a link that leads to it once more.
 */
const MAX_ATTEMPTS = 3;

/**
 * Opens a directory.
 *
 * @throws {Error} If the directory cannot be read.
 */
export async function openStaticContent(
  options: StaticContentOptions,
): Promise<StaticContent> {
  const { directory, immutable } = options;
  try {
    for await (const _ of Deno.readDir(directory)) break; // closes the directory, which next() alone would not
  } catch (cause) {
    const message =
      `Cannot serve the directory "${directory}": expected a readable directory, got ${cause}`;
    throw new Error(message, { cause });
  }
  const content = new StaticContent(options, await globMatcher(immutable));
  await content.start();
  return content;
}

/**
 * Serves the files of a directory for a single-page app: a path without a file and without an extension is answered
 * with the root's `index.html`. The configuration is inserted into pages (`text/html`). All other files support
 * conditional requests, ranges, compressed variants and caching.
 */
export class StaticContent {
  readonly #options: StaticContentOptions;
  readonly #barred: BarredFiles;
  readonly #looks: Looks;
  readonly #contents: Contents;
  readonly #transfers: Transfers;
  /** Whether there has been an `index.html` since the start. */
  #hasPage = false;
  /** Whether the directory or its page is not there any more. */
  #isGone = false;

  /** @param isImmutable Returns whether a file never changes, by its path in the directory. */
  constructor(
    options: StaticContentOptions,
    isImmutable: (path: string) => boolean,
  ) {
    const { cacheBytes, neverServed, maxTransfers, compressor, clock, log } =
      options;
    const directory = toAbsolute(options.directory);
    this.#options = options;
    this.#barred = new BarredFiles({ neverServed, clock });
    this.#looks = new Looks({ directory, barred: this.#barred, clock, log });
    this.#contents = new Contents({
      cacheBytes,
      isImmutable,
      compressor,
      clock,
      log,
    });
    this.#transfers = new Transfers({ clock, log, maxTransfers });
  }

  /** Looks whether there is a page, and warns of files in the directory that are never served. */
  async start(): Promise<void> {
    const { directory, log } = this.#options;
    this.#hasPage = (await this.#looks.look(INDEX)).kind === "file";
    const paths = await this.#barred.findIn(await Deno.realPath(directory));
    if (paths.length === 0) return;
    const names = paths.map((path) => `"${path}"`).join(", ");
    log.warn("rep.start.warning", {
      detail:
        `never served, although in the served directory: ${names}; expected them elsewhere`,
    });
  }

  /**
   * Responds to a GET or HEAD request.
   *
   * @throws {Problem} If there is nothing at the path, or the request cannot be satisfied.
   */
  async respond(
    request: Request,
    context: RouteContext,
    getConfigScript: GetConfigScript,
  ): Promise<Response> {
    const { method, headers } = request; // now: a request whose client has left cannot be read
    const { path, search } = context.url;
    const filePath = parseFilePath(path.slice(this.#options.basePath.length));
    if (filePath === undefined) return notFound();
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      const found = await this.#find(filePath, headers);
      if (found === "redirect") return redirectToDirectory(filePath, search);
      try {
        const content = await this.#contents.read(found);
        const sent = { method, headers };
        return await this.#send(content, sent, context, getConfigScript);
      } catch (error) {
        if (error instanceof Problem) throw error;
        this.#looks.forget(found); // it may have been replaced
        if (isUnreadable(error)) {
          this.#looks.report(error, found.key);
          throw unreadable();
        }
        if (!isAbsence(error)) throw error;
      }
    }
    return notFound();
  }

  countRequests(): RequestCounts {
    return { uploads: 0, all: this.#transfers.count };
  }

  close(): void {
    this.#transfers.close();
    this.#options.compressor.close();
  }

  /** Finds the file for a path: the one at it, the index of the directory at it, or the app's page. */
  async #find(
    path: FilePath,
    headers: Headers,
  ): Promise<SeenFile | "redirect"> {
    if (path.names.length > 0) {
      const key = path.names.join("/");
      const seen = await this.#looks.look(key);
      if (seen.kind === "gone") throw this.#unavailable();
      if (seen.kind === "unreadable") throw unreadable();
      if (seen.kind === "rejected") return notFound();
      if (seen.kind === "file" && !path.isDirectory) return seen;
      if (seen.kind === "directory") {
        const index = await this.#looks.look(`${key}/${INDEX}`);
        if (index.kind === "file") {
          return path.isDirectory ? index : "redirect";
        }
      }
    }
    const page = await this.#looks.look(INDEX);
    const isThere = page.kind === "file" || page.kind === "unreadable";
    if (page.kind === "gone" || (this.#hasPage && !isThere)) {
      throw this.#unavailable();
    }
    this.#isGone = false;
    this.#looks.isAppGone = false;
    this.#hasPage ||= page.kind === "file";
    if (!mayBeRoute(path, headers)) return notFound();
    if (page.kind === "unreadable") throw unreadable();
    return page.kind === "file" ? page : notFound();
  }

  /** A build that empties the directory, or two moves that exchange it, are over soon. */
  #unavailable(): Problem {
    const { directory, log } = this.#options;
    if (!this.#isGone) {
      log.error("rep.static.unavailable", {
        detail: `expected "${INDEX}" in "${directory}"`,
      });
    }
    this.#isGone = true;
    this.#looks.isAppGone = true;
    return new Problem(503, {
      detail: "The app is not there at the moment",
      headers: { "retry-after": "1" },
    });
  }

  async #send(
    content: FileContent,
    request: SendRequest,
    context: RouteContext,
    getConfigScript: GetConfigScript,
  ): Promise<Response> {
    const representations = content instanceof HtmlFile
      ? await this.#pageOf(content, request.headers, getConfigScript)
      : content;
    const representation = representations.select(request.headers);
    const response = await send(request, representation);
    if (!isStreamed(representation.body)) return response;
    const isRead = request.method === "GET" && response.body !== null;
    return isRead ? this.#count(response, context) : response;
  }

  async #pageOf(
    file: HtmlFile,
    headers: Headers,
    getConfigScript: GetConfigScript,
  ): Promise<Representations> {
    if (isFragmentRequest(headers)) return file.represent(undefined);
    const script = await getConfigScript();
    this.#contents.scriptBytes = script.bytes.length;
    return file.represent(script);
  }

  /** Counts a response that is read from the disk while it is sent. */
  #count(response: Response, { client }: RouteContext): Response {
    const { body } = response;
    try {
      const transfer = this.#transfers.begin(client);
      const counted = transferBody(body!.getReader(), transfer);
      return new Response(counted, response);
    } catch (error) {
      void body?.cancel(); // closes the file
      throw error;
    }
  }
}

function unreadable(): Problem {
  return new Problem(500, {
    detail: "Cannot read the file; see the log of the gateway",
  });
}

/** The location is relative: it cannot lead to another host, and works behind a proxy that strips a prefix. */
function redirectToDirectory({ names }: FilePath, search: string): Response {
  const location = `./${encodeURIComponent(names.at(-1) ?? "")}/${search}`;
  return new Response(null, {
    status: 308,
    headers: { location, "cache-control": "no-cache" },
  });
}
