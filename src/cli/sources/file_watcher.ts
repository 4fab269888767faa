import { basename } from "@std/path/basename";
import { dirname } from "@std/path/dirname";
import { isRepName } from "../../config/environment.ts";
import type { Clock } from "../../values/clock.ts";
import { isGranted } from "../../values/permissions.ts";

/** Editors and Kubernetes change a file in several steps, all of them within this time. */
const COALESCE_MS = 100;

/** Options of {@linkcode FileWatcher}. */
interface FileWatcherOptions {
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
  readonly #watcher: Deno.FsWatcher;
  readonly #isWatched: (path: string) => boolean;
  readonly #onChange: () => void;
  readonly #clock: Clock;
  #cancel: (() => void) | undefined;

  /**
   * Starts to watch.
   *
   * @throws {Deno.errors.NotFound} Or another of `Deno.errors`, if a path does not exist or cannot be watched.
   */
  constructor(paths: readonly string[], onChange: () => void, { clock, readPaths, onError }: FileWatcherOptions) {
    this.#watcher = watchDirectories(paths);
    this.#isWatched = createFilter([...paths, ...readPaths]);
    this.#onChange = onChange;
    this.#clock = clock;
    this.#readEvents().catch(onError);
  }

  /** Stops watching, and drops a change that has not been reported yet. */
  close(): void {
    this.#cancel?.();
    this.#watcher.close();
  }

  async #readEvents(): Promise<void> {
    for await (const { kind, paths } of this.#watcher) {
      if (kind === "access" || !paths.some(this.#isWatched)) continue;
      this.#cancel ??= this.#clock.after(COALESCE_MS, () => this.#report()); // not restarted: changes may never pause
    }
  }

  #report(): void {
    this.#cancel = undefined;
    this.#onChange();
  }
}

function watchDirectories(paths: readonly string[]): Deno.FsWatcher {
  return Deno.watchFs([...new Set(paths.map(directoryOf))], { recursive: false });
}

function directoryOf(path: string): string {
  requireRead(path);
  const directory = Deno.statSync(path).isDirectory ? path : dirname(path);
  requireRead(directory);
  return directory;
}

/** Without the permission, watching would prompt. */
function requireRead(path: string): void {
  if (!isGranted({ name: "read", path })) throw new Deno.errors.NotCapable(`expected --allow-read=${path}`);
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
