import { checkKeepBuilds } from "../../content/builds/check_directory.ts";
import { denoFileSystem } from "../../files/local_files.ts";
import { isInside } from "../../files/paths.ts";
import { isGranted } from "../../core/values/runtime.ts";
import { portOf } from "../../core/values/urls.ts";
import type { StartOptions } from "../options/option_table.ts";
import { secretPaths, tlsPaths } from "../sources/secret_files.ts";
import { resolveEnvPaths } from "../sources/variable_sources.ts";
import { isRepName } from "../../core/config/variables/tiers.ts";
import { ConfigurationError } from "../../core/config/variables/snapshot.ts";

/**
 * Checks reload triggers and the permission for the upstream without any side effect. Deno itself says which other
 * permission is missing, since the start uses it.
 *
 * @throws {ConfigurationError} If the permission is missing.
 * @throws {UsageError} If a trigger cannot be set up.
 */
export async function checkStart(options: StartOptions): Promise<void> {
  if (options.upstream !== undefined) requireNet(options.upstream);
  const { "static-dir": staticDir, sites, releases } = options;
  const served = [staticDir, sites, releases];
  const { "keep-builds": keepBuilds, immutable } = options;
  await checkKeepBuilds(keepBuilds, immutable, served, denoFileSystem);
  const triggers = await loadTriggers(options["hot-reload-mode"]);
  triggers?.checkTriggers(options);
}

/** Without this check, a running gateway would stand still while Deno prompts for the permission on a terminal. */
function requireNet(upstream: URL): void {
  const host = `${upstream.hostname}:${portOf(upstream)}`;
  if (isGranted({ name: "net", host })) return;
  throw new ConfigurationError([
    `Cannot proxy to --upstream "${upstream}": expected --allow-net=${host}`,
  ]);
}

/** Loads the code that triggers reloads; `undefined` if only a signal does, so that most starts do not load it. */
export async function loadTriggers(mode: StartOptions["hot-reload-mode"]) {
  return mode === "signal" ? undefined : await import("../sources/triggers.ts");
}

/** What {@linkcode startWarnings} depends on in addition to options. */
export interface StartContext {
  /** Whether `set` and `unset` of another process can change the variables in the store. */
  readonly isStoreShared: boolean;
  /** Whether other gateways on the machine use the same keys of the same database. */
  readonly sharesDefaultDatabase: boolean;
  /** Whether `--hot-reload-mode` is set anywhere. */
  readonly isModeSet: boolean;
  /** The manifest in the current directory, if there is one. */
  readonly defaultManifest: string | undefined;
}

/** Returns warnings about options that are probably mistakes, but do not prevent the start. */
export function startWarnings(
  options: StartOptions,
  context: StartContext,
): string[] {
  const { "static-dir": staticDir, upstream } = options;
  const warnings: string[] = [];
  const hasNothing = staticDir === undefined && upstream === undefined;
  if (hasNothing && options.sites === undefined) {
    warnings.push(
      "there is nothing to serve but the endpoints under /rep/: expected --static-dir or --upstream",
    );
  }
  // With --hot-reload, the pages of both apps would get the values of the gateway that was started last.
  if (context.sharesDefaultDatabase) {
    warnings.push(
      "gateways of different apps share Deno's default database if they run from the same URL: expected --app NAME or --kv FILE",
    );
  }
  // Like REP's Go gateway, this one reads no manifest by default, but `validate` and `typegen` do.
  if (options.manifest === undefined && context.defaultManifest !== undefined) {
    warnings.push(
      `the manifest in this directory is not used: expected --manifest ${context.defaultManifest}`,
    );
  }
  const { "keep-builds": path } = options;
  if (path !== undefined && !isGranted({ name: "write", path })) {
    warnings.push(
      `--keep-builds "${path}" is only read: expected --allow-write=${path}, unless something else fills it`,
    );
  }
  if (options["hot-reload"]) warnings.push(...reloadWarnings(options, context));
  else if (options.poll !== undefined) {
    warnings.push("--poll has no effect: expected --hot-reload");
  }
  return warnings;
}

function reloadWarnings(
  options: StartOptions,
  { isStoreShared, isModeSet }: StartContext,
): string[] {
  const envPaths = resolveEnvPaths(options).paths;
  const { manifest, sites } = options;
  const hasFiles = envPaths.length > 0 || (manifest ?? sites) !== undefined;
  if (!hasFiles && !isStoreShared) {
    return [
      "--hot-reload has no effect: neither the environment of a process nor a store in its memory can be changed from " +
      "outside; expected --env-file with --hot-reload-mode file_watch, or a persistent --kv",
    ];
  }
  if (!hasFiles || options["hot-reload-mode"] !== "signal" || isModeSet) {
    return [];
  }
  return [
    "a changed file is only noticed at SIGHUP: expected --hot-reload-mode file_watch or poll",
  ];
}

/**
 * Returns the paths of the files that the command reads or writes: env files and directories, the manifest, the store,
 * the certificate with its key, and files of secrets. They are never served, even if they are in the served directory.
 */
export async function ownFiles(options: StartOptions): Promise<string[]> {
  const { kv, manifest, "static-dir": staticDir } = options;
  if (staticDir === undefined) return [];
  const paths: string[] = [];
  for (const path of resolveEnvPaths(options).paths) {
    paths.push(...await envFiles(path, staticDir));
  }
  if (kv !== undefined && kv !== ":memory:") {
    const { storeFiles } = await import("../../engines/open_named.ts");
    paths.push(...await storeFiles(kv));
  }
  if (manifest !== undefined) paths.push(manifest);
  return [...paths, ...tlsPaths(options), ...secretPaths()];
}

/** Returns the paths of an env file or directory. If the directory contains the app, only its variables are excluded. */
async function envFiles(path: string, staticDir: string): Promise<string[]> {
  const { isDirectory } = await Deno.stat(path).catch(() => ({
    isDirectory: false,
  }));
  if (!isDirectory) return [path];
  const names = await denoFileSystem.names(path);
  const files = names.filter(isRepName).map((name) => `${path}/${name}`);
  const app = await Deno.realPath(staticDir);
  const containsApp = isInside(app, await Deno.realPath(path));
  return containsApp ? files : [path, ...files];
}
