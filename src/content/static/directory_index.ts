import { CODINGS } from "../../coding/content_coding.ts";
import type { Log } from "../../observe/log.ts";
import { andThen } from "../../values/and_then.ts";
import type { Clock } from "../../values/clock.ts";
import { SharedCalls } from "../../values/shared_calls.ts";
import { SizeBoundedCache } from "../../values/size_bounded_cache.ts";
import { isSameFile, isSettled, versionOf } from "./file_version.ts";
import { type FilePlace, type FilePlaces, type Place, SEPARATOR } from "./open_file.ts";
import type { StaticFile } from "./static_file.ts";

/** What is at a path. */
export type Found =
  | Directory
  | { readonly kind: "file"; readonly key: string; readonly file: StaticFile }
  /**
   * `rejected`: it must not be served. `unreadable`: the log says why. `gone`: the served directory itself is not there.
   */
  | { readonly kind: "absent" | "rejected" | "unreadable" | "gone" };

/** A directory. What is not in its listing, by exact name, is not served. */
interface Directory {
  readonly kind: "directory";
  readonly names: ReadonlySet<string>;
  /** Whether it lies in the served directory, and not only a link to it. */
  readonly isInside: boolean;
  readonly version: string;
  readonly isSettled: boolean;
  /** In milliseconds since the Unix epoch. */
  readonly listedAt: number;
}

/** What is to be looked at. */
interface Look {
  /** The names of the path, joined. */
  readonly key: string;
  /** The names in the same directory. */
  readonly siblings: ReadonlySet<string>;
  readonly known: Found | undefined;
}

/** Options of {@linkcode DirectoryIndex}. */
interface DirectoryIndexOptions {
  /** The served directory, as an absolute path. */
  readonly directory: string;
  /** How many bytes are kept in memory. With 0, nothing is. */
  readonly maxBytes: number;
  /**
   * Reads a file that may be served, unless what is known of it is current.
   *
   * @param name The requested name, whatever the name of the file is that a link leads to.
   */
  readonly load: (name: string, places: FilePlaces, known: StaticFile | undefined) => Promise<StaticFile>;
  readonly clock: Pick<Clock, "now">;
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

const NO_NAMES: ReadonlySet<string> = new Set();

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
    return andThen(this.#currentRelease(), (release) => {
      const found = findIn(release, names);
      return found instanceof Promise ? found.then((found) => this.#orInNextRelease(found, names, release)) : found;
    });
  }

  /** Looks at a file again when it is asked for the next time. */
  forget(key: string): void {
    this.#release?.forget(key);
  }

  /** What has just vanished may be in another release, to which the directory, a link, has been switched meanwhile. */
  async #orInNextRelease(found: Found, names: readonly string[], release: Release | undefined): Promise<Found> {
    if (found !== VANISHED) return found;
    this.#checkedAt = -Infinity;
    const next = await this.#currentRelease();
    return next === release ? found : findIn(next, names);
  }

  #currentRelease(): Release | undefined | Promise<Release | undefined> {
    if (isWithin(MAX_AGE_MS, this.#checkedAt, this.#options.clock.now())) return this.#release;
    return this.#looks.run("", () => this.#findRelease());
  }

  /** The directory may be a link that is switched to another release, or be replaced by one. */
  async #findRelease(): Promise<Release | undefined> {
    const { directory, clock } = this.#options;
    const checkedAt = clock.now();
    const place = await locate(directory).catch(ignoreError);
    if (!place?.stats.isDirectory) this.#release = undefined;
    else if (!this.#release?.isAt(place)) this.#release = new Release(place, this.#options);
    this.#checkedAt = checkedAt;
    return this.#release;
  }
}

function findIn(release: Release | undefined, names: readonly string[]): Found | Promise<Found> {
  return release === undefined ? GONE : release.find(names);
}

/** The index of one real directory. Requests in flight keep it when another one takes its place. */
class Release {
  readonly #root: Place;
  readonly #options: DirectoryIndexOptions;
  readonly #known: SizeBoundedCache<Known>;
  readonly #looks = new SharedCalls<Found>();
  #loggedAt = -Infinity;

  constructor(root: Place, options: DirectoryIndexOptions) {
    this.#root = root;
    this.#options = options;
    this.#known = new SizeBoundedCache(options.maxBytes);
  }

  isAt({ path, stats }: Place): boolean {
    return path === this.#root.path && isSameFile(stats, this.#root.stats);
  }

  /**
   * Finds what is at a path.
   *
   * @param depth How many of the names have been found: those in `key`, beside `siblings`.
   */
  find(names: readonly string[], depth = 0, key = "", siblings = NO_NAMES): Found | Promise<Found> {
    return andThen(this.#lookUnlessFresh(key, siblings), (found) => {
      const name = names[depth];
      if (name === undefined) return found.kind === "directory" && !found.isInside ? REJECTED : found;
      if (found.kind === "file") return ABSENT;
      if (found.kind !== "directory") return found;
      return found.names.has(name) ? this.find(names, depth + 1, joinKey(key, name), found.names) : ABSENT;
    });
  }

  forget(key: string): void {
    this.#known.delete(key);
  }

  #lookUnlessFresh(key: string, siblings: ReadonlySet<string>): Found | Promise<Found> {
    const known = this.#known.get(key);
    if (known !== undefined && isWithin(MAX_AGE_MS, known.checkedAt, this.#options.clock.now())) return known.found;
    return this.#looks.run(key, () => this.#look({ key, siblings, known: known?.found }));
  }

  async #look(request: Look): Promise<Found> {
    const checkedAt = this.#options.clock.now();
    const found = await this.#inspect(request).catch(async (error) => {
      if (!isAbsence(error)) throw error;
      return await this.#inspect(request); // a mount may have been swapped meanwhile
    }).catch((error) => this.#explain(error, request));
    const isIncomplete = found.kind === "file" && found.file.isBeingWritten;
    const known = { found, checkedAt: isIncomplete ? -Infinity : checkedAt };
    this.#known.set(request.key, known, bytesOf(found) + 2 * request.key.length);
    return found;
  }

  #explain(error: unknown, { key }: Look): Found {
    if (isAbsence(error)) return VANISHED;
    if (isRejection(error)) return REJECTED;
    this.#logUnreadable(key, error);
    return UNREADABLE;
  }

  async #inspect({ key, siblings, known }: Look): Promise<Found> {
    const place = await locate(`${this.#root.path}/${key}`);
    if (place.stats.isDirectory) return await this.#list(place, key, known);
    if (!this.#mayBeServed(place)) return REJECTED;
    const name = key.slice(key.lastIndexOf("/") + 1);
    const places = { file: this.#inRoot(place, "identity"), variants: await this.#locateVariants(key, name, siblings) };
    const file = await this.#options.load(name, places, known?.kind === "file" ? known.file : undefined);
    return { kind: "file", key, file };
  }

  /** Links may lead anywhere, but only regular files in the served directory are sent. */
  #mayBeServed({ path, stats }: Place): boolean {
    return stats.isFile && this.#isInside(path);
  }

  /** Compares whole names: `/srv/site-old` begins with `/srv/site`, but is not inside. */
  #isInside(path: string): boolean {
    const root = this.#root.path;
    return path === root || path.startsWith(root.endsWith(SEPARATOR) ? root : root + SEPARATOR);
  }

  /** A variant that cannot be sent is left out: the file itself can be sent. */
  async #locateVariants(key: string, name: string, siblings: ReadonlySet<string>): Promise<FilePlaces["variants"]> {
    const available = CODINGS.filter(({ suffix }) => siblings.has(name + suffix));
    const places = await Promise.all(available.map(async ({ name: coding, suffix }) => {
      const place = await locate(`${this.#root.path}/${key}${suffix}`).catch(ignoreError);
      return place !== undefined && this.#mayBeServed(place) ? [this.#inRoot(place, coding)] : [];
    }));
    return places.flat();
  }

  #inRoot(place: Place, coding: FilePlace["coding"]): FilePlace {
    return { ...place, root: this.#root.path, coding };
  }

  async #list({ path, stats, lookedAt }: Place, key: string, known: Found | undefined): Promise<Directory> {
    const [listedAt, version, isInside] = [this.#options.clock.now(), versionOf(stats), this.#isInside(path)];
    if (known?.kind === "directory" && known.version === version && known.isSettled) {
      if (isWithin(MAX_LISTING_AGE_MS, known.listedAt, listedAt)) return { ...known, isInside };
    }
    const names = await this.#namesIn(path, key);
    return { kind: "directory", names, isInside, version, isSettled: isSettled(stats, lookedAt), listedAt };
  }

  async #namesIn(path: string, key: string): Promise<ReadonlySet<string>> {
    try {
      return new Set(await Array.fromAsync(Deno.readDir(path), ({ name }) => name));
    } catch (error) {
      if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
      this.#logUnreadable(key, error);
      return new Set();
    }
  }

  #logUnreadable(key: string, error: unknown): void {
    const { clock, log } = this.#options;
    if (isWithin(LOG_INTERVAL_MS, this.#loggedAt, clock.now())) return;
    this.#loggedAt = clock.now();
    log.error("rep.static.unreadable", { detail: `cannot read "${this.#root.path}/${key}": ${error}` });
  }
}

function joinKey(key: string, name: string): string {
  return key === "" ? name : `${key}/${name}`;
}

async function locate(path: string): Promise<Place> {
  const lookedAt = Date.now(); // file systems use the system's clock, whatever the gateway's is
  const realPath = await Deno.realPath(path);
  return { path: realPath, stats: await Deno.stat(realPath), lookedAt };
}

function ignoreError(): undefined {}

/** Returns whether a moment is less than a time ago. A clock that was set back says nothing about that. */
function isWithin(ms: number, moment: number, now: number): boolean {
  return moment <= now && now - moment < ms;
}

function bytesOf(found: Found): number {
  if (found.kind === "file") return ENTRY_BYTES + found.file.served.bytes;
  return found.kind === "directory" ? bytesOfNames(found.names) : 0;
}

function bytesOfNames(names: ReadonlySet<string>): number {
  let bytes = 0;
  for (const name of names) bytes += NAME_BYTES + 2 * name.length;
  return bytes;
}

/** Returns whether an error means that something is not, or no longer, at its path. */
export function isAbsence(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
}

function isRejection(error: unknown): boolean {
  return error instanceof Deno.errors.NotCapable || error instanceof Deno.errors.FilesystemLoop ||
    (error instanceof Error && "code" in error && error.code === "ENAMETOOLONG"); // Deno has no class for it
}
