import type { Clock } from "../../core/values/clock.ts";
import {
  isInside,
  lastName,
  SEPARATOR,
  toAbsolute,
} from "../../core/values/paths.ts";
import { isGranted } from "../../core/values/runtime.ts";
import { SharedCalls } from "../../core/values/shared_calls.ts";

/** What identifies a file under any name. */
export interface FileIdentity {
  readonly dev: number;
  readonly ino: number | null;
}

/** A file or a directory that is never served. */
interface Barred {
  /** The real path; the given one if nothing exists there. */
  readonly path: string;
  /** The path as it was given, with its directory's real path, and {@linkcode path}. */
  readonly places: readonly string[];
  /** `undefined` if nothing exists there. */
  readonly stats: Deno.FileInfo | undefined;
}

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
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #looks = new SharedCalls<readonly Barred[]>();
  #barred: readonly Barred[] = [];
  #lookedAt = -Infinity;

  /** @param listPaths Returns the paths of the files and directories. */
  constructor(
    listPaths: () => Promise<readonly string[]>,
    clock: Pick<Clock, "monotonic">,
  ) {
    this.#listPaths = listPaths;
    this.#clock = clock;
  }

  /** Returns whether a file in a served directory is barred, or is in a barred directory. Both paths are real ones. */
  async includes(
    path: string,
    file: FileIdentity,
    root: string,
  ): Promise<boolean> {
    const barred = await this.#recent();
    return barred.some((it) =>
      isInside(path, it.path) || isSameFile(file, it.stats) ||
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

  async #recent(): Promise<readonly Barred[]> {
    const age = this.#clock.monotonic() - this.#lookedAt;
    if (age < MAX_AGE_MS) return this.#barred;
    return await this.#looks.run("", () => this.#look());
  }

  async #look(): Promise<readonly Barred[]> {
    const lookedAt = this.#clock.monotonic();
    const paths = await this.#listPaths();
    this.#barred = await Promise.all(paths.map(locate));
    this.#lookedAt = lookedAt;
    return this.#barred;
  }
}

/** Returns where a path leads, and what is there. */
async function locate(asGiven: string): Promise<Barred> {
  const given = toAbsolute(asGiven);
  const name = lastName(given);
  const directory = await realPathOf(given.slice(0, -name.length - 1));
  const path = await realPathOf(given);
  const isReadable = isGranted({ name: "read", path: given });
  const stats = isReadable
    ? await Deno.stat(given).catch(() => undefined) // what cannot be read cannot be served either
    : undefined;
  const places = [given, directory + SEPARATOR + name, path];
  return { path, places, stats };
}

/** Returns the real path; the path itself if nothing exists there, or if Deno would prompt for the permission. */
async function realPathOf(path: string): Promise<string> {
  if (!isGranted({ name: "read", path })) return path;
  return await Deno.realPath(path).catch(() => path);
}

/** Returns whether a file is the same as a barred one. Where there are no inodes, nothing shows that. */
function isSameFile(
  { dev, ino }: FileIdentity,
  barred: Deno.FileInfo | undefined,
): boolean {
  return ino !== null && ino === barred?.ino && dev === barred.dev;
}

/** Returns whether a file has the name of a barred file in the served directory, possibly with a suffix. */
function isNamedAfter(file: string, barred: Barred, root: string): boolean {
  if (!barred.stats?.isFile) return false;
  return barred.places.some((own) =>
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
