import { CODINGS } from "../../coding/content_coding.ts";
import type { Log } from "../../observe/log.ts";
import { andThen } from "../../values/and_then.ts";
import type { Clock } from "../../values/clock.ts";
import { SharedCalls } from "../../values/shared_calls.ts";
import { SizeBoundedCache } from "../../values/size_bounded_cache.ts";
import {
  isInside,
  isSameFile,
  isSettled,
  type Look,
  lookAt,
  versionOf,
} from "./look.ts";
import type { FilePlace } from "./open_file.ts";
import { type FileName, hasVersion, type StaticFile } from "./static_file.ts";

/** What is at a path. */
export type Found = Directory | FoundFile | Nothing;

/** A directory. What is not in its listing, by exact name, is not served. */
interface Directory {
  readonly kind: "directory";
  readonly names: ReadonlySet<string>;
  /** What the names take in memory. */
  readonly bytes: number;
  /** Whether it lies in the served directory, and not only a link to it. */
  readonly isInside: boolean;
  readonly version: string;
  readonly isSettled: boolean;
  /** In milliseconds of the monotonic clock. */
  readonly listedAt: number;
}

/** A file that may be served. */
export interface FoundFile {
  readonly kind: "file";
  readonly key: string;
  readonly file: StaticFile;
}

interface Nothing {
  /** `rejected`: it must not be served. `unreadable`: the log says why. `gone`: the served directory is not there. */
  readonly kind: "absent" | "rejected" | "unreadable" | "gone";
}

/** Options of {@linkcode DirectoryIndex}. */
interface DirectoryIndexOptions {
  /** The served directory, as an absolute path. */
  readonly directory: string;
  /** How many bytes are kept in memory. With 0, nothing is. */
  readonly cacheBytes: number;
  /** Returns whether a file must not be served, wherever it is. `isKnown` says whether it was served before, as it is. */
  readonly isExcluded: (file: Look, isKnown: boolean) => Promise<boolean>;
  /** Reads a file and its compressed variants, unless what is known of it is current. */
  readonly load: (
    name: FileName,
    places: readonly FilePlace[],
    known: StaticFile | undefined,
  ) => Promise<StaticFile>;
  /** Returns what a file takes in memory. */
  readonly bytesOf: (file: StaticFile) => number;
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: Log;
}

/** What was found at a path, and when. */
interface Known {
  readonly found: Found;
  readonly checkedAt: number;
}

/** How long what was found is used without looking again. */
const MAX_AGE_MS = 1_000;

/** How long a listing is used while its directory looks unchanged: network file systems may report old times. */
const MAX_LISTING_AGE_MS = 60_000;

/** How often it is logged that something cannot be read. */
const LOG_INTERVAL_MS = 60_000;

/** What an entry, and each name of a listing, take in memory besides their text and their bytes, roughly. */
const ENTRY_BYTES = 2_048;
const NAME_BYTES = 64;

/** The part of the cache that a listing may take, and what it may take in any case, in bytes. */
const LISTING_SHARE = 1 / 2;
const MIN_LISTING_BYTES = 1024 * 1024;

const NO_NAMES: ReadonlySet<string> = new Set();
/** For directories whose listing would be larger: whether a name is there shows when it is looked at. */
const ANY_NAME: ReadonlySet<string> = Object.assign(new Set<string>(), {
  has: () => true,
});

const ABSENT: Found = { kind: "absent" };
const REJECTED: Found = { kind: "rejected" };
const UNREADABLE: Found = { kind: "unreadable" };
const GONE: Found = { kind: "gone" };
/** A name that is in a listing, but not there any more. */
const VANISHED: Found = { kind: "absent" };

/**
 * An index of a directory, and the one place that decides what may be served. It is filled by requests, from the
 * listings of the directories on their paths. Each listing and each file is compared with the file system at most once
 * a second; requests that arrive meanwhile wait for the same comparison.
 */
export class DirectoryIndex {
  readonly #options: DirectoryIndexOptions;
  readonly #looks = new SharedCalls<Release | undefined>();
  /** `undefined` if the directory is gone. */
  #release: Release | undefined;
  #checkedAt = -Infinity;

  constructor(options: DirectoryIndexOptions) {
    this.#options = options;
  }

  /**
   * Finds what is at a path: at once, if everything on the path was looked at within the last second.
   *
   * @param names The names of the path, decoded and valid.
   */
  find(names: readonly string[]): Found | Promise<Found> {
    const now = this.#options.clock.monotonic();
    return andThen(this.#currentRelease(now), (release) => {
      const found = findIn(release, names, now);
      return found instanceof Promise
        ? found.then((found) => this.#orInNextRelease(found, names, release))
        : found;
    });
  }

  /** Looks at a file again when it is asked for the next time. */
  forget({ key }: FoundFile): void {
    this.#release?.forget(key);
  }

  /** What has just vanished may be in another release, to which the directory, a link, has been switched meanwhile. */
  async #orInNextRelease(
    found: Found,
    names: readonly string[],
    release: Release | undefined,
  ): Promise<Found> {
    if (found !== VANISHED) return found;
    this.#checkedAt = -Infinity;
    const now = this.#options.clock.monotonic();
    const next = await this.#currentRelease(now);
    return next === release ? found : findIn(next, names, now);
  }

  #currentRelease(
    now: number,
  ): Release | undefined | Promise<Release | undefined> {
    if (now - this.#checkedAt < MAX_AGE_MS) return this.#release;
    return this.#looks.run("", () => this.#findRelease());
  }

  /** The directory may be a link that is switched to another release, or be replaced by one. */
  async #findRelease(): Promise<Release | undefined> {
    const { directory, clock } = this.#options;
    const checkedAt = clock.monotonic();
    const look = await lookAt(directory).catch(ignoreError);
    if (!look?.stats.isDirectory) this.#release = undefined;
    else if (!this.#release?.isAt(look)) {
      this.#release = new Release(look, this.#options);
    }
    this.#checkedAt = checkedAt;
    return this.#release;
  }
}

function findIn(
  release: Release | undefined,
  names: readonly string[],
  now: number,
): Found | Promise<Found> {
  return release === undefined ? GONE : release.find(names, now);
}

/** The index of one real directory. Requests in flight keep it when another one takes its place. */
class Release {
  readonly #root: Look;
  readonly #options: DirectoryIndexOptions;
  readonly #known: SizeBoundedCache<Known>;
  readonly #looks = new SharedCalls<Found>();
  #loggedAt = -Infinity;

  constructor(root: Look, options: DirectoryIndexOptions) {
    this.#root = root;
    this.#options = options;
    this.#known = new SizeBoundedCache(options.cacheBytes);
  }

  isAt({ path, stats }: Look): boolean {
    return path === this.#root.path && isSameFile(stats, this.#root.stats);
  }

  /**
   * Finds what is at a path.
   *
   * @param now When the search began.
   * @param depth How many of the names have been found: those in `key`, beside `siblings`.
   */
  find(
    names: readonly string[],
    now: number,
    depth = 0,
    key = "",
    siblings = NO_NAMES,
  ): Found | Promise<Found> {
    return andThen(this.#lookUnlessFresh(key, siblings, now), (found) => {
      const name = names[depth];
      if (name === undefined) {
        return found.kind === "directory" && !found.isInside ? REJECTED : found;
      }
      if (found.kind === "file") return ABSENT;
      if (found.kind !== "directory") return found;
      return found.names.has(name)
        ? this.find(names, now, depth + 1, `${key}/${name}`, found.names)
        : ABSENT;
    });
  }

  forget(key: string): void {
    this.#known.delete(key);
  }

  #lookUnlessFresh(
    key: string,
    siblings: ReadonlySet<string>,
    now: number,
  ): Found | Promise<Found> {
    const known = this.#known.get(key);
    if (known !== undefined && now - known.checkedAt < MAX_AGE_MS) {
      return known.found;
    }
    return this.#looks.run(key, () => this.#look(key, siblings, known?.found));
  }

  async #look(
    key: string,
    siblings: ReadonlySet<string>,
    known: Found | undefined,
  ): Promise<Found> {
    const checkedAt = this.#options.clock.monotonic();
    const inspect = () => this.#inspect(key, siblings, known);
    // Twice, since a mount may be swapped meanwhile.
    const found = await inspect().catch(ifAbsent(inspect)).catch((error) =>
      this.#explain(error, key)
    );
    const isIncomplete = found.kind === "file" && found.file.isBeingWritten;
    this.#known.set(key, {
      found,
      checkedAt: isIncomplete ? -Infinity : checkedAt,
    }, this.#bytesOf(found, key));
    return found;
  }

  #explain(error: unknown, key: string): Found {
    if (isAbsence(error)) return VANISHED;
    if (isPermanent(error)) return REJECTED;
    this.#logUnreadable(error, key);
    return UNREADABLE;
  }

  async #inspect(
    key: string,
    siblings: ReadonlySet<string>,
    known: Found | undefined,
  ): Promise<Found> {
    const look = await lookAt(this.#root.path + key);
    if (look.stats.isDirectory) return await this.#list(look, key, known);
    if (!await this.#mayBeServed(look, known)) return REJECTED;
    const places = [
      this.#inRoot(look, "identity"),
      ...await this.#findVariants(key, siblings, known),
    ];
    const name = { name: nameOf(key), siblings };
    const file = await this.#options.load(
      name,
      places,
      known?.kind === "file" ? known.file : undefined,
    );
    return { kind: "file", key, file };
  }

  /** Links may lead anywhere, but only regular files in the served directory are sent, and none of the gateway's own. */
  async #mayBeServed(look: Look, known: Found | undefined): Promise<boolean> {
    if (!look.stats.isFile || !isInside(look.path, this.#root.path)) {
      return false;
    }
    return !await this.#options.isExcluded(
      look,
      known?.kind === "file" && hasVersion(known.file, versionOf(look)),
    );
  }

  /** A variant that cannot be sent is left out: the file itself can be sent. */
  async #findVariants(
    key: string,
    siblings: ReadonlySet<string>,
    known: Found | undefined,
  ): Promise<FilePlace[]> {
    const available = CODINGS.filter(({ suffix }) =>
      siblings.has(nameOf(key) + suffix)
    );
    const places = available.map(async ({ name: coding, suffix }) => {
      const look = await lookAt(this.#root.path + key + suffix).catch(
        ignoreError,
      );
      return look !== undefined && await this.#mayBeServed(look, known)
        ? this.#inRoot(look, coding)
        : undefined;
    });
    return (await Promise.all(places)).filter((place) => place !== undefined);
  }

  #inRoot(look: Look, coding: FilePlace["coding"]): FilePlace {
    return { ...look, root: this.#root.path, coding };
  }

  async #list(
    look: Look,
    key: string,
    known: Found | undefined,
  ): Promise<Directory> {
    const [version, listedAt] = [
      versionOf(look),
      this.#options.clock.monotonic(),
    ];
    if (
      known?.kind === "directory" && known.version === version &&
      known.isSettled
    ) {
      if (listedAt - known.listedAt < MAX_LISTING_AGE_MS) return known;
    }
    const listing = await this.#namesIn(look.path, key);
    const common = {
      ...listing,
      isInside: isInside(look.path, this.#root.path),
      listedAt,
    };
    return {
      kind: "directory",
      ...common,
      version,
      isSettled: isSettled(look),
    };
  }

  async #namesIn(
    path: string,
    key: string,
  ): Promise<Pick<Directory, "names" | "bytes">> {
    const maxBytes = Math.max(
      this.#options.cacheBytes * LISTING_SHARE,
      MIN_LISTING_BYTES,
    );
    const names = new Set<string>();
    let bytes = 0;
    try {
      for await (const { name } of Deno.readDir(path)) {
        names.add(name);
        bytes += NAME_BYTES + 2 * name.length;
        if (bytes > maxBytes) return { names: ANY_NAME, bytes: 0 };
      }
    } catch (error) {
      this.#logUnreadable(error, key);
    }
    return { names, bytes };
  }

  /** Rethrows an error that is not about permissions: it may be over with the next request. */
  #logUnreadable(error: unknown, key: string): void {
    if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
    const now = this.#options.clock.monotonic();
    if (now - this.#loggedAt < LOG_INTERVAL_MS) return;
    this.#loggedAt = now;
    this.#options.log.error("rep.static.unreadable", {
      detail: `cannot read "${this.#root.path}${key}": ${error}`,
    });
  }

  #bytesOf(found: Found, key: string): number {
    const bytes = ENTRY_BYTES + 2 * key.length;
    if (found.kind === "file") return bytes + this.#options.bytesOf(found.file);
    return found.kind === "directory" ? bytes + found.bytes : bytes;
  }
}

function nameOf(key: string): string {
  return key.slice(key.lastIndexOf("/") + 1);
}

function ignoreError(): undefined {}

/** Returns a handler of errors that calls back if something is not, or no longer, at its path. */
export function ifAbsent<T>(call: () => T): (error: unknown) => T {
  return (error) => {
    if (isAbsence(error)) return call();
    throw error;
  };
}

function isAbsence(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound ||
    error instanceof Deno.errors.NotADirectory;
}

function isPermanent(error: unknown): boolean {
  return error instanceof Deno.errors.NotCapable ||
    error instanceof Deno.errors.FilesystemLoop ||
    (error instanceof Error && "code" in error &&
      error.code === "ENAMETOOLONG"); // Deno has no class for it
}
