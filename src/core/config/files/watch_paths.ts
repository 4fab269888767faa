import { messageOf } from "../../observe/log.ts";
import { type Clock, sleep } from "../../values/clock.ts";
import { sriHash } from "../../values/hash.ts";
import type { FileInfo, FileSystem } from "../../values/local_files.ts";
import { isRepName } from "../variables/tiers.ts";

/** How often the paths are checked. With three files, this takes about 0.1 % of a core. */
const LOOK_MS = 500;
/** Editors and Kubernetes change a file in several steps, but all of them within this time. */
const SETTLE_MS = 100;
/** Changes that are further apart have different times: some file systems count in seconds, FAT in two of them. */
const RESOLUTION_MS = 2_000;
/** Of larger files, only the metadata is compared; configurations are far smaller. */
const MAX_BYTES = 1024 * 1024;

interface WatchPathsOptions {
  files: FileSystem;
  clock: Clock;
}

/**
 * Calls back after changes of files, or of directories of variables, even if they do not exist yet. It follows symbolic
 * links, so that it notices when Kubernetes replaces a mounted ConfigMap.
 *
 * It checks the paths twice a second instead of using notifications of the system, which miss changes on network file
 * systems and in some containers. Worse, `Deno.watchFs` opens every file that changes in the directory, and blocks on a
 * FIFO: it then notices no more changes, and closing it blocks the whole process, which SIGTERM can no longer end.
 *
 * @returns A function that stops it. It notices every change after the promise has resolved.
 */
export async function watchPaths(
  paths: readonly string[],
  onChange: () => void,
  { files, clock }: WatchPathsOptions,
): Promise<() => void> {
  const stopping = new AbortController();
  const { signal } = stopping;
  const options = { signal, isBackground: true };
  const look = new Look(files, clock);
  let seen = await look.at(paths);

  async function watch(): Promise<void> {
    while (!signal.aborted) {
      await sleep(LOOK_MS, clock, options);
      if (signal.aborted) return;
      if (await look.at(paths) === seen) continue;
      await sleep(SETTLE_MS, clock, options);
      if (signal.aborted) return;
      seen = await look.at(paths);
      if (!signal.aborted) queueMicrotask(onChange); // an error in it does not end this loop
    }
  }

  void watch();
  return () => stopping.abort();
}

/** The content of a file, as it was read when the file had these times and this size. */
interface Content {
  readonly stats: string;
  readonly hash: string;
  /** Whether every later change gives the file another time. */
  readonly isFinal: boolean;
}

/** Looks at paths. */
class Look {
  readonly #files: FileSystem;
  readonly #clock: Clock;
  readonly #contents = new Map<string, Content>();

  constructor(files: FileSystem, clock: Clock) {
    this.#files = files;
    this.#clock = clock;
  }

  /** Returns a text that differs after a change. */
  async at(paths: readonly string[]): Promise<string> {
    const beganAt = this.#clock.now();
    const texts = paths.map((path) => this.#atPath(path, beganAt));
    return (await Promise.all(texts)).join("\n");
  }

  async #atPath(path: string, beganAt: number): Promise<string> {
    try {
      const info = await this.#files.stat(path);
      if (!info.isDirectory) return await this.#describe(path, info, beganAt);
      const names = (await this.#files.names(path)).filter(isRepName).sort();
      const texts = names.map(async (name) => {
        const file = `${path}/${name}`;
        return await this.#describe(
          file,
          await this.#files.stat(file),
          beganAt,
        );
      });
      return `${names}\n${(await Promise.all(texts)).join("\n")}`;
    } catch (error) {
      return messageOf(error); // the reload reports the error
    }
  }

  /**
   * Includes the mode, since a change of permissions can make a file readable, and the content, since a change right
   * after a look can leave time and size as they are.
   */
  async #describe(
    path: string,
    info: FileInfo,
    beganAt: number,
  ): Promise<string> {
    const { mtime, size, ino, mode } = info;
    const stats = `${mtime?.getTime()} ${size} ${ino} ${mode}`;
    const known = this.#contents.get(path);
    if (known?.isFinal && known.stats === stats) return stats + known.hash;
    const hash = await this.#hash(path, info).catch(messageOf);
    const changedAt = mtime?.getTime() ?? Infinity;
    const isFinal = changedAt < beganAt - RESOLUTION_MS;
    this.#contents.set(path, { stats, hash, isFinal });
    return stats + hash;
  }

  async #hash(path: string, { isFile, size }: FileInfo): Promise<string> {
    if (!isFile || size > MAX_BYTES) return ""; // opening a FIFO would wait
    return await sriHash(decoder.decode(await this.#files.readFile(path)));
  }
}

const decoder = new TextDecoder("latin1"); // a letter for each byte
