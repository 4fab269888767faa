import type { Compressor } from "../../coding/compressor.ts";
import type { Representations } from "../../coding/representations.ts";
import type { Clock } from "../../values/clock.ts";
import { SharedCalls } from "../../values/shared_calls.ts";
import { SizeBoundedCache } from "../../values/size_bounded_cache.ts";
import { assetRepresentations } from "./asset_representations.ts";
import { type FileContents, readContents } from "./file_contents.ts";
import { pageHeaders } from "./file_response.ts";
import { findFile, type FoundFile } from "./found_file.ts";
import type { StaticPage } from "./static_page.ts";

/** A file to respond with. */
export type ServedFile =
  | { readonly kind: "asset"; readonly representations: Representations }
  | { readonly kind: "page"; readonly page: StaticPage }
  /** It is not kept in memory. */
  | { readonly kind: "uncached"; readonly found: FoundFile };

/** Options of {@linkcode FileCache}. */
interface FileCacheOptions {
  /** The served directory. */
  readonly directory: string;
  /** How many bytes are kept in memory. With 0, nothing is. */
  readonly maxBytes: number;
  readonly clock: Pick<Clock, "now">;
  readonly compressor: Compressor;
}

/** A file in the cache. */
interface CachedFile {
  readonly served: ServedFile;
  /** The paths and versions of the file and its variants. */
  readonly version: string;
  /** Whether every later change changes `version`. If not, the file has to be read again. */
  readonly isSettled: boolean;
  /** Whether it may have been read while it was being written, and so is read again for the next request. */
  readonly isRecent: boolean;
  /** The hashes of the file and its variants. */
  readonly etags: string;
  /** The size of what others made of it, in bytes. */
  readonly derivedBytes: number;
  /** When it was last compared with the file system, in milliseconds since the Unix epoch. */
  checkedAt: number;
}

/** How long a file is served without looking whether it has changed. */
const MAX_AGE_MS = 1_000;

/** Larger files are streamed. */
const MAX_FILE_BYTES = 1024 * 1024;

/**
 * The part of the cache that a file may take. What is made of a page takes five times its size: the page with the
 * configuration, and both in two codings. A file that outgrew the cache would be read and compressed for every request.
 */
const FILE_SHARE = 1 / 8;

/** What an entry takes in memory besides the bytes of the file, roughly. */
const ENTRY_BYTES = 2_048;

/** Returns whether what was found at a moment may be used. A clock that was set back says nothing about its age. */
export function isFresh({ checkedAt }: { readonly checkedAt: number }, now: number): boolean {
  return checkedAt <= now && now - checkedAt < MAX_AGE_MS;
}

/**
 * Keeps files of a directory in memory, with their compressed variants. Each is compared with the file system at most
 * once a second; requests that arrive meanwhile wait for the same comparison. Only one that was written within the last
 * second is read for every request: the first of them may have come while it was incomplete.
 *
 * A file is found and read by the same rules as without the cache, so a link that leads out of the directory, a file
 * without read permission and the like are noticed within that second, too.
 */
export class FileCache {
  readonly #options: FileCacheOptions;
  readonly #files: SizeBoundedCache<CachedFile>;
  readonly #loading = new SharedCalls<ServedFile | undefined>();

  constructor(options: FileCacheOptions) {
    this.#options = options;
    this.#files = new SizeBoundedCache(options.maxBytes);
  }

  /** Returns a file that was looked at within the last second, and had not just been written then. */
  getFresh(key: string, now: number): ServedFile | undefined {
    const cached = this.#files.get(key);
    return cached !== undefined && !cached.isRecent && isFresh(cached, now) ? cached.served : undefined;
  }

  /**
   * Returns the current version of a file.
   *
   * @param names The names of its path, decoded.
   * @returns `undefined` if there is no such file, or it must not be served.
   * @throws {Error} If the file cannot be read.
   */
  load(names: readonly string[]): Promise<ServedFile | undefined> {
    const key = names.join("/");
    return this.#loading.run(key, () => this.#load(key, names));
  }

  /** Forgets a file that was found not to be there any more. */
  forget(names: readonly string[]): void {
    this.#files.delete(names.join("/"));
  }

  async #load(key: string, names: readonly string[]): Promise<ServedFile | undefined> {
    const checkedAt = this.#options.clock.now();
    const fresh = this.getFresh(key, checkedAt);
    if (fresh !== undefined) return fresh;
    try {
      return await this.#refresh(key, names, checkedAt);
    } catch (error) {
      this.#files.delete(key);
      if (error instanceof Deno.errors.NotFound) return undefined; // removed since it was found
      throw error;
    }
  }

  async #refresh(key: string, names: readonly string[], checkedAt: number): Promise<ServedFile | undefined> {
    const found = await findFile(this.#options.directory, names);
    if (found === undefined) {
      this.#files.delete(key);
      return undefined;
    }
    const cached = this.#files.get(key);
    if (cached?.isSettled && cached.version === versionOfAll([found, ...found.variants])) {
      cached.checkedAt = checkedAt;
      return cached.served;
    }
    return await this.#read(key, found, checkedAt);
  }

  async #read(key: string, found: FoundFile, checkedAt: number): Promise<ServedFile> {
    const { maxBytes } = this.#options;
    const maxFileBytes = Math.min(MAX_FILE_BYTES, maxBytes * FILE_SHARE);
    const contents = maxBytes === 0 ? undefined : await readContents(found, maxFileBytes);
    if (contents === undefined) return this.#keepUncached(key, found, checkedAt);
    const all = [contents.file, ...contents.variants];
    const version = versionOfAll(all);
    const etags = all.map(({ etag }) => etag).join();
    const isSettled = all.every((content) => content.isSettled);
    const isRecent = all.some((content) => content.isRecent);
    const cached = this.#files.get(key);
    const isSame = cached?.version === version && cached.etags === etags;
    if (isSame) return this.#keep(key, { ...cached, isSettled, isRecent, checkedAt });
    const served = this.#serve(key, found, contents);
    return this.#keep(key, { served, version, etags, isSettled, isRecent, derivedBytes: 0, checkedAt });
  }

  #keepUncached(key: string, found: FoundFile, checkedAt: number): ServedFile {
    const version = versionOfAll([found, ...found.variants]);
    const served: ServedFile = { kind: "uncached", found };
    const known = { etags: "", isSettled: true, isRecent: false, derivedBytes: 0 }; // nothing of it is kept
    return this.#keep(key, { served, version, ...known, checkedAt });
  }

  #keep(key: string, file: CachedFile): ServedFile {
    this.#files.set(key, file, ENTRY_BYTES + sizeOf(file.served) + file.derivedBytes);
    return file.served;
  }

  #serve(key: string, found: FoundFile, contents: FileContents): ServedFile {
    const resize = (derivedBytes = 0) => {
      const cached = this.#files.get(key);
      if (cached?.served === served) this.#keep(key, { ...cached, derivedBytes });
    };
    const served: ServedFile = found.isPage
      ? { kind: "page", page: staticPage(found, contents, resize) }
      : { kind: "asset", representations: this.#representations(found, contents, resize) };
    return served;
  }

  #representations(found: FoundFile, contents: FileContents, onGrow: () => void): Representations {
    const { compressor, clock } = this.#options;
    return assetRepresentations(found, contents, { compressor, now: clock.now(), onGrow });
  }
}

function staticPage(found: FoundFile, { file }: FileContents, countDerived: StaticPage["countDerived"]): StaticPage {
  const headers = pageHeaders(found, { etag: file.etag, size: file.bytes.length });
  return { bytes: file.bytes, headers, countDerived };
}

function versionOfAll(files: readonly { readonly path: string; readonly version: string }[]): string {
  return files.map(({ path, version }) => `${version} ${path}`).join("\n");
}

function sizeOf(served: ServedFile): number {
  if (served.kind === "page") return served.page.bytes.length;
  return served.kind === "asset" ? served.representations.bytes : 0;
}
