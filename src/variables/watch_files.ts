import { dirname } from "@std/path";
import type { Clock } from "../clock.ts";

/** Editors and Kubernetes change a file in several steps, and all of them within this time. */
const QUIET_MS = 100;

/** Settings of {@linkcode watchFiles}. */
export interface WatchOptions {
  clock: Clock;
  /** Told when the watching ended by itself. */
  onEnd: (error: unknown) => void;
}

/**
 * Calls back when something changed at or beside one of the paths.
 *
 * What is watched is always a directory: a file that is replaced, as editors do it, or that is reached over a symlink which
 * is swapped, as Kubernetes does it, is another file afterwards, and a watch on it would stay silent.
 *
 * @returns A function that ends it.
 * @throws {Deno.errors.NotFound} And its like, if a path is not there or cannot be watched.
 */
export function watchFiles(paths: readonly string[], onChange: () => void, { clock, onEnd }: WatchOptions): () => void {
  const watcher = Deno.watchFs([...new Set(paths.map(directoryOf))], { recursive: false });
  let cancel = () => {};
  void (async () => {
    try {
      for await (const { kind } of watcher) {
        if (kind === "access") continue;
        cancel();
        cancel = clock.after(QUIET_MS, onChange);
      }
    } catch (error) {
      onEnd(error);
    }
  })();
  return () => {
    cancel();
    watcher.close();
  };
}

function directoryOf(path: string): string {
  return Deno.statSync(path).isDirectory ? path : dirname(path);
}
