/** What a file system says about a file or a directory. */
export type FileStats = Pick<Deno.FileInfo, "dev" | "ino" | "size" | "mtime" | "ctime">;

/**
 * After this time a change has another time than the one before. Deno cuts `ctime` to whole seconds, and Linux sets it
 * with a clock that ticks every 1 to 10 ms.
 */
const RESOLUTION_MS = 2_000;

/** Returns a text that changes when the file is replaced, written to, or gets other permissions. */
export function versionOf({ dev, ino, size, mtime, ctime }: FileStats): string {
  return [dev, ino, size, mtime?.getTime(), ctime?.getTime()].join(" ");
}

/** Returns whether two looks saw the same file. Windows has no inodes. */
export function isSameFile(a: FileStats, b: FileStats): boolean {
  return a.dev === b.dev && a.ino === b.ino;
}

/**
 * Returns whether every change after a look changes the version. Otherwise a second change in the same tick may not.
 *
 * @param lookedAt By the system's clock, which file systems use, in milliseconds since the Unix epoch.
 */
export function isSettled({ mtime, ctime }: FileStats, lookedAt: number): boolean {
  return isBefore(mtime, lookedAt) && isBefore(ctime, lookedAt);
}

/** Returns whether a file was written to just before a look, and so may be incomplete: `cp` copies in several writes. */
export function isBeingWritten({ mtime, ctime }: FileStats, lookedAt: number): boolean {
  return !isBefore(mtime, lookedAt) && !isBefore(ctime, lookedAt);
}

function isBefore(time: Date | null, lookedAt: number): boolean {
  return time !== null && time.getTime() <= lookedAt - RESOLUTION_MS;
}
