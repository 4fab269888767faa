import type { Clock } from "../../values/clock.ts";
import {
  isInside,
  lastName,
  SEPARATOR,
  toAbsolute,
} from "../../values/paths.ts";
import { isGranted } from "../../values/runtime.ts";
import { SharedCalls } from "../../values/shared_calls.ts";
import type { FoundFile } from "./read_file.ts";

/** Options of {@linkcode BarredFiles}. */
interface BarredFilesOptions {
  /** Returns the paths of files and directories. */
  readonly neverServed: () => Promise<readonly string[]>;
  readonly clock: Pick<Clock, "monotonic">;
}

/** A file or a directory that is never served. */
interface Barred {
  /** Its real path; the one that was given if nothing exists there. */
  readonly path: string;
  /** All paths under which it is known. */
  readonly places: readonly string[];
  /** `undefined` if nothing exists there. */
  readonly stats: Deno.FileInfo | undefined;
}

/** How long a look is valid. */
const MAX_AGE_MS = 1_000;

/**
 * How many files are remembered: enough for years of an env file that is replaced each day, and for hundreds of others.
 */
const MAX_REMEMBERED = 10_000;

/**
 * The files and directories that are never served, under any name or link: what the gateway itself reads and stores.
 *
 * A file is recognized by its real path; by its identity (a hard link is the same file, even after an editor or `mv`
 * has put another file in its place); and, if it lies in the served directory, by its name: `app.env~` and
 * `app.env.bak` are its backups, and `c2/app.env` may become `config/app.env` once the link `config` is switched.
 */
export class BarredFiles {
  readonly #options: BarredFilesOptions;
  readonly #looks = new SharedCalls<readonly Barred[]>();
  /** The identities of all files that were seen, the one seen last at the end. */
  readonly #remembered = new Set<string>();
  #barred: readonly Barred[] = [];
  #lookedAt = -Infinity;

  constructor(options: BarredFilesOptions) {
    this.#options = options;
  }

  /** Returns whether a file is one of them, or in one of the directories. */
  async includes({ path, root, stats }: FoundFile): Promise<boolean> {
    const barred = await this.#recent();
    if (this.#remembered.has(identityOf(stats))) return true;
    return barred.some((it) =>
      isInside(path, it.path) || isNamedAfter(path, it, root)
    );
  }

  /** Returns the real paths of the ones that are in a directory. */
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
    const identity = identityOf(stats);
    this.#remembered.delete(identity);
    this.#remembered.add(identity);
    if (this.#remembered.size <= MAX_REMEMBERED) return;
    for (const oldest of this.#remembered) {
      this.#remembered.delete(oldest);
      return;
    }
  }
}

/** Returns where a path leads, and what is there. */
async function locate(asGiven: string): Promise<Barred> {
  const given = toAbsolute(asGiven);
  const places = await placesOf(given);
  // Without the permission, looking would prompt. What is in the served directory may be read.
  if (isGranted({ name: "read", path: given })) {
    try {
      const path = await Deno.realPath(given);
      const stats = await Deno.stat(path);
      return { path, places: [path, ...places], stats };
    } catch {
      // Nothing exists there, or nothing that can be read.
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
 * Returns what identifies a file for as long as it exists, under any name. A new file may get the inode of a deleted
 * one; its creation time then differs, unless both were created within one tick of the system's clock, some
 * milliseconds.
 */
function identityOf({ dev, ino, birthtime }: Deno.FileInfo): string {
  return `${dev} ${ino} ${birthtime?.getTime()}`;
}

/** Returns whether a file has the name of a barred one in the served directory, possibly with a suffix. */
function isNamedAfter(file: string, barred: Barred, root: string): boolean {
  if (!barred.stats?.isFile) return false;
  return barred.places.some((own) =>
    isInside(own, root) && isBackup(lastName(file), lastName(own))
  );
}

/** Any suffix counts unless it continues the word, since editors, tools and people use many suffixes. */
function isBackup(name: string, own: string): boolean {
  return name.startsWith(own) &&
    !/^[\p{L}\p{N}]/u.test(name.slice(own.length));
}
