/** What was seen at a path. */
export interface Look {
  /** The real path. */
  readonly path: string;
  readonly stats: Deno.FileInfo;
  /**
   * When it was looked at, or a little earlier, by the clock that file systems use: the system's, in milliseconds since
   * the Unix epoch.
   */
  readonly lookedAt: number;
}

/**
 * After this time a change has another time than the one before. Deno cuts `ctime` to whole seconds, and Linux sets it
 * with a clock that ticks every 1 to 10 ms.
 */
const RESOLUTION_MS = 2_000;

/** Looks at what is at a path, or where a link at it leads. */
export async function lookAt(path: string): Promise<Look> {
  const lookedAt = Date.now();
  const realPath = await Deno.realPath(path);
  return { path: realPath, stats: await Deno.stat(realPath), lookedAt };
}

/** Not that of `@std/path`, which loads Deno's Node layer to find out. */
export const SEPARATOR = Deno.build.os === "windows" ? "\\" : "/";

/** Returns whether a path is that of a directory, or below it: `/srv/site-old` is not below `/srv/site`. */
export function isInside(path: string, directory: string): boolean {
  return path === directory ||
    path.startsWith(
      directory.endsWith(SEPARATOR) ? directory : directory + SEPARATOR,
    );
}

/** Returns a text that changes when a file is replaced, written to, or gets other permissions. */
export function versionOf(
  { path, stats: { dev, ino, size, mtime, ctime } }: Look,
): string {
  return [dev, ino, size, mtime?.getTime(), ctime?.getTime(), path].join(" ");
}

/** Returns whether two looks saw the same file. Windows has no inodes. */
export function isSameFile(a: Deno.FileInfo, b: Deno.FileInfo): boolean {
  return a.dev === b.dev && a.ino === b.ino;
}

/** Returns whether every change after a look changes the version. Otherwise a second change in the same tick may not. */
export function isSettled(
  { stats: { mtime, ctime }, lookedAt }: Look,
): boolean {
  return isBefore(mtime, lookedAt) && isBefore(ctime, lookedAt);
}

/** Returns whether a file was written to just before a look, and so may be incomplete: `cp` copies in several writes. */
export function isBeingWritten(
  { stats: { mtime, ctime }, lookedAt }: Look,
): boolean {
  return !isBefore(mtime, lookedAt) && !isBefore(ctime, lookedAt);
}

function isBefore(time: Date | null, lookedAt: number): boolean {
  return time !== null && time.getTime() <= lookedAt - RESOLUTION_MS;
}
