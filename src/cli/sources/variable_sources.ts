import { EnvSource } from "../../config/files/env_source.ts";
import {
  loadEnvFile,
  readEnvironment,
  requiredPath,
} from "../../config/files/read_environment.ts";
import type { Manifest } from "../../config/variables/manifest.ts";
import { ConfigurationError } from "../../config/variables/snapshot.ts";
import {
  type Environment,
  HOW_TO_EMPTY,
  isEmptied,
  OPTION_PREFIX,
} from "../../config/variables/tiers.ts";
import { type Log, messageOf } from "../../observe/log.ts";
import { type Clock, systemClock, withDeadline } from "../../values/clock.ts";
import { localFiles, readBoundedFile } from "../../values/local_files.ts";
import { isGranted } from "../../values/runtime.ts";
import type { StartOptions } from "../options/option_table.ts";

/** What sources use besides their options. */
export interface SourcesContext {
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Creates the sources, which are read at startup and at every reload. The environment of the process overrides the env
 * files (REP-RFC-0001 §4.2), and each of them the ones before it.
 */
export function createSources(
  options: SourceOptions,
  { clock, log }: SourcesContext,
) {
  const envPaths = resolveEnvPaths(options);
  const source = new EnvSource(envPaths.paths.map(requiredPath), clock);
  let environment: Environment = {};
  const logIneffective = createIneffectiveLog(log);
  const { manifest } = options;
  return {
    async variables(): Promise<Environment> {
      const files = await readPaths(envPaths, () => source.read(), clock);
      environment = readOwnEnvironment(environment);
      logIneffective(files, environment);
      return { ...files, ...environment };
    },
    /** Names the source that a variable was read from. */
    sourceOf: (name: string) =>
      environment[name] === undefined
        ? source.placeOf(name)?.path ?? "env file"
        : "environment",
    manifest: manifest === undefined
      ? undefined
      : () => readManifest(manifest, clock),
  };
}

/**
 * Reads the environment of the process again.
 *
 * @throws {ConfigurationError} If it has lost all its variables.
 */
function readOwnEnvironment(before: Environment): Environment {
  const environment = readEnvironment();
  if (!isEmptied(before, environment)) return environment;
  throw new ConfigurationError([
    `Cannot use the environment: expected variables, as before, got none; ${HOW_TO_EMPTY}`,
  ]);
}

/** Logs once for each name what is set in env files without effect, and would be edited there in vain. */
function createIneffectiveLog(
  log: Log,
): (files: Environment, environment: Environment) => void {
  const known = new Set<string>();
  const isOption = (name: string) => name.startsWith(OPTION_PREFIX);
  return (files, environment) => {
    const ineffective = Object.keys(files).filter((name) =>
      isOption(name) || environment[name] !== undefined
    );
    const names = ineffective.filter((name) => !known.has(name));
    for (const name of names.filter(isOption)) {
      log.warn("rep.config.suspicious_name", {
        variable_name: name,
        detail: NO_OPTION,
      });
    }
    const variables = names.filter((name) => !isOption(name));
    if (variables.length > 0) {
      log.info("rep.config.overridden", { detail: OVERRIDDEN, variables });
    }
    for (const name of names) known.add(name);
  };
}

const NO_OPTION =
  "it is ignored: options are not read from env files, but from flags, the environment and the manifest";
const OVERRIDDEN =
  "the environment of the process overrides the env files: change these variables there, and restart";

/** The manifest of a project, as in REP's own command-line tool. */
export const DEFAULT_MANIFEST = ".rep.yaml";
/** A network file system may never answer. Env files that change take up to five seconds to be believed. */
const READ_TIMEOUT_MS = 15_000;

/**
 * Reads and parses a manifest, once: the gateway gets the result. It ignores the `settings`, which are options of the
 * command.
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

/** Returns the manifest in the current directory; `undefined` if there is none, or if it cannot be read. */
export async function findDefaultManifest(): Promise<string | undefined> {
  if (!isGranted({ name: "read", path: DEFAULT_MANIFEST })) return undefined;
  const files = await localFiles();
  const isThere = await files.stat(DEFAULT_MANIFEST).then(
    () => true,
    () => false,
  );
  return isThere ? DEFAULT_MANIFEST : undefined;
}

/** The options that name a source. */
export type SourceOptions = Pick<
  StartOptions,
  "env-file" | "watch-path" | "manifest" | "hot-reload-mode"
>;

/** Paths, and the flag that sets them. */
interface FlagPaths {
  readonly flag: string;
  readonly paths: readonly string[];
}

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

/** Returns the paths to watch for changes of the variables: what is read, and `--watch-path`. */
export function watchedPaths(options: SourceOptions): string[] {
  const { "watch-path": watchPath } = options;
  const paths = sourcePaths(options);
  return watchPath === undefined ? paths : [watchPath, ...paths];
}

/** Returns the paths of the files that options name as sources. */
function sourcePaths(
  { "env-file": envFiles, manifest }: SourceOptions,
): string[] {
  return [...envFiles, manifest].filter((path) => path !== undefined);
}

/**
 * Reads an env file or directory that an option names, once.
 *
 * @throws {ConfigurationError} If it cannot be read.
 */
export async function readEnvPath(
  path: string,
  flag: string,
): Promise<Environment> {
  const { variables } = await readPaths(
    { flag, paths: [path] },
    () => loadEnvFile(path),
    systemClock,
  );
  return variables;
}

/**
 * Reads a file that an option names.
 *
 * @throws {ConfigurationError} If it cannot be read.
 */
export function readTextFile(
  path: string,
  flag: string,
  clock: Clock = systemClock,
): Promise<string> {
  const read = async () =>
    new TextDecoder().decode(await readBoundedFile(path));
  return readPaths({ flag, paths: [path] }, read, clock);
}

/** Returns a message if the permission to read the path is missing. Reading it would prompt. */
export function missingRead(
  flag: string,
  path: string | undefined,
): string | undefined {
  if (path === undefined || isGranted({ name: "read", path })) return undefined;
  return `Cannot read ${flag} "${path}": expected --allow-read=${path}`;
}

/**
 * Reads what an option names.
 *
 * @throws {ConfigurationError} If it cannot be read, or not in time.
 */
export async function readPaths<T>(
  { flag, paths }: FlagPaths,
  read: () => Promise<T>,
  clock: Clock,
): Promise<T> {
  const missing = paths.map((path) => missingRead(flag, path)).filter((issue) =>
    issue !== undefined
  );
  if (missing.length > 0) throw new ConfigurationError(missing);
  try {
    return await withDeadline(read(), READ_TIMEOUT_MS, clock, () => {
      return new Error(
        `expected to be read within ${READ_TIMEOUT_MS / 1000} s`,
      );
    });
  } catch (cause) {
    const isComplete = cause instanceof ConfigurationError; // its issues name the env files
    const issues = isComplete
      ? cause.issues
      : paths.map((path) => `"${path}": ${messageOf(cause)}`);
    throw new ConfigurationError(
      issues.map((issue) => `Cannot read ${flag} ${issue}`),
      { cause },
    );
  }
}
