import { eTag } from "@std/http/etag";
import type { Compressor } from "../../coding/compressor.ts";
import type { Log } from "../../observe/log.ts";
import { HtmlFile } from "../../pages/html_file.ts";
import type { Clock } from "../../values/clock.ts";
import { type FileStats, isBeingWritten, isSettled, versionOf } from "./file_version.ts";
import { type FilePlace, type FilePlaces, openFile, readBytes } from "./open_file.ts";
import {
  type FileContent,
  isPageName,
  pageHeaders,
  servedAsset,
  type ServedFile,
  streamedFile,
} from "./served_file.ts";

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
  readonly served: ServedFile;
}

/** Options of {@linkcode FileLoader}. */
interface FileLoaderOptions {
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

/** Reads files, and makes everything that is needed to send them. */
export class FileLoader {
  readonly #options: FileLoaderOptions;
  readonly #maxKeptBytes: number;
  /** The size of the last config script: each page in memory contains one. */
  #scriptBytes = 0;

  constructor(options: FileLoaderOptions) {
    this.#options = options;
    this.#maxKeptBytes = Math.min(MAX_KEPT_BYTES, options.cacheBytes * FILE_SHARE);
  }

  /**
   * Reads a file and its variants, unless what is known of them is current.
   *
   * @param name The requested name. It determines the media type, even if a link leads to a file with another name.
   * @throws {Deno.errors.NotFound} If one of them is not there any more. Other errors are those of `Deno.open`.
   */
  readonly load = async (name: string, places: FilePlaces, known: StaticFile | undefined): Promise<StaticFile> => {
    const all = [places.file, ...places.variants];
    const version = versionOfAll(all);
    if (known?.isSettled && known.version === version) return known;
    const maxBytes = Math.max(this.#maxKeptBytes, MIN_STREAMED_BYTES);
    if (all.some(({ stats }) => stats.size > maxBytes)) {
      (await openFile(places.file)).file.close(); // so that one that must not be read is not found
      const served = streamedFile(name, places, this.#options);
      return { version, etags: "", isSettled: true, isBeingWritten: false, served }; // nothing of it is kept
    }
    const contents = await readContents(places, maxBytes);
    const description = describe(contents);
    const isSame = known?.version === description.version && known.etags === description.etags;
    return { ...description, served: isSame ? known.served : this.#serve(name, contents) };
  };

  #serve(name: string, contents: readonly [FileContent, ...FileContent[]]): ServedFile {
    const isKept = contents[0].bytes.length <= this.#maxKeptBytes;
    const compressor = isKept ? this.#options.compressor : undefined;
    if (isPageName(name)) return this.#page(name, contents[0], compressor);
    return servedAsset(name, contents, { now: this.#options.clock.now(), compressor });
  }

  #page(name: string, { bytes, etag }: FileContent, compressor: Compressor | undefined): ServedFile {
    const { log } = this.#options;
    const file = new HtmlFile({ bytes, headers: pageHeaders(name, etag), compressor, log });
    const maxBytes = () => file.maxBytes(this.#scriptBytes);
    return {
      isPage: true,
      get bytes() {
        return maxBytes();
      },
      respond: (request, script) => {
        if (script !== undefined) this.#scriptBytes = script.bytes.length;
        return file.respond(request, script);
      },
    };
  }
}

async function readContents({ file, variants }: FilePlaces, maxBytes: number) {
  const reading = variants.map((variant) => readContent(variant, maxBytes).catch(ignoreUnreadable));
  const [first, ...others] = await Promise.all([readContent(file, maxBytes), ...reading]);
  return [first, ...others.filter((content) => content !== undefined)] as const;
}

/** A variant that must not be read is left out: the file itself can be sent. */
function ignoreUnreadable(error: unknown): undefined {
  if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
}

async function readContent(place: FilePlace, maxBytes: number): Promise<FileContent> {
  const { file, ...opened } = await openFile(place);
  using _file = file;
  const { size } = opened.stats;
  if (size > maxBytes) throw new Deno.errors.NotFound(`Cannot read "${place.path}": it has grown meanwhile`);
  const bytes = await readBytes(file, size);
  return { ...opened, bytes, etag: await eTag(bytes) };
}

function describe(contents: readonly FileContent[]): Omit<StaticFile, "served"> {
  return {
    version: versionOfAll(contents),
    etags: contents.map(({ etag }) => etag).join(),
    isSettled: contents.every(({ stats, lookedAt }) => isSettled(stats, lookedAt)),
    isBeingWritten: contents.some(({ stats, lookedAt }) => isBeingWritten(stats, lookedAt)),
  };
}

function versionOfAll(files: readonly { readonly path: string; readonly stats: FileStats }[]): string {
  return files.map(({ path, stats }) => `${versionOf(stats)} ${path}`).join("\n");
}
