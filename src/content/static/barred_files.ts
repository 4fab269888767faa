import type { Clock } from "../../core/values/clock.ts";
import {
  isInside,
  lastName,
  SEPARATOR,
  toAbsolute,
} from "../../files/paths.ts";
import { isGranted } from "../../core/values/runtime.ts";
import { isSameFile } from "./found_file.ts";

/** A file or a directory that is never served. */
type Barred = Awaited<ReturnType<typeof locate>>;

/** How long a look is valid. */
const MAX_AGE_MS = 1_000;

/**
 * The files and directories that the gateway itself reads and stores. They are never served, under any name or link.
 *
 * A file is recognized by its real path; by its inode, under a hard link; and in the served directory also by its name:
 * `app.env~` and `app.env.bak` are backups, and `c2/app.env` may become `config/app.env` when the link `config` is
 * switched.
 */
export class BarredFiles {
  readonly #listPaths: () => Promise<readonly string[]>;
  readonly #clock: Clock;
  #barred: Promise<readonly Barred[]> = Promise.resolve([]);
  #lookedAt = -Infinity;

  /** @param listPaths Returns the paths of the files and directories. */
  constructor(
    listPaths: () => Promise<readonly string[]>,
    clock: Clock,
  ) {
    this.#listPaths = listPaths;
    this.#clock = clock;
  }

  /** Returns whether a file in a served directory is barred, or is in a barred directory. Both paths are real ones. */
  async includes(
    path: string,
    file: Deno.FileInfo,
    root: string,
  ): Promise<boolean> {
    const barred = await this.#recent();
    return barred.some((it) =>
      isInside(path, it.path) || isLinkedTo(file, it) ||
      isNamedAfter(path, it, root)
    );
  }

  /** Returns the real paths of the barred files in a directory. */
  async findIn(root: string): Promise<string[]> {
    const barred = await this.#recent();
    return barred
      .filter(({ path, stats }) => stats !== undefined && isInside(path, root))
      .map(({ path }) => path);
  }

  #recent(): Promise<readonly Barred[]> {
    const now = this.#clock.monotonic();
    if (now - this.#lookedAt >= MAX_AGE_MS) {
      this.#lookedAt = now;
      this.#barred = this.#look();
      this.#barred.catch(() => this.#lookedAt = -Infinity); // the next caller tries again
    }
    return this.#barred;
  }

  async #look(): Promise<readonly Barred[]> {
    const paths = await this.#listPaths();
    return await Promise.all(paths.map(locate));
  }
}

/** Returns where a path leads, and what is there. */
async function locate(asGiven: string) {
  const given = toAbsolute(asGiven);
  const name = lastName(given);
  const parent = given.slice(0, -name.length - 1);
  const directory = await ifReadable(parent, Deno.realPath) ?? parent;
  return {
    /** The real path; the given one if nothing exists there. */
    path: await ifReadable(given, Deno.realPath) ?? given,
    /** The path as it was given, with its directory's real path. */
    entry: directory + SEPARATOR + name,
    /** `undefined` if nothing exists there. */
    stats: await ifReadable(given, Deno.stat),
  };
}

/** Asks about a path. Returns `undefined` if nothing exists there, or if Deno would prompt for the permission. */
async function ifReadable<T>(
  path: string,
  ask: (path: string) => Promise<T>,
): Promise<T | undefined> {
  if (!isGranted({ name: "read", path })) return undefined;
  return await ask(path).catch(() => undefined);
}

/** Returns whether a file is the same as a barred one. Where there are no inodes, nothing shows that. */
function isLinkedTo(file: Deno.FileInfo, { stats }: Barred): boolean {
  return stats !== undefined && file.ino !== null && isSameFile(file, stats);
}

/** Returns whether a file has the name of a barred file in the served directory, possibly with a suffix. */
function isNamedAfter(file: string, barred: Barred, root: string): boolean {
  const { path, entry, stats } = barred;
  if (stats?.isDirectory) return false; // a file may be missing just now, because an editor has made it a backup
  return [path, entry].some((own) =>
    isInside(own, root) && isBackup(lastName(file), lastName(own))
  );
}

/**
 * Returns whether a name consists of another one and a suffix. Any suffix counts that does not continue the word. Emacs
 * saves `app.env` as `#app.env#`.
 */
function isBackup(name: string, own: string): boolean {
  const rest = name.replace(/^#/, "");
  return rest.startsWith(own) &&
    !/^[\p{L}\p{N}]/u.test(rest.slice(own.length));
}
