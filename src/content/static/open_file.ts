import { eTag } from "@std/http/etag";
import type { ByteRange } from "../../coding/byte_range.ts";
import type {
  CodedBody,
  RepresentationCoding,
  StreamedBody,
} from "../../coding/representations.ts";
import { isSameFile, isSettled, type Look, SEPARATOR } from "./look.ts";

/** Where a file is that may be served. */
export interface FilePlace extends Look {
  /** The real path of the directory that contains it. The path of the directory itself is trusted. */
  readonly root: string;
  readonly coding: RepresentationCoding;
}

/** A file that was read, or that is streamed when it is sent. */
export interface FileContent extends FilePlace, CodedBody {
  readonly coding: RepresentationCoding;
}

/** A file that is open for reading. */
interface OpenFile extends FilePlace {
  readonly file: Deno.FsFile;
}

/** How many bytes of a streamed file are in memory for each client. */
const CHUNK_BYTES = 64 * 1024;

/**
 * How often a path is looked at while its directories change. Somebody who exchanges a directory and a link all the
 * time has to be lucky twice each time.
 */
const MAX_LOOKS = 16;

/**
 * Opens a file, and verifies that it is the one that was looked at: between the two, the file or any of its parent
 * directories may have been replaced by a link to another place. `Deno.open` follows links.
 *
 * @throws {Deno.errors.NotFound} If it is not at the path any more. Other errors are those of `Deno.open`.
 */
async function openFile(place: FilePlace): Promise<OpenFile> {
  const lookedAt = Date.now();
  const file = await Deno.open(place.path);
  try {
    const stats = await file.stat();
    if (isSameFile(stats, place.stats) && await isStillAt(place, lookedAt)) {
      return { ...place, file, stats, lookedAt };
    }
    throw new Deno.errors.NotFound(
      `Cannot open "${place.path}": it was replaced meanwhile`,
    );
  } catch (error) {
    file.close();
    throw error;
  }
}

/**
 * Returns whether a file is at its path, and no part of the path below the root is a link. That is certain if no entry
 * of its directories has changed since it was opened. Otherwise, as in a directory to which files are being written,
 * it is next to certain.
 */
async function isStillAt(
  { path, root, stats }: FilePlace,
  openedAt: number,
): Promise<boolean> {
  if (!isSameFile(await Deno.lstat(path), stats)) return false;
  if (await haveSettled(path, root, openedAt)) return true;
  for (let look = 0; look < MAX_LOOKS; look++) {
    if (
      await Deno.realPath(path) !== path ||
      !isSameFile(await Deno.lstat(path), stats)
    ) return false;
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
  for (let directory = path; directory !== root;) {
    directory = directory.slice(
      0,
      Math.max(directory.lastIndexOf(SEPARATOR), root.length),
    );
    const stats = await Deno.lstat(directory);
    if (
      !stats.isDirectory || !isSettled({ path: directory, stats, lookedAt })
    ) return false;
  }
  return true;
}

/**
 * Reads a file up to the size that it had when it was opened; one that is larger than `maxBytes` is streamed.
 *
 * @throws {Deno.errors.NotFound} If it is not there any more, or was truncated. Other errors are those of `Deno.open`.
 */
export async function readFile(
  place: FilePlace,
  maxBytes: number,
): Promise<FileContent> {
  const { file, ...content } = await openFile(place);
  using _file = file;
  const { stats } = content;
  // Strong, although derived from size and time: If-Range requires it, and file systems keep at least milliseconds.
  if (stats.size > maxBytes) {
    return {
      ...content,
      body: streamedBody(content),
      etag: await eTag(stats, { weak: false }),
    };
  }
  const bytes = await readBytes(file, stats.size);
  return { ...content, body: bytes, etag: await eTag(bytes) };
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

/** Returns a body that opens the file when it is read, for each response. */
function streamedBody(place: FilePlace): StreamedBody {
  const { path, stats: { size } } = place;
  return {
    length: size,
    async read(range = { start: 0, end: size }) {
      const { file, stats } = await openFile(place);
      if (stats.size >= size) return streamBytes(file, path, range);
      file.close();
      throw new Deno.errors.NotFound(
        `Cannot read "${path}": it was truncated meanwhile`,
      );
    },
    cancel() {}, // nothing is open
  };
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
) {
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
