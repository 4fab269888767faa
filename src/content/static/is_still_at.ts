import { dirname } from "@std/path/dirname";

/** Where a file was opened, and when. */
export interface OpenedAt {
  /** A path without links, as `Deno.realPath` returned it. */
  readonly path: string;
  /** The directory that contains the file. Its own path is trusted. */
  readonly root: string;
  /** When the file was opened, or a little earlier, in milliseconds since the Unix epoch. */
  readonly openedAt: number;
}

/** Identifies a file: the numbers of its device and its inode. */
export interface FileIdentity {
  readonly dev: number;
  /** Windows has none. */
  readonly ino: number | null;
}

/**
 * How exact a `ctime` is: Deno cuts it to whole seconds, and Linux sets it with a clock that ticks every 1 to 10 ms.
 */
const RESOLUTION_MS = 1_000 + 20;

/**
 * How often a path is looked at while its directories change. Somebody who exchanges a directory and a link all the
 * time has to be lucky twice each time.
 */
const MAX_LOOKS = 16;

/**
 * Returns whether an opened file is the one at its path, and no part of the path below the root is a link. `Deno.open`
 * follows links, and there is no permission for `/proc/self/fd`, which would say what was opened.
 *
 * The result is certain if no entry of the directories changed since the file was opened. Otherwise, as in a directory
 * to which files are being written, it is next to certain.
 */
export async function isStillAt(opened: OpenedAt, identity: FileIdentity): Promise<boolean> {
  const { path } = opened;
  if (!isSame(Deno.lstatSync(path), identity)) return false;
  if (haveSettled(opened)) return true;
  for (let i = 0; i < MAX_LOOKS; i++) {
    if (await Deno.realPath(path) !== path || !isSame(await Deno.lstat(path), identity)) return false;
  }
  return true;
}

/**
 * Returns whether the directories of a file have not changed since it was opened. A rename changes the `ctime` of its
 * directories, which no program can set.
 *
 * From the inside out: a directory that did not change confirms what was just seen in it.
 */
function haveSettled({ path, root, openedAt }: OpenedAt): boolean {
  for (let directory = dirname(path);; directory = dirname(directory)) {
    const { isDirectory, ctime } = Deno.lstatSync(directory);
    if (!isDirectory || !hasSettled(ctime, openedAt)) return false;
    if (directory === root) return true;
    if (directory === dirname(directory)) return false; // not below the root
  }
}

/** Returns whether the last change was so long before a moment that every change after it has another `ctime`. */
export function hasSettled(ctime: Date | null, moment: number): boolean {
  return ctime !== null && ctime.getTime() <= moment - RESOLUTION_MS;
}

function isSame(a: FileIdentity, b: FileIdentity): boolean {
  return a.dev === b.dev && a.ino === b.ino;
}
