/**
 * Functions with which your own server reads its configuration as the command does, on Deno, Node.js and Bun.
 *
 * ```ts
 * import { createGateway } from "@rep/gateway";
 * import { readEnvFile, watchFiles } from "@rep/gateway/sources";
 *
 * const path = await Deno.makeTempFile();
 * await using gateway = await createGateway({ variables: () => readEnvFile(path), hotReload: true });
 * using _watcher = await watchFiles([path], () => void gateway.reload());
 * ```
 *
 * @module
 */
import { type Clock, systemClock } from "./core/values/clock.ts";
import { localFiles } from "./files/local_files.ts";
import type { Environment } from "./core/config/variables/tiers.ts";
import { readEnvFiles, requiredPath } from "./files/read_environment.ts";
import { watchPaths } from "./files/watch_paths.ts";

export type { Environment } from "./core/config/variables/tiers.ts";
export type { Clock } from "./core/values/clock.ts";
export {
  setStoredVariables,
  type SetStoredVariablesOptions,
} from "./stored/set_stored_variables.ts";
export type {
  Check,
  Entry,
  Key,
  ListOptions,
  Store,
  Write,
} from "./core/store/store.ts";
export type {
  StoredVariable,
  StoredWrite,
  WriteCause,
} from "./core/config/stored/stored_variables.ts";

/**
 * Reads the `REP_…` variables of a file of `NAME=value` lines, or of a directory with one file per variable, as
 * Kubernetes mounts a ConfigMap or a Secret.
 *
 * @throws {ConfigurationError} If it cannot be read or is invalid. The message contains path and line, but no value.
 */
export async function readEnvFile(path: string): Promise<Environment> {
  const [file] = await readEnvFiles([requiredPath(path)]);
  return file?.variables ?? {};
}

/** Options of {@linkcode watchFiles}. */
export interface WatchFilesOptions {
  /** Measures the time between two checks. @default {the time of the system} */
  clock?: Clock;
}

/**
 * Calls back after changes of files, or of directories of variables, within about half a second; a second time where the
 * file system counts in seconds. It checks the paths twice a second, and does not keep the process alive. A path need not
 * exist yet.
 *
 * @returns A watcher, which stops when it is disposed of.
 */
export async function watchFiles(
  paths: readonly string[],
  onChange: () => void,
  { clock = systemClock }: WatchFilesOptions = {},
): Promise<Disposable> {
  const files = await localFiles();
  const stop = await watchPaths(paths, onChange, { files, clock });
  return { [Symbol.dispose]: stop };
}
