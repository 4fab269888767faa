import { close, constants, fstat, open, read } from "node:fs";
import { promisify } from "node:util";
import { type FileStats, versionOf } from "./file_version.ts";
import { hasSettled, isStillAt } from "./is_still_at.ts";

/** A regular file that is open for reading. */
export interface RegularFile {
  readonly size: number;
  readonly mtime: Date | null;
  /** Identifies the version of the file: see {@linkcode versionOf}. */
  readonly version: string;
  /** Whether every later change of the file changes `version`. */
  readonly isSettled: boolean;
  /** Whether it was written to within the last second, and so may be incomplete: `cp` copies in several writes. */
  readonly isRecent: boolean;
  /**
   * Reads bytes at a position. Only one read may be in progress.
   *
   * @returns Fewer bytes than `size` at the end of the file; none after it.
   */
  read(position: number, size: number): Promise<Uint8Array<ArrayBuffer>>;
  /** Closes the file after the read that is in progress, if there is one. Can be called again. */
  close(): void;
}

const openFd = promisify(open);
const fstatFd = promisify(fstat);
const readFd = promisify(read);

/**
 * `Deno.open` has no equivalent of `O_NONBLOCK`: with it, opening a FIFO without a writer would occupy one of the few
 * threads of Deno for file operations until there is a writer. Windows has neither.
 */
const FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/**
 * Opens a file that was found at a path, and verifies that it is the one that was opened: between the two, the file or
 * any of its parent directories may have been replaced by a link to another place, or the file by a FIFO.
 *
 * @param path A path without links, as `Deno.realPath` returns it.
 * @param root The directory that contains the file. The path of the directory itself is trusted.
 * @throws {Deno.errors.NotFound} If there is no regular file at the path any more.
 * @throws {Deno.errors.PermissionDenied} If the file must not be read. Other errors are those of `node:fs`.
 */
export async function openRegularFile(path: string, root: string): Promise<RegularFile> {
  const openedAt = Date.now(); // file systems use the system's clock, whatever the gateway's is
  const fd = await openFd(path, FLAGS).catch((error) => {
    throw toDenoError(error);
  });
  try {
    const stats = await fstatFd(fd);
    if (!stats.isFile() || !(await isStillAt({ path, root, openedAt }, stats))) {
      throw new Deno.errors.NotFound(`Cannot open "${path}": it was replaced meanwhile`);
    }
    return regularFile(fd, stats, openedAt);
  } catch (error) {
    close(fd);
    throw error;
  }
}

function regularFile(fd: number, stats: FileStats, openedAt: number): RegularFile {
  let isClosed = false;
  let isReading = false;
  const closeFd = () => close(fd);
  return {
    size: stats.size,
    mtime: stats.mtime,
    version: versionOf(stats),
    isSettled: hasSettled(stats.ctime, openedAt),
    isRecent: !hasSettled(stats.ctime, openedAt) && !hasSettled(stats.mtime, openedAt),
    async read(position, size) {
      const buffer = new Uint8Array(size);
      isReading = true;
      try {
        const { bytesRead } = await readFd(fd, buffer, 0, size, position);
        return buffer.subarray(0, bytesRead);
      } finally {
        isReading = false;
        if (isClosed) closeFd();
      }
    },
    close() {
      if (!isClosed && !isReading) closeFd(); // the number may be reused at once, but not while it is read from
      isClosed = true;
    },
  };
}

/** The file system's errors in the classes that Deno's own functions throw. */
function toDenoError(error: unknown): unknown {
  if (!(error instanceof Error) || !("code" in error)) return error;
  const { NotFound, PermissionDenied } = Deno.errors;
  if (["ENOENT", "ENOTDIR", "ELOOP"].includes(String(error.code))) return new NotFound(error.message, { cause: error });
  if (["EACCES", "EPERM"].includes(String(error.code))) return new PermissionDenied(error.message, { cause: error });
  return error;
}
