import { basename, dirname } from "@std/path";
import type { Clock } from "../clock.ts";
import { isGranted } from "../permissions.ts";

/** Editors and Kubernetes change a file in several steps, and all of them within this time. */
const QUIET_MS = 100;

/** Settings of {@linkcode watchFiles}. */
export interface WatchOptions {
  clock: Clock;
  /** Told when the watching ended by itself. */
  onEnd: (error: unknown) => void;
}

/**
 * Calls back when one of the paths may have changed.
 *
 * What is watched is always a directory: a file that is replaced, as editors do it, or that is reached over a symlink which
 * is swapped, as Kubernetes does it, is another file afterwards, and a watch on it would stay silent.
 *
 * @returns A function that ends it.
 * @throws {Deno.errors.NotFound} And its like, if a path is not there or cannot be watched.
 */
export function watchFiles(paths: readonly string[], onChange: () => void, { clock, onEnd }: WatchOptions): () => void {
  const isOne = nameRule(paths);
  const watcher = Deno.watchFs([...new Set(paths.map(directoryOf))], { recursive: false });
  let cancel: (() => void) | undefined;

  function changed(): void {
    cancel = undefined;
    onChange();
  }

  void (async () => {
    try {
      for await (const { kind, paths } of watcher) {
        if (kind === "access" || !paths.some(isOne)) continue;
        cancel ??= clock.after(QUIET_MS, changed); // not put off by more of them: they may never end
      }
    } catch (error) {
      onEnd(error);
    }
  })();
  return () => {
    cancel?.();
    watcher.close();
  };
}

function directoryOf(path: string): string {
  requireRead(path);
  const directory = Deno.statSync(path).isDirectory ? path : dirname(path);
  requireRead(directory);
  return directory;
}

/** Without the permission, watching would stop and prompt. */
function requireRead(path: string): void {
  if (!isGranted({ name: "read", path })) throw new Deno.errors.NotCapable(`expected --allow-read=${path}`);
}

/**
 * Beside a file there may be others that are written all the time, the log of the gateway itself among them. Kubernetes
 * names none of its files when it swaps them, only `..data` and its like.
 */
function nameRule(paths: readonly string[]): (path: string) => boolean {
  if (paths.some((path) => directoryOf(path) === path)) return () => true;
  const names = new Set(paths.map((path) => basename(path)));
  return (path) => names.has(basename(path)) || basename(path).startsWith("..");
}
