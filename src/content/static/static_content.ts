import { eTag } from "@std/http/etag";
import {
  type CodedBody,
  CODINGS,
  type Compressor,
  isCompressibleType,
  type RepresentationCoding,
  Representations,
} from "../coding/representations.ts";
import { Problem } from "../../core/http/problem.ts";
import type { Content } from "../../core/content.ts";
import {
  notFound,
  READ_METHODS,
  type RouteContext,
} from "../../core/http/routes.ts";
import type { Log } from "../../core/observe/log.ts";
import type { GetConfigScript } from "../../core/pages/config_script.ts";
import { isFragmentRequest } from "../../core/pages/page.ts";
import type { Clock } from "../../core/values/clock.ts";
import {
  globMatcher,
  isInside,
  SEPARATOR,
  toAbsolute,
} from "../../core/values/paths.ts";
import { SharedCalls } from "../../core/values/shared_calls.ts";
import { SizeBoundedCache } from "../../core/values/size_bounded_cache.ts";
import type { Transfers } from "../../core/http/transfers.ts";
import { BarredFiles } from "./barred_files.ts";
import {
  type FilePath,
  HTML,
  mayBeRoute,
  mediaTypeOf,
  parseFilePath,
} from "./file_path.ts";
import { HtmlFile } from "./html_file.ts";
import {
  type FoundFile,
  inTime,
  isAbsence,
  isBeingWritten,
  isPermanent,
  isSettled,
  isUnreadable,
  readFile,
  streamFile,
  versionOf,
} from "./read_file.ts";

/** Options of {@linkcode openStaticContent}. */
export interface StaticContentOptions {
  /** The directory to serve. */
  readonly directory: string;
  /** The path under which it is served, such as `/app`, or empty. */
  readonly basePath: string;
  /** How many bytes of files and pages are kept in memory. With 0, nothing is kept or compressed. */
  readonly cacheBytes: number;
  /** Globs of the files that never change, relative to the directory: `assets/*`. */
  readonly immutable: readonly string[];
  /** Returns the paths of files and directories that are never served. */
  readonly neverServed: () => Promise<readonly string[]>;
  /** Counts the responses that are not sent as a whole. */
  readonly transfers: Transfers;
  /** Compresses files and pages in memory. It is closed with the content. */
  readonly compressor: Compressor;
  readonly clock: Clock;
  readonly log: Log;
}

// A request passes through these sections in order: it looks at the file, reads the file, and sends it.

// Look ------------------------------------------------------------------------

/** A file that may be served, and its compressed variants. */
interface SeenFile extends FoundFile {
  readonly kind: "file";
  /** The path in the served directory, as it was requested. */
  readonly key: string;
  /** The media type, with its charset. */
  readonly type: string;
  readonly coding: RepresentationCoding;
  readonly variants: readonly SeenFile[];
}

/**
 * `rejected`: it must not be served, or was removed during the look. `unreadable`: it cannot be read, and the log says
 * why. `gone`: the served directory is missing.
 */
interface SeenOther {
  readonly kind: "directory" | "absent" | "rejected" | "unreadable" | "gone";
}

/** What a look at a path found. */
type Seen = SeenFile | SeenOther;

interface Look {
  readonly seen: Seen;
  /** When to look again, in milliseconds of the monotonic clock. */
  until: number;
}

/** How long a look is valid. */
const MAX_AGE_MS = 1_000;
/** How long a look is valid while the app is missing, so that it is served again soon. */
const GONE_AGE_MS = 20;

/** Each look takes one or two kilobytes of memory, even for a path that does not exist. */
const MAX_LOOKS = 4_096;

/** The shortest time between two log lines about unreadable files. */
const LOG_INTERVAL_MS = 60_000;

/**
 * Looks at the paths of a directory, at most once a second at each path.
 *
 * A look takes several system calls, and a deployment may replace files, links or the directory itself between any two
 * of them. The look then sees neither the old nor the new app, and its result would stay valid for a second. So there are
 * three exceptions. If a file has disappeared, or must not be served, a second look follows: it sees the links of a
 * mounted ConfigMap, or of the directory, after the switch. While the app is missing, looks at absent files are valid for
 * only 20 ms. And a file that may still be written is looked at for each request. A replacement after the look is noticed
 * when the file is opened: see `MAX_ATTEMPTS`.
 */
class Looks {
  /** The served directory, as an absolute path. It may be or contain a link that a deployment switches. */
  readonly #directory: string;
  readonly #barred: BarredFiles;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #looks = new SizeBoundedCache<Look>(MAX_LOOKS);
  readonly #looking = new SharedCalls<Seen>();
  #isAppGone = false;
  #loggedAt = -Infinity;

  constructor(
    { directory, clock, log }: StaticContentOptions,
    barred: BarredFiles,
  ) {
    this.#directory = toAbsolute(directory);
    this.#barred = barred;
    this.#clock = clock;
    this.#log = log;
  }

  /** Returns what was at a path within the last second. Simultaneous requests share one look. */
  async look(key: string): Promise<Seen> {
    const last = this.#looks.get(key);
    const now = this.#clock.monotonic();
    if (last !== undefined && now < last.until) return last.seen;
    return await this.#looking.run(key, () => this.#lookAgain(key, last));
  }

  /** Makes the next request for the file look again. */
  forget({ key }: SeenFile): void {
    const last = this.#looks.get(key);
    if (last !== undefined) last.until = -Infinity;
  }

  /** Whether the directory or its page has disappeared. Looks at absent files are then valid for a short time only. */
  get isAppGone(): boolean {
    return this.#isAppGone;
  }

  /** Forgets all looks, since the files may be gone as well. */
  markAppGone(): void {
    if (!this.#isAppGone) this.#looks.clear();
    this.#isAppGone = true;
  }

  /** Ends the time in which looks at absent files are valid only briefly. */
  markAppThere(): void {
    this.#isAppGone = false;
  }

  /** Logs that a file cannot be read, at most once a minute. */
  report(error: unknown, key: string): void {
    const now = this.#clock.monotonic();
    if (now - this.#loggedAt < LOG_INTERVAL_MS) return;
    this.#loggedAt = now;
    this.#log.error("rep.static.unreadable", {
      detail: `cannot read "${this.#directory}/${key}": ${error}`,
    });
  }

  async #lookAgain(key: string, last: Look | undefined): Promise<Seen> {
    const now = this.#clock.monotonic();
    const wasFile = last?.seen.kind === "file";
    const seen = await this.#seeInTime(key, wasFile);
    this.#looks.set(key, { seen, until: now + this.#maxAgeOf(seen) });
    return seen;
  }

  async #seeInTime(key: string, wasFile: boolean): Promise<Seen> {
    try {
      return await inTime(this.#see(key, wasFile), this.#clock);
    } catch (error) {
      if (isPermanent(error)) return { kind: "rejected" };
      if (!isUnreadable(error)) throw error; // the next request may succeed
      this.report(error, key);
      return { kind: "unreadable" };
    }
  }

  #maxAgeOf(seen: Seen): number {
    if (seen.kind === "file") {
      return [seen, ...seen.variants].some(isBeingWritten) ? 0 : MAX_AGE_MS;
    }
    const isGone = seen.kind === "gone" ||
      (seen.kind === "absent" && this.#isAppGone);
    return isGone ? GONE_AGE_MS : MAX_AGE_MS;
  }

  async #see(key: string, wasFile: boolean): Promise<Seen> {
    const seen = await this.#seeOnce(key);
    if (seen.kind === "file" || seen.kind === "directory") return seen;
    const isWorthAnotherLook = wasFile || seen.kind === "rejected";
    return isWorthAnotherLook ? await this.#seeOnce(key) : seen;
  }

  async #seeOnce(key: string): Promise<Seen> {
    const root = await realPathOf(this.#directory);
    if (root === undefined) return { kind: "gone" };
    try {
      const path = await realPathOf(`${this.#directory}/${key}`);
      if (path !== undefined) {
        const seen = await this.#judge(path, root, key);
        return seen.kind === "file" ? await this.#withVariants(seen) : seen;
      }
    } catch (error) {
      const wasRemoved = isAbsence(error);
      if (!wasRemoved && !await this.#leadsOut(key, root)) throw error;
      return { kind: "rejected" };
    }
    return { kind: await this.#leadsOut(key, root) ? "rejected" : "absent" };
  }

  /**
   * Returns whether a path at which nothing was found leads through a link out of the directory. Such a path gets the same
   * response whether something exists there or not, so that nobody can find out which names exist outside.
   */
  async #leadsOut(key: string, root: string): Promise<boolean> {
    let path = this.#directory;
    try {
      for (const name of key.split("/").slice(0, -1)) {
        path += `/${name}`;
        if (!isInside(await Deno.realPath(path), root)) return true;
      }
    } catch {
      // Nothing exists there, so no further part of the path can lead out.
    }
    return false;
  }

  /** Links may lead anywhere, but only regular files in the directory are served, and none of the gateway's own files. */
  async #judge(path: string, root: string, key: string): Promise<Seen> {
    if (!isInside(path, root)) return { kind: "rejected" };
    const lookedAt = Date.now();
    const stats = await Deno.stat(path);
    const isOtherwise = isSpelledOtherwise(path.slice(root.length), `/${key}`);
    if (isOtherwise) return { kind: "absent" };
    if (stats.isDirectory) return { kind: "directory" };
    const found = { path, root, stats, lookedAt };
    if (!stats.isFile || await this.#barred.includes(path, stats, root)) {
      return { kind: "rejected" };
    }
    const type = await mediaTypeOf(key);
    const coding = "identity";
    return { ...found, kind: "file", key, type, coding, variants: [] };
  }

  /** Adds the compressed variants beside a file. Those of a page are useless, since a page is never sent unchanged. */
  async #withVariants(file: SeenFile): Promise<SeenFile> {
    const { key, root, type } = file;
    if (!isCompressibleType(type) || HTML.test(key)) return file;
    const found = await Promise.all(
      CODINGS.map(async ({ name, suffix }) => {
        const variant = await this.#seeVariant(key + suffix, root);
        return variant === undefined ? [] : [{ ...variant, coding: name }];
      }),
    );
    return { ...file, variants: found.flat() };
  }

  async #seeVariant(key: string, root: string): Promise<SeenFile | undefined> {
    try {
      const path = await Deno.realPath(`${root}/${key}`);
      const variant = await this.#judge(path, root, key);
      return variant.kind === "file" ? variant : undefined;
    } catch {
      return undefined; // the file itself can be sent
    }
  }
}

/** Returns where a path leads; `undefined` if there is nothing. */
async function realPathOf(path: string): Promise<string | undefined> {
  try {
    return await Deno.realPath(path);
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

/**
 * Returns whether a path differs from the real one only in upper and lower case, or in how letters are composed. Some file
 * systems accept all such names for a file. The app would break on other file systems, and caches would store the file
 * under each name.
 */
function isSpelledOtherwise(realPath: string, path: string): boolean {
  const real = realPath.replaceAll(SEPARATOR, "/");
  return real !== path && fold(real) === fold(path);
}

function fold(path: string): string {
  return path.normalize("NFC").toLowerCase();
}

// Read ------------------------------------------------------------------------

/** The content of a file, as it is sent. It is the same object as long as the file does not change. */
type FileContent = HtmlFile | Representations;

/** A file that was read into memory, or will be streamed. */
interface ReadFile extends SeenFile, CodedBody {
  readonly coding: RepresentationCoding;
}

/** A file in the cache. */
interface KeptFile {
  /** The last look that found it unchanged. */
  readonly seen: SeenFile;
  /** The versions of the file and its variants, and the hashes of their bytes. */
  readonly version: string;
  readonly etags: string;
  /** Whether every later change changes the version. If not, the file has to be read again. */
  readonly isSettled: boolean;
  readonly content: FileContent;
}

/** Larger files are not kept in memory, but streamed. */
const MAX_KEPT_BYTES = 1024 * 1024;

/** Files up to this size are read into memory even if the cache is too small for them. */
const MIN_STREAMED_BYTES = 256 * 1024;

/** The part of the cache that a file may take. A page, with all its variants, takes seven times the size of its file. */
const FILE_SHARE = 1 / 8;

/** The approximate memory for a file, in addition to its name and its bytes. */
const ENTRY_BYTES = 2_048;

/** The `Cache-Control` of a file that never changes. One year is the longest time in common use. */
const IMMUTABLE = "public, max-age=31536000, immutable";

/** A cache of the contents of files, with their pages and compressed variants. */
class Contents {
  readonly #options: StaticContentOptions;
  readonly #isImmutable: (path: string) => boolean;
  readonly #files: SizeBoundedCache<KeptFile>;
  readonly #reading = new SharedCalls<KeptFile>();
  readonly #maxKeptBytes: number;
  /** The size of the last config script, which each page in memory contains. It counts for a page from its next look on. */
  #scriptBytes = 0;

  /** @param isImmutable Returns whether a file never changes, by its path in the directory. */
  constructor(
    options: StaticContentOptions,
    isImmutable: (path: string) => boolean,
  ) {
    const { cacheBytes } = options;
    this.#options = options;
    this.#isImmutable = isImmutable;
    this.#files = new SizeBoundedCache(cacheBytes);
    this.#maxKeptBytes = Math.min(MAX_KEPT_BYTES, cacheBytes * FILE_SHARE);
  }

  /** Returns the representations of a file. An HTML file becomes a page with the config script, or a fragment. */
  async represent(
    seen: SeenFile,
    headers: Headers,
    getConfigScript: GetConfigScript,
  ): Promise<Representations> {
    const content = await this.#contentAt(seen);
    if (content instanceof Representations) return content;
    if (isFragmentRequest(headers)) return content.represent(undefined);
    const script = await getConfigScript();
    this.#scriptBytes = script.bytes.length;
    return content.represent(script);
  }

  /** Returns the content of a file, from memory if the file has not changed since it was read. */
  async #contentAt(seen: SeenFile): Promise<FileContent> {
    const kept = this.#files.get(seen.key);
    if (kept?.seen === seen) return kept.content;
    const read = () => this.#readAgain(seen, kept);
    return (await this.#reading.run(seen.key, read)).content;
  }

  /**
   * Reads a file again, unless its version proves that it is unchanged. The version proves nothing if the file had changed
   * just before it was read. If the bytes are the same, the page and the compressed variants stay.
   */
  async #readAgain(
    seen: SeenFile,
    kept: KeptFile | undefined,
  ): Promise<KeptFile> {
    const isSeenVersion = kept?.version === versionOf([seen, ...seen.variants]);
    if (kept?.isSettled && isSeenVersion) return this.#keep({ ...kept, seen });
    const reading = this.#readWithVariants(seen);
    const files = await inTime(reading, this.#options.clock);
    const version = versionOf(files);
    const etags = files.map(({ etag }) => etag).join();
    const isSame = kept?.version === version && kept.etags === etags;
    const content = isSame ? kept.content : this.#contentOf(files);
    return this.#keep({
      seen,
      version,
      etags,
      isSettled: files.every(isSettled),
      content,
    });
  }

  #keep(file: KeptFile): KeptFile {
    const { content, seen: { key } } = file;
    const bytes = content instanceof HtmlFile
      ? content.maxBytes(this.#scriptBytes)
      : content.maxBytes;
    this.#files.set(key, file, ENTRY_BYTES + 2 * key.length + bytes);
    return file;
  }

  /** Reads a file and its variants. It leaves out variants that cannot be read, since the file itself can be sent. */
  async #readWithVariants(seen: SeenFile): Promise<[ReadFile, ...ReadFile[]]> {
    const files: [ReadFile, ...ReadFile[]] = [await this.#read(seen)];
    for (const variant of seen.variants) {
      try {
        files.push(await this.#read(variant));
      } catch (error) {
        if (!isUnreadable(error)) throw error;
      }
    }
    return files;
  }

  /** Reads a file into memory, or prepares the stream of a large one. */
  async #read(seen: SeenFile): Promise<ReadFile> {
    const maxBytes = Math.max(this.#maxKeptBytes, MIN_STREAMED_BYTES);
    if (seen.stats.size <= maxBytes) {
      return { ...seen, ...await readFile(seen, maxBytes) };
    }
    // Strong, although it is derived from size and time: If-Range requires that, and file times have milliseconds.
    const etag = await eTag(seen.stats, { weak: false });
    return { ...seen, body: streamFile(seen, this.#options.clock), etag };
  }

  #contentOf([file, ...variants]: [ReadFile, ...ReadFile[]]): FileContent {
    const { key, type, body, etag, stats: { size, mtime } } = file;
    const { clock, log } = this.#options;
    // Compressing a file is only worthwhile if the result is kept.
    const isKept = size <= this.#maxKeptBytes;
    const compressor = isKept ? this.#options.compressor : undefined;
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
    if (this.#isImmutable(key)) headers["cache-control"] = IMMUTABLE;
    const lastModified = mtime === null
      ? undefined
      : new Date(Math.min(mtime.getTime(), clock.now())); // RFC 9110 §8.8.2.1
    if (lastModified !== undefined) {
      headers["last-modified"] = lastModified.toUTCString();
    }
    const resource = { isHtml: false, headers, lastModified, compressor };
    return new Representations(resource, file, variants);
  }
}

// Send -------------------------------------------------------------------------

const INDEX = "index.html";

/**
 * How often to look at a file that is replaced between the look and its opening. A deployment may replace the file, and
 * then a link to it.
 */
const MAX_ATTEMPTS = 3;

/**
 * Opens a directory to serve its files.
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
 * Serves the files of a directory for a single-page app. It answers a path without a file and without an extension with
 * the `index.html` of the directory. It inserts the configuration into pages (`text/html`). All other files support
 * conditional requests, ranges, compressed variants and caching.
 */
export class StaticContent implements Content {
  readonly methods: readonly string[] = READ_METHODS;
  readonly #options: StaticContentOptions;
  readonly #barred: BarredFiles;
  readonly #looks: Looks;
  readonly #contents: Contents;
  /** Whether the directory has contained an `index.html` since the start. */
  #hasPage = false;

  /** @param isImmutable Returns whether a file never changes, by its path in the directory. */
  constructor(
    options: StaticContentOptions,
    isImmutable: (path: string) => boolean,
  ) {
    const { neverServed, clock } = options;
    this.#options = options;
    this.#barred = new BarredFiles(neverServed, clock);
    this.#looks = new Looks(options, this.#barred);
    this.#contents = new Contents(options, isImmutable);
  }

  /** Warns if the page of the app is missing, and of files in the directory that are never served. */
  async start(): Promise<void> {
    const { directory, log } = this.#options;
    this.#hasPage = (await this.#looks.look(INDEX)).kind === "file";
    if (!this.#hasPage) {
      const detail =
        `expected "${INDEX}" in "${directory}": without it, paths of the app get 404`;
      log.warn("rep.start.warning", { detail });
    }
    const paths = await this.#barred.findIn(await Deno.realPath(directory));
    if (paths.length === 0) return;
    const names = paths.map((path) => `"${path}"`).join(", ");
    log.warn("rep.start.warning", {
      detail:
        `the served directory contains files that are never served: ${names}; expected them elsewhere`,
    });
  }

  /**
   * Responds to a GET or HEAD request.
   *
   * @throws {Problem} If nothing exists at the path, or the request cannot be satisfied.
   */
  async respond(
    request: Request,
    context: RouteContext,
    getConfigScript: GetConfigScript,
  ): Promise<Response> {
    const { transfers } = this.#options;
    const { method, headers } = request; // before the first await: nobody can read a request whose client has left
    const { path, search } = context.url;
    const filePath = parseFilePath(path.slice(this.#options.basePath.length));
    if (filePath === undefined) return notFound();
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      const found = await this.#find(filePath, headers);
      if (found === "redirect") return redirectToDirectory(filePath, search);
      try {
        const representations = await this.#contents.represent(
          found,
          headers,
          getConfigScript,
        );
        const representation = representations.select(headers);
        return await transfers.send(
          { method, headers },
          representation,
          context.client,
        );
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

  close(): void {
    this.#options.compressor.close();
  }

  /** Finds the file for a path: the file itself, the index of the directory, or the app's page. */
  async #find(
    path: FilePath,
    headers: Headers,
  ): Promise<SeenFile | "redirect"> {
    const mayExist = path.names.length > 0 && !path.isTooLong;
    const named = mayExist ? await this.#findNamed(path) : undefined;
    if (named !== undefined) return named;
    const page = await this.#lookAtPage();
    if (!mayBeRoute(path, headers)) return notFound();
    if (page.kind === "unreadable") throw unreadable();
    return page.kind === "file" ? page : notFound();
  }

  async #findNamed(
    { names, isDirectory }: FilePath,
  ): Promise<SeenFile | "redirect" | undefined> {
    const key = names.join("/");
    const seen = await this.#looks.look(key);
    if (seen.kind === "gone") throw this.#reportGone();
    if (seen.kind === "unreadable") throw unreadable();
    if (seen.kind === "rejected") return notFound();
    if (seen.kind === "file" && !isDirectory) return seen;
    if (seen.kind !== "directory") return undefined;
    const index = await this.#looks.look(`${key}/${INDEX}`);
    if (index.kind !== "file") return undefined;
    return isDirectory ? index : "redirect";
  }

  /** Looks at the page of the app, which also shows whether a page that existed has disappeared. */
  async #lookAtPage(): Promise<Seen> {
    const page = await this.#looks.look(INDEX);
    const isThere = page.kind === "file" || page.kind === "unreadable";
    if (page.kind === "gone" || (this.#hasPage && !isThere)) {
      throw this.#reportGone();
    }
    this.#looks.markAppThere();
    this.#hasPage ||= page.kind === "file";
    return page;
  }

  /**
   * Logs that the app is gone, and returns a 503 that asks clients to retry soon: a build that empties the directory is
   * usually done in a moment.
   */
  #reportGone(): Problem {
    const { directory, log } = this.#options;
    if (!this.#looks.isAppGone) {
      log.error("rep.static.unavailable", {
        detail: `expected "${INDEX}" in "${directory}"`,
      });
    }
    this.#looks.markAppGone();
    return new Problem(503, {
      detail: "The app is temporarily missing",
      headers: { "retry-after": "1" },
    });
  }
}

function unreadable(): Problem {
  return new Problem(500, {
    detail: "Cannot read the file; see the log of the gateway",
  });
}

/** Redirects to a relative location, which cannot lead to another host, and works behind a proxy that strips a prefix. */
function redirectToDirectory({ names }: FilePath, search: string): Response {
  const location = `./${encodeURIComponent(names.at(-1) ?? "")}/${search}`;
  return new Response(null, {
    status: 308,
    headers: { location, "cache-control": "no-cache" },
  });
}
