import { EnvSource } from "../../files/env_source.ts";
import {
  type EnvFile,
  loadEnvFile,
  readEnvironment,
  requiredPath,
} from "../../files/read_environment.ts";
import { SUSPICIOUS_NAME } from "../../core/config/variables/finding.ts";
import type { Manifest } from "../../core/config/variables/manifest.ts";
import { ConfigurationError } from "../../core/config/variables/snapshot.ts";
import { withoutServiceLinks } from "../../core/config/variables/service_links.ts";
import {
  type Environment,
  OPTION_PREFIX,
} from "../../core/config/variables/tiers.ts";
import type { Log } from "../../core/observe/log.ts";
import { type Clock, systemClock } from "../../core/values/clock.ts";
import { localFiles } from "../../files/local_files.ts";
import {
  type FlagPaths,
  readPaths,
  readTextFile,
} from "../../files/read_named.ts";
import { isGranted } from "../../core/values/runtime.ts";
import type { StartOptions } from "../options/option_table.ts";

/**
 * Creates the sources, which are read at startup and at every reload. The environment of the process overrides the env
 * files (REP-RFC-0001 §4.2), and each env file overrides the ones before it.
 */
export function createSources(
  options: SourceOptions,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
) {
  const envPaths = resolveEnvPaths(options);
  const source = new EnvSource(envPaths.paths.map(requiredPath), clock);
  let environment: Environment = {};
  const logIneffective = createIneffectiveLog(log);
  return {
    async variables(): Promise<Environment> {
      const isFirst = source.files.length === 0;
      const files = await readPaths(envPaths, () => source.read(), clock);
      environment = withoutServiceLinks(readEnvironment());
      if (isFirst) logEmpty(envPaths.flag, source.files, log);
      logIneffective(files, environment, viteNames(source.files));
      return { ...files, ...environment };
    },
    /** Returns the source that a variable was read from. */
    sourceOf: (name: string) =>
      environment[name] === undefined
        ? source.placeOf(name)?.path ?? "env file"
        : "environment",
    manifest: manifestSource(options.manifest, clock),
  };
}

/** Returns a function that reads a manifest; `undefined` if there is none. */
export function manifestSource(path: string | undefined, clock: Clock) {
  return path === undefined ? undefined : () => readManifest(path, clock);
}

/** Logs each env file or directory without variables. At the start, nothing says that there should be any. */
function logEmpty(flag: string, files: readonly EnvFile[], log: Log): void {
  for (const { path, variables } of files) {
    if (Object.keys(variables).length > 0) continue;
    const detail =
      `${flag} "${path}" contains no variables: expected ${EXPECTED_VARIABLES}`;
    log.warn("rep.start.warning", { detail });
  }
}

const EXPECTED_VARIABLES =
  "lines of REP_…=value, or files whose names begin with REP_";

/** Returns a function that logs each variable of the env files that has no effect there, once. */
export function createIneffectiveLog(
  log: Log,
): (files: Environment, environment: Environment, viteNames: string) => void {
  const logged = new Set<string>();

  function warnOnce(variable_name: string, detail: string): void {
    if (logged.has(variable_name)) return;
    logged.add(variable_name);
    log.warn(SUSPICIOUS_NAME, { variable_name, detail });
  }

  return (files, environment, viteNames) => {
    if (viteNames !== "") warnOnce(viteNames, VITE_PREFIX);
    const variables: string[] = [];
    for (const name of Object.keys(files)) {
      if (name.startsWith(OPTION_PREFIX)) warnOnce(name, NO_OPTION);
      else if (environment[name] !== undefined && !logged.has(name)) {
        logged.add(name);
        variables.push(name);
      }
    }
    if (variables.length > 0) {
      log.info("rep.config.overridden", { detail: OVERRIDDEN, variables });
    }
  };
}

/** Returns the names in env files that are meant for Vite, separated by commas. */
export function viteNames(files: readonly EnvFile[]): string {
  const names = files.flatMap(({ lines }) => [...lines.keys()]);
  return names.filter((name) => name.startsWith("VITE_")).join(", ");
}

/** What messages say about {@linkcode viteNames}. */
export const VITE_PREFIX =
  "ignored in env files: expected the prefix REP_PUBLIC_ instead of VITE_";
const NO_OPTION =
  "it is ignored: options are not read from env files, but from flags, the environment and the manifest";
const OVERRIDDEN =
  "the environment of the process overrides the env files: change them in the environment, and restart";

/** The manifest of a project, as in REP's own command-line tool. */
export const DEFAULT_MANIFEST = ".rep.yaml";

/**
 * Reads and parses a manifest, including its `settings`.
 *
 * @throws {ConfigurationError} If it cannot be read or is invalid.
 */
export async function readManifest(
  path: string,
  clock: Clock = systemClock,
): Promise<Manifest> {
  const text = await readTextFile(path, "--manifest", clock);
  const { parseCommandManifest } = await import(
    "../options/manifest_settings.ts"
  );
  const manifest = parseCommandManifest(text, path);
  if (manifest.issues.length === 0) return manifest;
  throw new ConfigurationError(manifest.issues);
}

/**
 * Returns the path of the manifest in a directory; `undefined` if there is none, or it may not be read.
 *
 * @param directory The beginning of the path. @default {the current directory}
 */
export async function findDefaultManifest(
  directory = "",
): Promise<string | undefined> {
  const path = directory + DEFAULT_MANIFEST;
  if (!isGranted({ name: "read", path })) return undefined;
  const files = await localFiles();
  const isThere = await files.stat(path).then(() => true, () => false);
  return isThere ? path : undefined;
}

/** The options that name a source. */
export type SourceOptions = Pick<
  StartOptions,
  "env-file" | "watch-path" | "manifest" | "hot-reload-mode"
>;

/** Returns the paths of the env files. A mounted ConfigMap may be set by `--watch-path` alone (REP-RFC-0001 §9.3). */
export function resolveEnvPaths(options: SourceOptions): FlagPaths {
  const {
    "env-file": envFiles,
    "watch-path": watchPath,
    "hot-reload-mode": mode,
  } = options;
  const isMount = envFiles.length === 0 && mode === "file_watch" &&
    watchPath !== undefined;
  return isMount
    ? { flag: "--watch-path", paths: [watchPath] }
    : { flag: "--env-file", paths: envFiles };
}

/** Returns the paths to watch for changes of the variables. */
export function watchedPaths(options: SourceOptions): string[] {
  const { "watch-path": path, "env-file": envFiles, manifest } = options;
  return [path, ...envFiles, manifest].filter((it) => it !== undefined);
}

/**
 * Reads an env file or directory that `--env-file` names, once.
 *
 * @throws {ConfigurationError} If it cannot be read.
 */
export async function readEnvPath(path: string): Promise<EnvFile> {
  const paths = { flag: "--env-file", paths: [path] };
  return await readPaths(paths, () => loadEnvFile(path), systemClock);
}
