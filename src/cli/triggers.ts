import { type Clock, every } from "../clock.ts";
import { type Log, logTaskError } from "../log.ts";
import type { Settings } from "./option_table.ts";
import { watchFiles } from "./watch_files.ts";
import { watchedPaths } from "./sources.ts";
import { UsageError } from "./read_options.ts";

/** What {@linkcode triggerReloads} needs. */
export interface TriggerOptions {
  clock: Clock;
  log: Log;
}

/**
 * Reloads when the sources may have changed, in the way that `--hot-reload-mode` says. Watching also looks every
 * `--poll-interval`: network file systems and some containers tell nobody what changes.
 *
 * @returns A function that ends it.
 * @throws {UsageError} If there is nothing to watch.
 */
export function triggerReloads(settings: Settings, reload: () => void, { clock, log }: TriggerOptions): () => void {
  const mode = settings["hot-reload-mode"];
  if (mode === "signal") return () => {};
  const stopWatching = mode === "file_watch" ? watch(settings, reload, { clock, log }) : () => {};
  const stopPolling = every(settings["poll-interval"], reload, { clock, onError: logTaskError(log, "reload") });
  return () => {
    stopPolling();
    stopWatching();
  };
}

function watch(settings: Settings, reload: () => void, { clock, log }: TriggerOptions): () => void {
  const paths = watchedPaths(settings);
  if (paths.length === 0) {
    throw new UsageError("Cannot watch for changes: expected --watch-path, --env-file or --manifest with file_watch");
  }
  const onEnd = (error: unknown) =>
    log.error("rep.watch.failed", { detail: `from now on, only polling sees changes: ${error}` });
  try {
    return watchFiles(paths, reload, { clock, onEnd });
  } catch (cause) {
    throw new UsageError(`Cannot watch ${paths.join(", ")}: ${cause instanceof Error ? cause.message : cause}`, {
      cause,
    });
  }
}
