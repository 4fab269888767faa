import { logTaskError, messageOf, silentLog } from "../../observe/log.ts";
import { isGranted } from "../../values/permissions.ts";
import { denoFileSystem } from "../../values/file_system.ts";
import { every, systemClock } from "../../values/clock.ts";
import type { CommandOptions } from "../options/option_table.ts";
import { UsageError } from "../options/read_options.ts";
import { type TlsOptions, tlsPaths } from "../start/tls.ts";
import { FileWatcher } from "../../config/file_watcher.ts";
import {
  type SourceOptions,
  sourcePaths,
  type SourcesContext,
  watchedPaths,
} from "./sources.ts";

/** The options that name files. */
type FileOptions = SourceOptions & TlsOptions;

/**
 * Checks that the paths of `--hot-reload-mode file_watch` can be watched.
 *
 * @throws {UsageError} If there is no path, or one that cannot be watched.
 */
export function checkTriggers(options: FileOptions): void {
  if (options["hot-reload-mode"] !== "file_watch") return;
  watch(options, () => {}, { clock: systemClock, log: silentLog }).close();
}

/**
 * Starts what calls `reload` when the sources may have changed, in the modes `poll` and `file_watch` of
 * `--hot-reload-mode`. The latter polls as well, since network file systems and some containers do not report changes.
 *
 * @returns A function that stops it.
 * @throws {UsageError} If a path cannot be watched.
 */
export function startTriggers(
  options: FileOptions & Pick<CommandOptions, "poll-interval">,
  reload: () => void,
  { clock, log }: SourcesContext,
): () => void {
  const watcher = options["hot-reload-mode"] === "file_watch"
    ? watch(options, reload, { clock, log })
    : undefined;
  const stopPolling = every(options["poll-interval"], reload, {
    clock,
    onError: logTaskError(log, "reload"),
  });
  return () => {
    stopPolling();
    watcher?.close();
  };
}

function watch(
  options: FileOptions,
  reload: () => void,
  { clock, log }: SourcesContext,
): FileWatcher {
  const watched = watchedPaths(options);
  if (watched.length === 0) {
    throw new UsageError(
      "Cannot watch for changes: expected --watch-path, --env-file or --manifest with file_watch",
    );
  }
  const paths = [...watched, ...tlsPaths(options)];
  const onError = (error: unknown) =>
    log.error("rep.watch.failed", {
      detail: `changes are detected by polling only: ${error}`,
    });
  try {
    // The watcher would wait for a path that does not exist. It reports a missing permission.
    for (const path of paths) {
      if (isGranted({ name: "read", path })) Deno.statSync(path);
    }
    return new FileWatcher(paths, reload, {
      files: denoFileSystem,
      clock,
      onError,
      readPaths: sourcePaths(options),
    });
  } catch (cause) {
    throw new UsageError(
      `Cannot watch ${paths.join(", ")}: ${messageOf(cause)}`,
      { cause },
    );
  }
}
