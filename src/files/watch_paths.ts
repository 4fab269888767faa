import { messageOf } from "../core/observe/log.ts";
import { type Clock, every, sleep } from "../core/values/clock.ts";
import type { FileInfo, FileSystem } from "./local_files.ts";
import { isRepName } from "../core/config/variables/tiers.ts";

/** How often the paths are checked. */
const LOOK_MS = 500;
/** Editors and Kubernetes change a file in several steps, but all of them within this time. */
const SETTLE_MS = 100;
/** Changes that are further apart have different times, since systems update their clock every 1 to 16 milliseconds. */
const RESOLUTION_MS = 20;
/** The same for file systems that count in seconds, or, as FAT, in two of them. */
const COARSE_RESOLUTION_MS = 2_000;

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
 * A file that changes again before the file system's clock moves on keeps its time. So a file is described in another way
 * once every further change gives it another time. The pause before a callback is longer than that where times contain
 * milliseconds; where they are whole seconds, there is a second callback up to two seconds later.
 *
 * @returns A function that stops it. It notices every change after the promise has resolved.
 */
export async function watchPaths(
  paths: readonly string[],
  onChange: () => void,
  { files, clock }: WatchPathsOptions,
): Promise<() => void> {
  /** Returns a text that differs after a change. */
  async function look(): Promise<string> {
    const now = clock.now();
    const texts = paths.map((path) => describePath(path, files, now));
    return (await Promise.all(texts)).join("\n");
  }

  let seen = await look();
  let isStopped = false;

  async function watch(): Promise<void> {
    if (await look() === seen) return;
    await sleep(SETTLE_MS, clock, { isBackground: true });
    seen = await look();
    if (!isStopped) queueMicrotask(onChange); // an error in it does not end the looks
  }

  const onError = (error: unknown) => {
    throw error;
  };
  const stop = every(LOOK_MS, watch, { clock, onError });
  return () => {
    isStopped = true;
    stop();
  };
}

/** Returns a text that differs after a change of a file, or of the variables in a directory. */
export async function describePath(
  path: string,
  files: FileSystem,
  now: number,
): Promise<string> {
  try {
    const info = await files.stat(path);
    if (!info.isDirectory) return describeFile(info, now);
    const names = (await files.names(path)).filter(isRepName).sort();
    const infos = names.map((name) => files.stat(`${path}/${name}`));
    const texts = (await Promise.all(infos)).map((it) => describeFile(it, now));
    return [...names, ...texts].join("\n");
  } catch (error) {
    return messageOf(error); // the reload reports the error
  }
}

/** Returns a text that differs after a change. Includes the mode, since a change of permissions can make a file readable. */
export function describeFile(
  { mtime, size, ino, mode }: FileInfo,
  now: number,
): string {
  const changedAt = mtime?.getTime() ?? 0;
  const isCoarse = changedAt % 1_000 === 0;
  const resolution = isCoarse ? COARSE_RESOLUTION_MS : RESOLUTION_MS;
  const isRecent = changedAt > now - resolution;
  return `${changedAt} ${size} ${ino} ${mode} ${isRecent}`;
}
