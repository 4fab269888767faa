import type { CommandOptions } from "../options/option_table.ts";
import { resolveEnvPaths } from "../sources/sources.ts";

/** What is known about a start besides its options. */
export interface StartContext {
  /** Whether `set` and `unset` of another process can change the variables in the store. */
  readonly isStoreShared: boolean;
  /** Whether all gateways of the machine that run from the same URL have it, without `--kv`, `--app` and a fixed port. */
  readonly sharesDefaultDatabase: boolean;
  /** Whether `--hot-reload-mode` is set anywhere. */
  readonly isModeSet: boolean;
  /** The manifest in the current directory, if there is one. */
  readonly defaultManifest: string | undefined;
}

/** Most files of a build are larger. */
const MIN_CACHE_BYTES = 65_536;

/** Returns what an operator has probably not intended, although the gateway can start. */
export function startWarnings(
  options: CommandOptions,
  context: StartContext,
): string[] {
  return [
    ...contentWarnings(options),
    ...cacheWarnings(options),
    ...storeWarnings(context),
    ...manifestWarnings(options, context),
    ...reloadWarnings(options, context),
  ];
}

function contentWarnings(
  { "static-dir": staticDir, upstream }: CommandOptions,
): string[] {
  if (staticDir !== undefined || upstream !== undefined) return [];
  return [
    "there is nothing to serve but the endpoints under /rep/: expected --static-dir or --upstream",
  ];
}

/** A number without a unit is meant in MiB, as in the configuration of most servers. */
function cacheWarnings({ "static-cache": bytes }: CommandOptions): string[] {
  if (bytes === 0 || bytes >= MIN_CACHE_BYTES) return [];
  return [
    `--static-cache ${bytes} is too little for any file: expected a unit, such as ${bytes}MiB, or 0 for no cache`,
  ];
}

/** With `--hot-reload`, the pages of both would have the values of the one that was started last. */
function storeWarnings({ sharesDefaultDatabase }: StartContext): string[] {
  if (!sharesDefaultDatabase) return [];
  return [
    "gateways of different apps share Deno's default database if they run from the same URL: expected --app NAME or --kv FILE",
  ];
}

/** As the Go gateway, this one reads no manifest by default; `validate` and `typegen` do. */
function manifestWarnings(
  { manifest }: CommandOptions,
  { defaultManifest }: StartContext,
): string[] {
  if (manifest !== undefined || defaultManifest === undefined) return [];
  return [
    `the manifest in this directory is not used: expected --manifest ${defaultManifest}`,
  ];
}

function reloadWarnings(
  options: CommandOptions,
  { isStoreShared, isModeSet }: StartContext,
): string[] {
  const { "hot-reload": hotReload, "hot-reload-mode": mode, manifest } =
    options;
  if (!hotReload) return [];
  const hasFiles = resolveEnvPaths(options).paths.length > 0 ||
    manifest !== undefined;
  if (!hasFiles && !isStoreShared) {
    return [
      "--hot-reload has no effect: neither the environment of a process nor a store in its memory can be changed from " +
      "outside; expected --env-file with --hot-reload-mode file_watch, or a persistent --kv",
    ];
  }
  if (!hasFiles || mode !== "signal" || isModeSet) return [];
  return [
    "nothing notices a change of a file before SIGHUP: expected --hot-reload-mode file_watch, poll or signal",
  ];
}
