import { basename } from "@std/path/basename";
import { dirname } from "@std/path/dirname";
import { isRepName } from "./environment.ts";
import type { Clock } from "../values/clock.ts";
import type { FileSystem } from "../values/file_system.ts";

/** Editors and Kubernetes change a file in several steps, all of them within this time. */
const COALESCE_MS = 100;

/** Options of {@linkcode FileWatcher}. */
interface FileWatcherOptions {
  files: FileSystem;
  clock: Clock;
  /** Files that are read and may be in a directory that is watched. */
  readPaths: readonly string[];
  /** Called with the error if watching fails later on. */
  onError: (error: unknown) => void;
}

/**
 * Watches paths and calls back after a change.
 *
 * It watches directories only: a file that is replaced, as editors do, or reached over a symlink that is swapped, as in
 * a mounted ConfigMap, is then another file, and a watch on the file itself would not report later changes.
 */
export class FileWatcher {
  readonly #stop: () => void;
  readonly #onChange: () => void;
  readonly #clock: Clock;
  #cancel: (() => void) | undefined;

  /**
   * Starts to watch.
   *
   * @throws {Error} Of the runtime, if a path cannot be watched; a file that does not exist yet can be.
   */
  constructor(
    paths: readonly string[],
    onChange: () => void,
    options: FileWatcherOptions,
  ) {
    const { files, clock, readPaths, onError } = options;
    const directories = new Set(
      paths.map((path) => files.isDirectory(path) ? path : dirname(path)),
    );
    const isWatched = createFilter([...paths, ...readPaths]);
    this.#onChange = onChange;
    this.#clock = clock;
    this.#stop = files.watch(
      [...directories],
      (paths) => paths.some(isWatched) ? this.#wait() : undefined,
      onError,
    );
  }

  /** Stops watching, and drops a change that has not been reported yet. */
  close(): void {
    this.#cancel?.();
    this.#cancel = () => {}; // an event may be on its way
    this.#stop();
  }

  #wait(): void {
    this.#cancel ??= this.#clock.after(COALESCE_MS, () => this.#report()); // not restarted: changes may never pause
  }

  #report(): void {
    this.#cancel = undefined;
    this.#onChange();
  }
}

/**
 * Creates a filter of changed paths: the files that are read, and those that a directory of variables consists of.
 * Other files in the same directory may be written constantly, such as the database and the log of the gateway. When
 * Kubernetes swaps the files of a volume, it changes none of them, only `..data` and other names with two dots.
 */
function createFilter(readPaths: readonly string[]): (path: string) => boolean {
  const names = new Set(readPaths.map((path) => basename(path)));
  return (path) => {
    const name = basename(path);
    return names.has(name) || isRepName(name) || name.startsWith("..");
  };
}
