import { eTag } from "@std/http/etag";
import {
  type CodedBody,
  CODINGS,
  type Compressor,
  isCompressibleType,
  type RepresentationCoding,
  Representations,
} from "../coding/representations.ts";
import { type Log, logOnce } from "../../core/observe/log.ts";
import { type Clock, withDeadline } from "../../core/values/clock.ts";
import { globMatcher, isInside, toAbsolute } from "../../files/paths.ts";
import { SharedCalls } from "../../core/values/shared_calls.ts";
import {
  type CacheGroup,
  SizeBoundedCache,
} from "../../core/values/size_bounded_cache.ts";
import type { BarredFiles } from "./barred_files.ts";
import { HTML, mediaTypeOf } from "./file_path.ts";
import {
  type FoundFile,
  hashFile,
  ifThere,
  inTime,
  isSettled,
  isUnreadable,
  readFile,
  streamFile,
  versionOf,
} from "./found_file.ts";
import { HtmlFile } from "./html_file.ts";

/** Options of {@linkcode ServedFiles}. */
export interface ServedFilesOptions {
  /** The directory to serve. */
  readonly directory: string;
  /** How many bytes of files and pages are kept in memory. With 0, nothing is kept or compressed. */
  readonly cacheBytes: number;
  /** What all gateways of the process keep; `undefined` if there is no other one. */
  readonly cacheGroup: CacheGroup | undefined;
  /** Globs of the files that never change, relative to the directory: `assets/*`. */
  readonly immutable: readonly string[];
  /** Throws if the directory is where it must not be served: a part of it may be a link that is switched. */
  readonly checkRoot: ((realPath: string) => Promise<void>) | undefined;
  /** Compresses files and pages in memory. It is closed with the content. */
  readonly compressor: Compressor;
  /** Whether all responses leave through `Deno.serve`, so that they may share their bytes. */
  readonly sharesBytes: boolean;
  readonly clock: Clock;
  readonly log: Log;
}

/** What a look at a path found, and when it began, in milliseconds of the monotonic clock. */
interface Look {
  readonly lookedAt: number;
}

/** A file that may be served. */
export interface ServedFile extends Look {
  /** The versions of the file and its compressed variants, and their entity tags. */
  readonly version: string;
  readonly etags: string;
  /** Whether every later change changes the version. If not, the file has to be read again. */
  readonly isSettled: boolean;
  /** It is the same object as long as the file does not change. */
  readonly content: HtmlFile | Representations;
}

/** What is at a path without a file. `hidden`: what must not be served. `gone`: the directory is missing. */
type OtherKind = "directory" | "absent" | "hidden" | "gone";

/** How long a look is valid. */
const MAX_AGE_MS = 1_000;

/** Each takes one or two kilobytes of memory, even for a path that does not exist. */
const MAX_OTHERS = 4_096;

/** Larger files are not kept in memory, but streamed. */
const MAX_KEPT_BYTES = 1024 * 1024;

/** Files up to this size are read into memory even if the cache is too small for them. */
const MIN_STREAMED_BYTES = 256 * 1024;

/** How long a look waits for the hash of a large file: some 350 MB from the cache of the system. */
const MAX_HASHING_MS = 500;

/** The part of the cache that a file may take. A page, with all its variants, takes seven times the size of its file. */
const FILE_SHARE = 1 / 8;

/** The approximate memory for a file, in addition to its name and its bytes. */
const ENTRY_BYTES = 2_048;

/** The `Cache-Control` of a file that never changes. One year is the longest time in common use. */
const IMMUTABLE = "public, max-age=31536000, immutable";

/**
 * The files of a directory. It looks at each path at most once a second, and keeps the contents of small files in memory,
 * with their pages and compressed variants.
 *
 * A deployment may replace files, links or the directory itself during a look. Whether something is there is decided by one
 * call, in which the system follows all links at one go. If a later call finds something else, the look fails with
 * `NotFound` and is not kept: the caller looks again.
 */
export class ServedFiles {
  readonly #options: ServedFilesOptions;
  readonly #barred: BarredFiles;
  readonly #onceLog: Log;
  /** The served directory, as an absolute path. It may be or contain a link that a deployment switches. */
  readonly #directory: string;
  readonly #maxKeptBytes: number;
  readonly #files: SizeBoundedCache<ServedFile>;
  readonly #others = new SizeBoundedCache<Look & { kind: OtherKind }>(
    MAX_OTHERS,
  );
  readonly #looking = new SharedCalls<ServedFile | OtherKind>();
  /** The entity tags of large files, by their versions. */
  readonly #tags = new SizeBoundedCache<string>(MAX_OTHERS);
  readonly #hashing = new SharedCalls<string | undefined>();
  #forgottenAt = -Infinity;

  constructor(options: ServedFilesOptions, barred: BarredFiles) {
    const { directory, cacheBytes, cacheGroup } = options;
    this.#options = options;
    this.#barred = barred;
    this.#onceLog = logOnce(options.log);
    this.#directory = toAbsolute(directory);
    this.#maxKeptBytes = Math.min(MAX_KEPT_BYTES, cacheBytes * FILE_SHARE);
    this.#files = new SizeBoundedCache(cacheBytes, cacheGroup);
  }

  /**
   * Returns what was at a path within the last second. Simultaneous requests share one look.
   *
   * @throws {Deno.errors.NotFound} If the file was replaced during the look. Other errors are those of the file system.
   */
  async look(key: string): Promise<ServedFile | OtherKind> {
    const now = this.#options.clock.monotonic();
    const isValid = ({ lookedAt }: Look) =>
      lookedAt > this.#forgottenAt && now - lookedAt < MAX_AGE_MS;
    const file = this.#files.get(key);
    if (file !== undefined && isValid(file)) return file;
    const other = this.#others.get(key);
    if (other !== undefined && isValid(other)) return other.kind;
    // An app may have a million links, such as /orders/1, to a directory that does not exist: one look answers all.
    for (
      let end = key.indexOf("/");
      end >= 0;
      end = key.indexOf("/", end + 1)
    ) {
      const above = await this.look(key.slice(0, end));
      if (above === "absent" || above === "gone") return above;
    }
    return await this.#looking.run(key, () => this.#lookAgain(key, now));
  }

  /** Forgets all looks, because files are being replaced. What was read stays in memory. */
  forgetLooks(): void {
    this.#forgottenAt = this.#options.clock.monotonic();
  }

  /** Returns whether the file at a path never changes. */
  async isImmutable(key: string): Promise<boolean> {
    const matches = await globMatcher(this.#options.immutable);
    return matches(key);
  }

  /** Gives back the memory, which others may use. */
  close(): void {
    this.#options.cacheGroup?.delete(this.#files);
  }

  async #lookAgain(
    key: string,
    lookedAt: number,
  ): Promise<ServedFile | OtherKind> {
    const looking = this.#lookAndRead(key);
    const seen = await inTime(looking, this.#options.clock);
    if (typeof seen === "string") {
      this.#others.set(key, { lookedAt, kind: seen });
      return seen;
    }
    const file = { ...seen, lookedAt };
    const bytes = ENTRY_BYTES + 2 * key.length + file.content.maxBytes;
    this.#files.set(key, file, bytes);
    return file;
  }

  /** Looks at a file and its variants, and reads them unless their versions prove that they are unchanged. */
  async #lookAndRead(
    key: string,
  ): Promise<Omit<ServedFile, "lookedAt"> | OtherKind> {
    const found = await this.find(key);
    if (typeof found === "string") return found;
    const type = await mediaTypeOf(key);
    const variants = await this.#findVariants(key, type);
    const files = [found, ...variants];
    const version = files.map(versionOf).join("\n");
    const kept = this.#files.get(key);
    if (kept?.isSettled && kept.version === version) return kept;
    const original = await this.#read(found);
    const coded = await this.#readVariants(variants);
    const tags = [original, ...coded].map(({ etag }) => etag);
    const etags = tags.join();
    const isSame = kept?.version === version && kept.etags === etags;
    const content = isSame
      ? kept.content
      : await this.#contentOf(key, type, found.stats, original, coded);
    const isFinal = files.every(isSettled) && !tags.includes(undefined);
    return { version, etags, isSettled: isFinal, content };
  }

  /** Finds a file. Links may lead anywhere, but only regular files in the directory are served, and none of the own ones. */
  async find(
    key: string,
    coding: RepresentationCoding = "identity",
  ): Promise<FoundFile | OtherKind> {
    const lookedAt = Date.now();
    const root = await ifThere(Deno.realPath(this.#directory));
    if (root === undefined) return "gone";
    await this.#options.checkRoot?.(root);
    const stat = () => ifThere(Deno.stat(`${this.#directory}/${key}`));
    let stats = await stat();
    // The system may be interrupted while it follows a link, whose old target is removed then: a file that was there is
    // looked for once more.
    if (stats === undefined && this.#files.get(key)) stats = await stat();
    if (stats === undefined) return "absent";
    const path = await Deno.realPath(`${root}/${key}`);
    if (!isInside(path, root)) return "hidden";
    if (stats.isDirectory) return "directory";
    const isBarred = await this.#barred.includes(path, stats, root);
    if (!stats.isFile || isBarred) return "hidden";
    return { path, stats, lookedAt, coding };
  }

  /** Finds the compressed variants beside a file. Those of a page are useless, since a page is never sent unchanged. */
  async #findVariants(key: string, type: string): Promise<FoundFile[]> {
    const variants: FoundFile[] = [];
    if (!isCompressibleType(type) || HTML.test(key)) return variants;
    for (const { name, suffix } of CODINGS) {
      const found = await this.find(key + suffix, name).catch(() => "absent"); // the file itself can be sent
      if (typeof found !== "string") variants.push(found);
    }
    return variants;
  }

  /** Reads the variants that can be read: if not, the file itself can be sent. */
  async #readVariants(variants: readonly FoundFile[]): Promise<CodedBody[]> {
    const bodies: CodedBody[] = [];
    for (const variant of variants) {
      try {
        bodies.push(await this.#read(variant));
      } catch (error) {
        if (!isUnreadable(error)) throw error;
      }
    }
    return bodies;
  }

  /** Reads a file into memory, or prepares the stream of a large one. */
  async #read(found: FoundFile): Promise<CodedBody> {
    const { coding, stats } = found;
    if (stats.size <= Math.max(this.#maxKeptBytes, MIN_STREAMED_BYTES)) {
      const body = await readFile(found);
      return { coding, body, etag: await eTag(body) };
    }
    const { clock } = this.#options;
    const etag = await this.#tagOf(found);
    return { coding, body: streamFile(found, etag !== undefined, clock), etag };
  }

  /**
   * Returns the entity tag of a large file. It is made of the bytes, since many tools give all files the same time, and
   * replicas may have different times. A version of a file is hashed once, by the first look at it. If that takes long or
   * fails, the file is sent without a tag for now: then nothing is answered with 304 or continued.
   */
  async #tagOf(found: FoundFile): Promise<string | undefined> {
    const version = versionOf(found);
    const known = this.#tags.get(version);
    if (known !== undefined) return known;
    const hashing = this.#hashing.run(version, async () => {
      const tag = await hashFile(found);
      if (tag !== undefined && isSettled(found)) this.#tags.set(version, tag);
      return tag;
    });
    const { clock } = this.#options;
    const createError = () => new Error("Cannot wait for the hash");
    return await withDeadline(hashing, MAX_HASHING_MS, clock, createError)
      .catch(() => undefined); // if the file cannot be read, that shows when it is sent
  }

  async #contentOf(
    key: string,
    type: string,
    { size }: Deno.FileInfo,
    original: CodedBody,
    variants: readonly CodedBody[],
  ): Promise<HtmlFile | Representations> {
    const { sharesBytes } = this.#options;
    // Compressing a file is only worthwhile if the result is kept.
    const isKept = size <= this.#maxKeptBytes;
    const compressor = isKept ? this.#options.compressor : undefined;
    const headers: Record<string, string> = {
      "content-type": type,
      "x-content-type-options": "nosniff",
      "cache-control": "no-cache",
    };
    if (HTML.test(key)) {
      const { body, etag } = original;
      if (etag !== undefined) headers["etag"] = etag;
      return new HtmlFile({
        body,
        headers: new Headers(headers),
        compressor,
        sharesBytes,
        log: this.#onceLog,
      });
    }
    headers["accept-ranges"] = "bytes"; // and no Last-Modified: the date may be the same for every version
    if (await this.isImmutable(key)) headers["cache-control"] = IMMUTABLE;
    const resource = { isHtml: false, headers, compressor, sharesBytes };
    return new Representations(resource, original, variants);
  }
}
