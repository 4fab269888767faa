import type { ByteRange } from "../../coding/byte_range.ts";
import type { RepresentationCoding } from "../../coding/representations.ts";
import { isSameFile, isSettled } from "./file_version.ts";

/** What was seen at a path. */
export interface Place {
  /** The real path. */
  readonly path: string;
  readonly stats: Deno.FileInfo;
  /** When it was looked at, or a little earlier, in milliseconds since the Unix epoch. */
  readonly lookedAt: number;
}

/** Where a file is that may be served. */
export interface FilePlace extends Place {
  /** The real path of the directory that contains it. The path of the directory itself is trusted. */
  readonly root: string;
  readonly coding: RepresentationCoding;
}

/** Where a file and its compressed variants are. */
export interface FilePlaces {
  readonly file: FilePlace;
  readonly variants: readonly FilePlace[];
}

/** A file that is open for reading. */
export interface OpenFile extends FilePlace {
  readonly file: Deno.FsFile;
}

/** Not that of `@std/path`, which loads Deno's Node layer to find out. */
export const SEPARATOR = Deno.build.os === "windows" ? "\\" : "/";

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
export async function openFile(place: FilePlace): Promise<OpenFile> {
  const lookedAt = Date.now(); // file systems use the system's clock, whatever the gateway's is
  const file = await Deno.open(place.path);
  try {
    const stats = await file.stat();
    if (isSameFile(stats, place.stats) && await isStillAt(place, lookedAt)) return { ...place, file, stats, lookedAt };
    throw new Deno.errors.NotFound(`Cannot open "${place.path}": it was replaced meanwhile`);
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
async function isStillAt({ path, root, stats }: FilePlace, openedAt: number): Promise<boolean> {
  if (!isSameFile(await Deno.lstat(path), stats)) return false;
  if (await haveSettled(path, root, openedAt)) return true;
  for (let look = 0; look < MAX_LOOKS; look++) {
    if (await Deno.realPath(path) !== path || !isSameFile(await Deno.lstat(path), stats)) return false;
  }
  return true;
}

/**
 * Returns whether the directories of a file have not changed since it was opened. From the inside out: a directory that
 * did not change confirms what was just seen in it.
 */
async function haveSettled(path: string, root: string, openedAt: number): Promise<boolean> {
  for (let directory = path; directory !== root;) {
    directory = directory.slice(0, Math.max(directory.lastIndexOf(SEPARATOR), root.length));
    const stats = await Deno.lstat(directory);
    if (!stats.isDirectory || !isSettled(stats, openedAt)) return false;
  }
  return true;
}

/**
 * Reads a file up to the size that it had when it was opened.
 *
 * @throws {Deno.errors.NotFound} If it was truncated since then.
 */
export async function readBytes(file: Deno.FsFile, size: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(size);
  for (let position = 0; position < size;) {
    const count = await file.read(bytes.subarray(position));
    if (count === null) throw new Deno.errors.NotFound("Cannot read all of a file: it was truncated");
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
export function streamBytes(file: Deno.FsFile, path: string, { start, end }: ByteRange) {
  let position: number | undefined;
  async function read(): Promise<Uint8Array<ArrayBuffer>> {
    position ??= await file.seek(start, Deno.SeekMode.Start);
    const buffer = new Uint8Array(Math.min(end - position, CHUNK_BYTES));
    const count = await file.read(buffer);
    if (count === null) throw new Error(`Cannot send all of "${path}": the file was truncated`);
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
