import {
  type EnvFile,
  loadEnvFile,
  readEnvFiles,
  readEnvironment,
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
import {
  type Clock,
  sleep,
  systemClock,
  withDeadline,
} from "../../values/clock.ts";
import { readBoundedFile } from "../../values/local_files.ts";
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
  const source = new EnvSource(envPaths.paths, clock);
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
        ? source.pathOf(name) ?? "env file"
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

/** How long a file has to stay the same before what is missing in it counts as removed. */
const CONFIRM_MS = 500;
/** How often a file is read that changes all the time. */
const MAX_READS = 10;

/**
 * Env files and directories that are read again and again, possibly while somebody writes them. A variable that
 * disappears or becomes empty does so on all open pages, so it is not believed at first sight: all files are read again
 * after a pause, since it may be moving from one to another.
 */
export class EnvSource {
  readonly #paths: readonly string[];
  readonly #clock: Clock;
  #last: readonly EnvFile[] | undefined;

  constructor(paths: readonly string[], clock: Clock) {
    this.#paths = paths;
    this.#clock = clock;
  }

  /**
   * Reads the variables. Each file overrides the ones before it.
   *
   * @throws {ConfigurationError} If a file cannot be read, is invalid, has lost all its variables, or does not stay the
   * same for half a second. Each issue begins with the place.
   */
  async read(): Promise<Environment> {
    const current = await this.#readStable();
    const issues = this.#paths.flatMap((where, index) =>
      emptinessIssues(where, this.#last?.[index], current[index])
    );
    if (issues.length > 0) throw new ConfigurationError(issues);
    this.#last = current;
    return Object.assign({}, ...current.map(({ variables }) => variables));
  }

  /** Returns the path of the file that a variable was last read from. */
  pathOf(name: string): string | undefined {
    const index =
      this.#last?.findLastIndex(({ variables }) =>
        variables[name] !== undefined
      ) ?? -1;
    return this.#paths[index];
  }

  /** Reads the files until none has lost anything, or all are the same in two reads. */
  async #readStable(): Promise<readonly EnvFile[]> {
    let current = await readEnvFiles(this.#paths);
    let changed: readonly string[] = [];
    for (let reads = 1; this.#hasLost(current); reads++) {
      if (reads === MAX_READS) {
        throw new ConfigurationError(changed.map(unstableIssue));
      }
      await sleep(CONFIRM_MS, this.#clock);
      const next = await readEnvFiles(this.#paths);
      changed = this.#changedPaths(current, next);
      if (changed.length === 0) return next;
      current = next;
    }
    return current;
  }

  #hasLost(current: readonly EnvFile[]): boolean {
    return current.some((file, index) => hasLost(this.#last?.[index], file));
  }

  #changedPaths(
    before: readonly EnvFile[],
    after: readonly EnvFile[],
  ): readonly string[] {
    return this.#paths.filter((_, index) =>
      !isSame(before[index], after[index])
    );
  }
}

function emptinessIssues(
  where: string,
  before: EnvFile | undefined,
  after: EnvFile | undefined,
): string[] {
  const { variables = {} } = before ?? {};
  if (!isEmptied(variables, after?.variables ?? {})) return [];
  return [
    `"${where}": expected variables, as before, got none; ${HOW_TO_EMPTY}`,
  ];
}

function unstableIssue(where: string): string {
  return `"${where}": expected a file that stays the same, but it changed in ${MAX_READS} reads`;
}

/**
 * Returns whether a variable is missing, or empty, that was not before, or the last line is not terminated, although it
 * was before: then its value may be cut off.
 */
function hasLost(before: EnvFile | undefined, after: EnvFile): boolean {
  if (before === undefined) return false;
  if (before.isTerminated && !after.isTerminated) return true;
  return Object.entries(before.variables).some(([name, value]) => {
    const now = after.variables[name];
    return now === undefined || (now === "" && value !== "");
  });
}

function isSame(a: EnvFile | undefined, b: EnvFile | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  const names = Object.keys(a.variables);
  return names.length === Object.keys(b.variables).length &&
    names.every((name) => a.variables[name] === b.variables[name]);
}

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
  const isThere = await Deno.stat(DEFAULT_MANIFEST).then(
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
