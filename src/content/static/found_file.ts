import type { RepresentationCoding } from "../coding/representations.ts";
import type { ByteRange, StreamedBody } from "../../core/http/send.ts";
import { type Clock, withDeadline } from "../../core/values/clock.ts";

/** A file, as a look at it found it. */
export interface FoundFile {
  /** The real path. */
  readonly path: string;
  readonly stats: Deno.FileInfo;
  /** When the look began, in milliseconds of the system's clock, which file systems use, too. */
  readonly lookedAt: number;
  /** The coding of its content: `identity`, unless it is a compressed variant of another file. */
  readonly coding: RepresentationCoding;
}

/**
 * If two changes of a file are further apart than this, their times differ. Deno truncates `ctime` to whole seconds, and
 * Linux sets it by a clock that ticks every 1 to 10 ms.
 */
const RESOLUTION_MS = 2_000;

/** Returns whether every change after a look changes the version. A change soon after another one may not. */
export function isSettled({ stats, lookedAt }: FoundFile): boolean {
  const changedAt = stats.ctime ?? stats.mtime;
  return changedAt !== null && changedAt.getTime() <= lookedAt - RESOLUTION_MS;
}

/** Returns a text that changes when the file is replaced, is written, or gets other permissions. */
export function versionOf(
  { path, stats }: Pick<FoundFile, "path" | "stats">,
): string {
  const { dev, ino, size, mtime, ctime } = stats;
  return [dev, ino, size, mtime?.getTime(), ctime?.getTime(), path].join(" ");
}

/** How long it may take to look at a file, or to open or read it. */
const DEADLINE_MS = 5_000;

/**
 * Limits the time for an operation on a file. A network file system waits for its server, and opening a FIFO, if one takes
 * the place of a file just then, for its writer.
 */
export function inTime<T>(work: Promise<T>, clock: Clock): Promise<T> {
  const expected = `expected an answer within ${DEADLINE_MS / 1_000} s`;
  const createError = () => new Deno.errors.TimedOut(expected);
  return withDeadline(work, DEADLINE_MS, clock, createError);
}

/** Returns the result of an operation; `undefined` if nothing is at its path, or nothing that can ever be read. */
export async function ifThere<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

/** Returns whether an error means that nothing is at a path, or nothing that can ever be read. */
export function isAbsence(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound ||
    error instanceof Deno.errors.NotADirectory ||
    error instanceof Deno.errors.FilesystemLoop ||
    (error instanceof Error && "code" in error &&
      error.code === "ENAMETOOLONG"); // Deno has no class for it
}

/** Returns whether an error means that a file may not be read, or does not respond, which an operator can fix. */
export function isUnreadable(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied ||
    error instanceof Deno.errors.TimedOut;
}

/**
 * Opens a file, and verifies that it is the file that was found, and still where it was found: a deployment may have
 * replaced it, or a link to it, since then.
 *
 * @throws {Deno.errors.NotFound} If it was replaced or truncated. The caller looks again then.
 */
async function openFound({ path, stats }: FoundFile): Promise<Deno.FsFile> {
  const file = await Deno.open(path);
  try {
    const opened = await file.stat();
    const isThere = opened.size >= stats.size &&
      isSameFile(opened, stats) &&
      await Deno.realPath(path) === path &&
      isSameFile(opened, await Deno.lstat(path));
    if (isThere) return file;
    throw new Deno.errors.NotFound(
      `Cannot open "${path}": it was replaced after it was found`,
    );
  } catch (error) {
    file.close();
    throw error;
  }
}

/** Returns whether a file that was opened has the version that was found. */
async function isUnchanged(
  file: Deno.FsFile,
  found: FoundFile,
): Promise<boolean> {
  const { path } = found;
  return versionOf({ path, stats: await file.stat() }) === versionOf(found);
}

/** Returns whether two looks saw the same file. Where there are no inodes, nothing shows that it was replaced. */
export function isSameFile(a: Deno.FileInfo, b: Deno.FileInfo): boolean {
  return a.dev === b.dev && a.ino === b.ino;
}

/**
 * Reads a file into memory.
 *
 * @throws {Deno.errors.NotFound} If it was replaced or truncated. The caller looks again then.
 */
export async function readFile(
  found: FoundFile,
): Promise<Uint8Array<ArrayBuffer>> {
  using file = await openFound(found);
  const bytes = new Uint8Array(found.stats.size);
  for (let position = 0; position < bytes.length;) {
    const count = await file.read(bytes.subarray(position));
    if (count === null) {
      throw new Deno.errors.NotFound(
        `Cannot read all of "${found.path}": it was truncated`,
      );
    }
    position += count;
  }
  return bytes;
}

/** How many bytes are hashed at one go, for which all else waits: 0.25 ms. Smaller parts take twice the time in all. */
const HASHED_BYTES = 256 << 10;

/**
 * Returns the entity tag that `eTag()` of `@std/http` makes of a file's bytes, without having all of them in memory;
 * `undefined` as soon as the file is changed: each look at a large log would hash all of it.
 */
export async function hashFile(found: FoundFile): Promise<string | undefined> {
  const { createHash } = await import("node:crypto"); // not at startup; Web Crypto hashes nothing in parts
  const hash = createHash("sha256");
  using file = await openFound(found);
  const part = new Uint8Array(HASHED_BYTES);
  for (let left = found.stats.size; left > 0;) { // not until the end, which a growing file may never have
    const count = await file.read(part) ?? 0;
    hash.update(part.subarray(0, count));
    left -= count;
    if (!await isUnchanged(file, found)) return undefined;
  }
  const digest = hash.digest("base64").slice(0, 27);
  return `"${found.stats.size.toString(16)}-${digest}"`;
}

/**
 * Returns a body that opens a file for each response, when the body is read.
 *
 * @param isTagged Whether its response has an entity tag, so that a file that was changed has to be looked at again. One
 * without a tag may grow, as a log does.
 */
export function streamFile(
  found: FoundFile,
  isTagged: boolean,
  clock: Clock,
): StreamedBody {
  const { path, stats: { size } } = found;
  async function read({ start, end }: ByteRange = { start: 0, end: size }) {
    const opening = openFound(found);
    try {
      const file = await inTime(opening, clock);
      if (isTagged && !await isUnchanged(file, found)) {
        throw new Deno.errors.NotFound(
          `Cannot send "${path}": it was changed after it was found`,
        );
      }
      await file.seek(start, Deno.SeekMode.Start);
      return file.readable.pipeThrough(exactly(end - start, path));
    } catch (error) {
      void opening.then((file) => file.close(), () => {}); // the file may open after the deadline
      throw error;
    }
  }
  return { length: size, read, cancel() {} }; // nothing is open
}

/**
 * Passes on exactly this many bytes, even if the file grows. If it shrinks, the stream ends in an error.
 *
 * @param path The name of the file in the error.
 */
function exactly(
  bytes: number,
  path: string,
): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  let left = bytes;
  return new TransformStream({
    transform(chunk, controller) {
      const part = chunk.subarray(0, left);
      controller.enqueue(part);
      left -= part.length;
      if (left === 0) controller.terminate();
    },
    flush() {
      if (left === 0) return;
      throw new Error(`Cannot send all of "${path}": the file was truncated`);
    },
  });
}
