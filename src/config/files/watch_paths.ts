import { messageOf } from "../../observe/log.ts";
import { type Clock, sleep } from "../../values/clock.ts";
import type { FileInfo, FileSystem } from "../../values/local_files.ts";
import { isRepName } from "../variables/tiers.ts";

/** How often the paths are checked. With three files, this takes about 0.1 % of a core. */
const LOOK_MS = 500;
/** Editors and Kubernetes change a file in several steps, but all of them within this time. */
const SETTLE_MS = 100;

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
  let seen = await lookAtAll(paths, files);

  async function watch(): Promise<void> {
    while (!signal.aborted) {
      await sleep(LOOK_MS, clock, options);
      if (signal.aborted) return;
      if (await lookAtAll(paths, files) === seen) continue;
      await sleep(SETTLE_MS, clock, options);
      if (signal.aborted) return;
      seen = await lookAtAll(paths, files);
      if (!signal.aborted) queueMicrotask(onChange); // an error in it does not end this loop
    }
  }

  void watch();
  return () => stopping.abort();
}

/** Returns a text that differs after a change. */
async function lookAtAll(
  paths: readonly string[],
  files: FileSystem,
): Promise<string> {
  const looks = await Promise.all(paths.map((path) => lookAt(path, files)));
  return looks.join("\n");
}

async function lookAt(path: string, files: FileSystem): Promise<string> {
  try {
    const info = await files.stat(path);
    if (!info.isDirectory) return describe(info);
    const names = (await files.names(path)).filter(isRepName).sort();
    const infos = await Promise.all(
      names.map((name) => files.stat(`${path}/${name}`)),
    );
    return `${names}\n${infos.map(describe).join("\n")}`;
  } catch (error) {
    return messageOf(error); // the reload reports the error
  }
}

/** Includes the mode, since a change of permissions can make a file readable. */
function describe({ mtime, size, ino, mode }: FileInfo): string {
  return `${mtime?.getTime()} ${size} ${ino} ${mode}`;
}
