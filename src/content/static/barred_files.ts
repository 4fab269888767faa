import type { Clock } from "../../core/values/clock.ts";
import {
  isInside,
  lastName,
  SEPARATOR,
  toAbsolute,
} from "../../core/values/paths.ts";
import { isGranted } from "../../core/values/runtime.ts";
import { SharedCalls } from "../../core/values/shared_calls.ts";
import { SizeBoundedCache } from "../../core/values/size_bounded_cache.ts";
import type { FoundFile } from "./read_file.ts";

/** Options of {@linkcode BarredFiles}. */
interface BarredFilesOptions {
  /** Returns the paths of files and directories. */
  readonly neverServed: () => Promise<readonly string[]>;
  readonly clock: Pick<Clock, "monotonic">;
}

/** A file or a directory that is never served. */
interface Barred {
  /** The real path; the given one if nothing exists there. */
  readonly path: string;
  /** All paths under which it is known. */
  readonly places: readonly string[];
  /** `undefined` if nothing exists there. */
  readonly stats: Deno.FileInfo | undefined;
}

/** How long a look is valid. */
const MAX_AGE_MS = 1_000;

/**
 * How many files are remembered. This is enough for an env file that is replaced each day for years, and for hundreds of
 * other files.
 */
const MAX_REMEMBERED = 10_000;

/**
 * The files and directories that the gateway itself reads and stores. They are never served, under any name or link.
 *
 * A file is recognized by its real path; by its identity, since a hard link stays the same file even after an editor or
 * `mv` has replaced the original; and in the served directory also by its name: `app.env~` and `app.env.bak` are backups,
 * and `c2/app.env` may become `config/app.env` when the link `config` is switched.
 */
export class BarredFiles {
  readonly #options: BarredFilesOptions;
  readonly #looks = new SharedCalls<readonly Barred[]>();
  /** The identities of all barred files so far. */
  readonly #remembered = new SizeBoundedCache<true>(MAX_REMEMBERED);
  #barred: readonly Barred[] = [];
  #lookedAt = -Infinity;

  constructor(options: BarredFilesOptions) {
    this.#options = options;
  }

  /** Returns whether a file is barred, or is in a barred directory. */
  async includes({ path, root, stats }: FoundFile): Promise<boolean> {
    const barred = await this.#recent();
    if (this.#remembered.get(identityOf(stats))) return true;
    return barred.some((it) =>
      isInside(path, it.path) || isNamedAfter(path, it, root)
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
    const age = this.#options.clock.monotonic() - this.#lookedAt;
    if (age < MAX_AGE_MS) return this.#barred;
    return await this.#looks.run("", () => this.#look());
  }

  async #look(): Promise<readonly Barred[]> {
    const lookedAt = this.#options.clock.monotonic();
    const paths = await this.#options.neverServed();
    this.#barred = await Promise.all(paths.map(locate));
    this.#lookedAt = lookedAt;
    for (const { stats } of this.#barred) this.#remember(stats);
    return this.#barred;
  }

  #remember(stats: Deno.FileInfo | undefined): void {
    if (stats === undefined || !stats.isFile || stats.ino === null) return; // Windows has no inodes
    this.#remembered.set(identityOf(stats), true);
  }
}

/** Returns where a path leads, and what is there. */
async function locate(asGiven: string): Promise<Barred> {
  const given = toAbsolute(asGiven);
  const places = await placesOf(given);
  // Without the permission, Deno would prompt. The gateway has the permission for the served directory.
  if (isGranted({ name: "read", path: given })) {
    try {
      const path = await Deno.realPath(given);
      const stats = await Deno.stat(path);
      return { path, places: [path, ...places], stats };
    } catch {
      // Nothing exists there, or it cannot be read, and so cannot be served either.
    }
  }
  return { path: given, places, stats: undefined };
}

/** Returns a path, and where it is if a folder in it is a link: the served directory may be named by such a path. */
async function placesOf(path: string): Promise<string[]> {
  const places = [path];
  let end = path.lastIndexOf(SEPARATOR);
  while (end > 0) {
    const folder = path.slice(0, end);
    if (isGranted({ name: "read", path: folder })) {
      const real = await Deno.realPath(folder).catch(() => folder);
      places.push(real + path.slice(end));
    }
    end = path.lastIndexOf(SEPARATOR, end - 1);
  }
  return places;
}

/**
 * Returns a text that identifies a file under any name for as long as it exists. A new file may get the inode of a deleted
 * one. Its creation time then differs, unless both were created within one tick of the system's clock, which takes some
 * milliseconds.
 */
function identityOf({ dev, ino, birthtime }: Deno.FileInfo): string {
  return `${dev} ${ino} ${birthtime?.getTime()}`;
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
