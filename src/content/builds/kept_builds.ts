import {
  type Log,
  logOnce,
  logTaskError,
  messageOf,
} from "../../core/observe/log.ts";
import type { Metrics } from "../../core/observe/metrics.ts";
import type { Problems } from "../../core/observe/problems.ts";
import { type Clock, every, waitAtMost } from "../../core/values/clock.ts";
import { shortHash, sriHash } from "../../core/values/hash.ts";
import { isGranted } from "../../core/values/runtime.ts";
import { SerialQueue } from "../../core/values/serial_queue.ts";
import { BarredFiles } from "../static/barred_files.ts";
import type { FoundFile } from "../static/found_file.ts";
import {
  type ServedFile,
  ServedFiles,
  type ServedFilesOptions,
} from "../static/served_files.ts";
import { type FindFile, keepRule, listBuild } from "./build_files.ts";
import { findLists, readList, readLists, writeList } from "./build_list.ts";
import { type DirectoryGate, LATE_MS } from "./directory_gate.ts";
import { checkOwner, ownerName } from "./owner.ts";
import { SharedDirectory } from "./shared_directory.ts";
import { sweepDaily } from "./sweep.ts";

/** The problem of a gateway that cannot keep its build although it should. */
export const BUILDS_PROBLEM = "builds_not_kept";

/** Where builds are kept, and for whom. */
export interface BuildsOptions {
  /** The directory that gateways share. */
  readonly directory: string;
  /** The name of the app's folder in it. */
  readonly folder: string;
  /** Returns what only the gateways of the app have in common; an empty text if that is unknown. */
  readonly owner: () => Promise<string>;
  /** Limits what waits for the directory. */
  readonly gate: DirectoryGate;
  readonly metrics: Metrics;
}

/** How long the first page of a build waits until the build is kept. */
const MAX_WAIT_MS = 2_000;
/** How often to look for a new build. */
const LOOK_MS = 5_000;
/** How long a file has to be unchanged until it replaces another copy, and when to try again. */
const SETTLED_MS = 60_000;
/** How often a build that is served is kept again. */
const KEEP_MS = 3_600_000;

/**
 * Opens the directory in which the builds of a served directory are kept.
 *
 * @param served How the files of the served directory are served: those of other builds are served in the same way.
 * @param find Finds a file in the served directory.
 */
export async function openBuilds(
  options: BuildsOptions,
  served: ServedFilesOptions,
  find: FindFile,
): Promise<KeptBuilds> {
  const isKept = await keepRule(served.immutable);
  return new KeptBuilds(options, served, find, isKept);
}

/**
 * The files of builds, in a directory that gateways share: those of the present build are copied there, and those that it
 * lacks are served from there. So a page finds its files after its build was replaced, and at gateways that have another
 * build.
 */
export class KeptBuilds {
  readonly #options: BuildsOptions;
  /** How the present build is served. */
  readonly #served: ServedFilesOptions;
  readonly #find: FindFile;
  readonly #isKept: (key: string) => boolean;
  readonly #directory: SharedDirectory;
  readonly #files: ServedFiles;
  readonly #onceLog: Log;
  readonly #keeping = new SerialQueue();
  /** Empty if the directory has no page. */
  #build: string | undefined;
  /** The list of the last build that was kept; empty if this process writes none. */
  #list = "";
  /** Resolves when the build is kept, or was waited for. */
  #followed = Promise.resolve();
  /** The files of the build that are kept, or will be. */
  readonly #known = new Set<string>();
  /** When to keep the build again, in milliseconds of the monotonic clock. */
  #dueAt = Infinity;
  /** Why it is not kept, and since when; `undefined` if it is. */
  #failure:
    | { readonly cause: string | undefined; readonly since: number }
    | undefined;
  /** Whether the folder may be that of this app. */
  #isOwn = true;
  /** The files of all builds, and their bytes. */
  #kept = { files: 0, bytes: 0 };
  #stopLooking = () => {};
  #isClosed = false;

  constructor(
    options: BuildsOptions,
    served: ServedFilesOptions,
    find: FindFile,
    isKept: (key: string) => boolean,
  ) {
    const { directory, folder, gate, metrics } = options;
    this.#options = options;
    this.#served = served;
    this.#find = find;
    this.#isKept = isKept;
    this.#onceLog = logOnce(served.log);
    this.#directory = new SharedDirectory(directory, gate);
    this.#files = new ServedFiles({
      directory: `${directory}/${folder}/files`,
      cacheBytes: served.cacheBytes,
      cacheGroup: served.cacheGroup,
      immutable: served.immutable,
      compressor: served.compressor,
      sharesBytes: served.sharesBytes,
      checkRoot: undefined, // whoever made the directory of a site cannot change this one
      clock: withoutLongTimers(served.clock),
      log: served.log,
    }, new BarredFiles(() => Promise.resolve([]), served.clock));
    metrics.observe("rep.builds.files", () => this.#kept.files);
    metrics.observe("rep.builds.size", () => this.#kept.bytes);
  }

  /**
   * Begins to look for new builds.
   *
   * @param findBuild Returns the ID of the present build.
   */
  start(findBuild: () => Promise<string | undefined>): void {
    const { clock, log } = this.#served;
    const onError = logTaskError(log, "builds");
    const look = async () => {
      await this.follow(await findBuild());
      const isDue = clock.monotonic() >= this.#dueAt;
      if (isDue || await this.#isGone()) await this.#keep();
    };
    this.#stopLooking = every(LOOK_MS, look, { clock, onError });
  }

  /** Keeps a build, and waits for that at most `ms` milliseconds. A build that was kept before is believed to be. */
  async follow(build = "", ms = MAX_WAIT_MS): Promise<void> {
    if (build !== this.#build) {
      this.#build = build;
      this.#known.clear();
      const kept = Promise.withResolvers<void>();
      void this.#keep(kept.resolve).then(kept.resolve);
      this.#followed = waitAtMost(ms, kept.promise, this.#served.clock);
    }
    await this.#followed;
  }

  /** Called for each file of the present build that is served: it may have been copied after the page. */
  notice(key: string): void {
    if (this.#known.has(key) || !this.#isKept(key)) return;
    this.#known.add(key);
    this.#dueAt = this.#served.clock.monotonic();
  }

  /** Finds a file that the present build lacks. While the directory does not answer, there is none. */
  async find(key: string): Promise<ServedFile | undefined> {
    const { gate, metrics } = this.#options;
    if (!this.#isOwn || !this.#isKept(key)) return undefined;
    const found = await gate.run("serve", () => this.#files.look(key))
      .catch(() => "absent" as const);
    if (typeof found === "string") return undefined;
    metrics.count("rep.builds.hits", 1);
    return found;
  }

  /** Returns what is wrong, for the health report. */
  problems(): Problems {
    return { [BUILDS_PROBLEM]: this.#failure?.since };
  }

  close(): void {
    this.#isClosed = true;
    this.#stopLooking();
    this.#files.close();
  }

  /** Returns whether what was written has been removed, or cannot be read any more. */
  async #isGone(): Promise<boolean> {
    if (this.#list === "" || this.#failure !== undefined) return false;
    const stats = await this.#directory.stat(this.#list).catch(() => undefined);
    return stats === undefined;
  }

  /**
   * Keeps the present build, after what is being kept. Never rejects.
   *
   * @param onKept Called when it is kept; at once if it was kept before: its files are compared afterwards.
   */
  async #keep(onKept = () => {}): Promise<void> {
    this.#dueAt = Infinity;
    const isSettled = await this.#keeping.run(() => this.#keepNow(onKept))
      .catch((error) => this.#report(error));
    const ms = isSettled ? KEEP_MS : SETTLED_MS;
    this.#dueAt = Math.min(this.#dueAt, this.#served.clock.monotonic() + ms);
  }

  /** Returns whether all files are kept, and none was changed just now. */
  async #keepNow(onKept: () => void): Promise<boolean> {
    const isWritable = await this.#claim();
    if (!isWritable) this.#list = "";
    try {
      const isSettled = !isWritable || await this.#copyAll(onKept);
      onKept();
      this.#failure = undefined;
      return isSettled;
    } finally {
      // Also if not all is kept: the directory may be full of what is kept no longer.
      await this.#count();
      if (isWritable && !this.#isClosed) this.#sweep();
    }
  }

  async #count(): Promise<void> {
    const lists = await findLists(this.#directory, this.#options.folder);
    const sizes = await readLists(this.#directory, lists);
    const bytes = sizes.values().reduce((sum, size) => sum + size, 0);
    this.#kept = { files: sizes.size, bytes };
  }

  #sweep(): void {
    const onError = logTaskError(this.#served.log, "builds");
    void sweepDaily(this.#directory, this.#list).catch(onError);
  }

  /**
   * Writes whose the folder is. Returns whether this process is meant to write to the directory.
   *
   * @throws {Error} If the folder belongs to another app.
   */
  async #claim(): Promise<boolean> {
    const { directory: path, folder } = this.#options;
    const own = await this.#options.owner();
    this.#isOwn = false;
    const text = await checkOwner(this.#directory, folder, own);
    this.#isOwn = true;
    if (!isGranted({ name: "write", path })) return false;
    try {
      await this.#directory.write(ownerName(folder), text);
      return true;
    } catch (error) {
      if ((error as { code?: string }).code === "EROFS") return false;
      throw error;
    }
  }

  async #copyAll(onKept: () => void): Promise<boolean> {
    const known = this.#build && this.#listOf(this.#build);
    const kept = known ? await readList(this.#directory, known) : undefined;
    if (kept?.complete) onKept();
    const build = await listBuild(
      this.#served.directory,
      this.#isKept,
      this.#find,
    );
    if (build.size === 0) this.#warnOfNoFile();
    const list = known || this.#listOf(await idOf(build));
    const before = kept ?? await readList(this.#directory, list);
    const sizes = new Map(before.sizes); // part of the build may just be missing
    for (const [key, { stats }] of build) sizes.set(key, stats.size);
    const isKept = before.complete && sizes.size === before.sizes.size;
    await writeList(this.#directory, list, { sizes, complete: isKept });
    this.#list = list;
    let complete = true;
    let isSettled = true;
    let failure: unknown;
    for (const [key, file] of build) {
      if (this.#isClosed) return false;
      this.#known.add(key);
      try {
        const copied = await this.#copy(key, file);
        if (!copied.isSettled) isSettled = false;
        if (!copied.isSame) complete = false;
      } catch (error) {
        isSettled = false;
        complete = false;
        const isReplaced = error instanceof Deno.errors.NotFound; // just now, by another build
        if (!isReplaced) failure ??= error;
      }
    }
    if (failure !== undefined) throw failure;
    await writeList(this.#directory, list, { sizes, complete });
    return isSettled;
  }

  /** A glob of files in a folder is easily one that misses the folders in it. */
  #warnOfNoFile(): void {
    const { directory, immutable } = this.#served;
    const detail =
      `no file of the build is kept: expected --immutable to match files in "${directory}" ("**" matches any directories), got "${immutable}"`;
    this.#onceLog.warn("rep.builds.empty", { detail });
  }

  #listOf(build: string): string {
    return `${this.#options.folder}/builds/${build}.json`;
  }

  /**
   * Copies a file, unless there is a copy of its size: there is a hash in its name. Returns whether the file is settled, and
   * whether the copy is the same.
   */
  async #copy(
    key: string,
    file: FoundFile,
  ): Promise<{ isSettled: boolean; isSame: boolean }> {
    const { size, ctime, mtime } = file.stats;
    const changedAt = ctime ?? mtime ?? new Date();
    const isSettled = file.lookedAt - changedAt.getTime() >= SETTLED_MS;
    const name = `${this.#options.folder}/files/${key}`;
    const copy = await this.#directory.stat(name);
    const isSame = copy?.isFile === true && copy.size === size;
    if (copy !== undefined && !isSame) {
      const detail = `expected ${size} bytes, got ${copy.size}: it is replaced`;
      this.#served.log.warn("rep.builds.differs", { path: key, detail });
    }
    const isReplaced = copy === undefined || isSettled;
    if (!isSame && isReplaced) {
      await this.#directory.copy(name, file, this.#served.clock);
    }
    return { isSettled, isSame: isSame || isReplaced };
  }

  /** Logs once why the build is not kept. */
  #report(error: unknown): void {
    const { code, name } = error as { code?: string; name?: string };
    const cause = code ?? name;
    const before = this.#failure;
    const since = before?.since ?? this.#served.clock.now();
    this.#failure = { cause, since };
    if (before?.cause === cause) return;
    const { directory } = this.#options;
    this.#served.log.error("rep.builds.not_kept", {
      detail: `cannot keep the build in "${directory}": ${messageOf(error)}`,
    });
  }
}

/** Returns the ID of a build without a page: it has the same files. */
async function idOf(files: ReadonlyMap<string, unknown>): Promise<string> {
  return shortHash(await sriHash([...files.keys()].sort().join()));
}

/**
 * Returns a clock without long timers: only the gate ends a look, since it has to know when the look really ends. But a look
 * does not wait for the hash of a large file, for which all others would wait, too.
 */
function withoutLongTimers(clock: Clock): Clock {
  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    after: (ms, callback) =>
      ms < LATE_MS ? clock.after(ms, callback) : () => {},
  };
}
