import { eTag } from "@std/http/etag";
import type { ByteRange, StreamedBody } from "../../core/http/send.ts";
import { type Clock, withDeadline } from "../../core/values/clock.ts";
import { SEPARATOR } from "../../core/values/paths.ts";

/** A file, as a look at it found it. */
export interface FoundFile {
  /** Its real path, and that of the served directory. */
  readonly path: string;
  readonly root: string;
  readonly stats: Deno.FileInfo;
  /**
   * The time of the look, or a little earlier, in milliseconds since the Unix epoch. File systems use the system's clock,
   * so this time does, too.
   */
  readonly lookedAt: number;
}

/**
 * If two changes of a file are further apart than this, their times differ. Deno truncates `ctime` to whole seconds, and
 * Linux sets it by a clock that ticks every 1 to 10 ms.
 */
const RESOLUTION_MS = 2_000;

/** Returns whether a file's time is so old that every change after the look sets a different time. */
function isOld(time: Date | null, lookedAt: number): boolean {
  return time !== null && time.getTime() <= lookedAt - RESOLUTION_MS;
}

/** Returns whether every change after a look changes the version. A change soon after another one may not. */
export function isSettled(
  { stats, lookedAt }: Pick<FoundFile, "stats" | "lookedAt">,
): boolean {
  return isOld(stats.mtime, lookedAt) && isOld(stats.ctime, lookedAt);
}

/** Returns whether a file was written just before a look. It may then be incomplete, since `cp` copies in several writes. */
export function isBeingWritten({ stats, lookedAt }: FoundFile): boolean {
  return !isOld(stats.mtime, lookedAt) && !isOld(stats.ctime, lookedAt);
}

/** Returns a text that changes when one of the files is replaced, is written, or gets other permissions. */
export function versionOf(files: readonly FoundFile[]): string {
  const versions = files.map(({ path, stats }) => {
    const { dev, ino, size, mtime, ctime } = stats;
    return [dev, ino, size, mtime?.getTime(), ctime?.getTime(), path].join(" ");
  });
  return versions.join("\n");
}

/** How long a look, or reading a file into memory, may take. */
const DEADLINE_MS = 5_000;

/**
 * Limits the time for an operation on a file. Opening a FIFO waits for its writer, and a network file system waits for its
 * server.
 */
export function inTime<T>(work: Promise<T>, clock: Clock): Promise<T> {
  const expected = `expected an answer within ${DEADLINE_MS / 1_000} s`;
  const createError = () => new Deno.errors.TimedOut(expected);
  return withDeadline(work, DEADLINE_MS, clock, createError);
}

/** Returns whether an error means that nothing exists at a path. */
export function isAbsence(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound ||
    error instanceof Deno.errors.NotADirectory;
}

/** Returns whether an error means that a path can never be read. */
export function isPermanent(error: unknown): boolean {
  return error instanceof Deno.errors.NotCapable ||
    error instanceof Deno.errors.FilesystemLoop ||
    (error instanceof Error && "code" in error &&
      error.code === "ENAMETOOLONG"); // Deno has no class for it
}

/** Returns whether an error means that a file may not be read, or does not respond, which an operator can fix. */
export function isUnreadable(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied ||
    error instanceof Deno.errors.TimedOut;
}

/** A file that is open for reading, and its state when it was opened. */
interface OpenFile {
  readonly file: Deno.FsFile;
  readonly stats: Deno.FileInfo;
  readonly lookedAt: number;
}

/**
 * Opens a file, and verifies that it is the file that was found. Since then, the file or any of its parent directories may
 * have been replaced by a link to another place, which `Deno.open` follows.
 *
 * @throws {Deno.errors.NotFound} If the file is no longer at the path. Other errors are those of `Deno.open`.
 */
async function openFound(found: FoundFile): Promise<OpenFile> {
  const lookedAt = Date.now();
  const file = await Deno.open(found.path);
  try {
    const stats = await file.stat();
    const isSame = isSameFile(stats, found.stats) &&
      await isStillAt(found, stats, lookedAt);
    if (isSame) return { file, stats, lookedAt };
    throw new Deno.errors.NotFound(
      `Cannot open "${found.path}": it was replaced after it was found`,
    );
  } catch (error) {
    file.close();
    throw error;
  }
}

/**
 * How often a path is checked while its directories change. An attacker who keeps swapping a directory and a link would
 * have to hit the right moment twice in each check.
 */
const MAX_CHECKS = 16;

/**
 * Returns whether an open file is at its path, and no part of the path below the root is a link. The answer is certain if
 * its directories have not changed since it was opened. While files are being written to them, it is almost certain.
 */
async function isStillAt(
  { path, root }: FoundFile,
  stats: Deno.FileInfo,
  openedAt: number,
): Promise<boolean> {
  if (!isSameFile(await Deno.lstat(path), stats)) return false;
  if (await areDirectoriesSettled(path, root, openedAt)) return true;
  for (let check = 0; check < MAX_CHECKS; check++) {
    if (await Deno.realPath(path) !== path) return false;
    if (!isSameFile(await Deno.lstat(path), stats)) return false;
  }
  return true;
}

/**
 * Returns whether the directories of a path have not changed since a look. It begins with the innermost one, since a
 * directory that has not changed confirms the directory that was just seen in it.
 */
async function areDirectoriesSettled(
  path: string,
  root: string,
  lookedAt: number,
): Promise<boolean> {
  let directory = path;
  while (directory !== root) {
    const end = directory.lastIndexOf(SEPARATOR);
    directory = directory.slice(0, Math.max(end, root.length));
    const stats = await Deno.lstat(directory);
    if (!stats.isDirectory || !isSettled({ stats, lookedAt })) return false;
  }
  return true;
}

/** Returns whether two looks saw the same file. Windows has no inodes. */
function isSameFile(a: Deno.FileInfo, b: Deno.FileInfo): boolean {
  return a.dev === b.dev && a.ino === b.ino;
}

/** The content of a file, and the state of the file when it was read. */
export interface FileBytes extends Pick<FoundFile, "stats" | "lookedAt"> {
  readonly body: Uint8Array<ArrayBuffer>;
  readonly etag: string | undefined;
}

/**
 * Reads a file into memory.
 *
 * @throws {Deno.errors.NotFound} If it was replaced or truncated after the look, or has grown beyond `maxBytes`. The
 * caller looks again then.
 */
export async function readFile(
  found: FoundFile,
  maxBytes: number,
): Promise<FileBytes> {
  const { file, stats, lookedAt } = await openFound(found);
  using _file = file;
  if (stats.size > maxBytes) {
    throw new Deno.errors.NotFound(
      `Cannot read "${found.path}": it has grown since it was found`,
    );
  }
  const body = await readBytes(file, stats.size);
  return { stats, lookedAt, body, etag: await eTag(body) };
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

/** Returns a body that opens a file for each response, when the body is read. */
export function streamFile(found: FoundFile, clock: Clock): StreamedBody {
  const { path, stats: { size } } = found;
  async function read(range: ByteRange = { start: 0, end: size }) {
    const opening = openFound(found);
    try {
      const { file, stats } = await inTime(opening, clock);
      if (stats.size >= size) return streamBytes(file, path, range);
      throw new Deno.errors.NotFound(
        `Cannot read "${path}": it was truncated after it was found`,
      );
    } catch (error) {
      void opening.then(({ file }) => file.close(), () => {}); // the file may open after the deadline
      throw error;
    }
  }
  return { length: size, read, cancel() {} }; // nothing is open
}

/** How many bytes of a streamed file are in memory for each client. */
const CHUNK_BYTES = 64 * 1024;

/**
 * Returns a stream that sends exactly the bytes of a range, even if the file grows, and then closes the file. If the file
 * shrinks, the stream ends in an error. The caller has to read or cancel the stream.
 *
 * @param path The name of the file in the error.
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
  const close = () => file[Symbol.dispose](); // unlike close(), it may be called twice, as by a read that ends after a cancel
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
