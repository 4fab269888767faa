import { type Clock, every } from "../../core/values/clock.ts";
import { type Log, logTaskError, messageOf } from "../../core/observe/log.ts";
import { watchPaths } from "../../files/watch_paths.ts";
import { denoFileSystem } from "../../files/local_files.ts";
import type { StartOptions } from "../options/option_table.ts";
import { UsageError } from "../options/read_options.ts";
import { type TlsOptions, tlsPaths } from "./secret_files.ts";
import { type SourceOptions, watchedPaths } from "./variable_sources.ts";

/** The options that name files. */
type FileOptions = SourceOptions & TlsOptions & Pick<StartOptions, "sites">;

/**
 * Checks that the paths of `--hot-reload-mode file_watch` can be watched.
 *
 * @throws {UsageError} If there is no path, or one that does not exist or may not be read.
 */
export function checkTriggers(options: FileOptions): void {
  if (options["hot-reload-mode"] !== "file_watch") return;
  if (watchedPaths(options).length === 0 && options.sites === undefined) {
    throw new UsageError(
      "Cannot watch for changes: expected --watch-path, --env-file, --manifest or --sites with file_watch",
    );
  }
  for (const path of allWatchedPaths(options)) {
    try {
      Deno.statSync(path);
    } catch (cause) {
      const message = `Cannot watch ${path}: ${messageOf(cause)}`;
      throw new UsageError(message, { cause });
    }
  }
}

function allWatchedPaths(options: FileOptions): string[] {
  return [...watchedPaths(options), ...tlsPaths(options)];
}

interface TriggerOptions {
  readonly options: FileOptions & Pick<StartOptions, "poll-interval">;
  /** Called whenever the sources may have changed. */
  readonly reload: () => void;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Starts calling `reload` when the sources may have changed, in the modes `poll` and `file_watch` of
 * `--hot-reload-mode`. The mode `file_watch` also polls, since a file may change without a new size or time, and since
 * a failed read has to be repeated.
 *
 * @returns A function that stops it.
 */
export async function startTriggers(
  { options, reload, clock, log }: TriggerOptions,
): Promise<() => void> {
  const files = denoFileSystem;
  const stopWatching = options["hot-reload-mode"] === "file_watch"
    ? await watchPaths(allWatchedPaths(options), reload, { files, clock })
    : () => {};
  const onError = logTaskError(log, "reload");
  const interval = options["poll-interval"];
  const stopPolling = every(interval, reload, { clock, onError });
  return () => {
    stopPolling();
    stopWatching();
  };
}
