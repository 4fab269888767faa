import { isGranted } from "../permissions.ts";
import type { Environment } from "../variables/classify.ts";
import { readEnvironment } from "../variables/environment.ts";
import { ConfigurationError } from "../variables/snapshot.ts";
import { readEnvFile } from "./env_file.ts";
import { parseCommandManifest } from "./manifest_settings.ts";
import type { CommandOptions } from "./option_table.ts";

/** Sources of the variables. Both functions are called at startup and at every reload. */
export interface Sources {
  readonly variables: () => Promise<Environment>;
  readonly manifest: (() => Promise<string>) | undefined;
}

/** The options that name a source. */
export type SourceOptions = Pick<CommandOptions, "env-file" | "watch-path" | "manifest" | "hot-reload-mode">;

/**
 * Creates the sources. The environment of the process overrides the env files (REP-RFC-0001 §4.2), and each of them the
 * ones before it.
 */
export function createSources(options: SourceOptions): Sources {
  const envPaths = resolveEnvPaths(options);
  const { manifest } = options;
  return {
    variables: async () => ({ ...await readEnvPaths(envPaths), ...readEnvironment() }),
    manifest: manifest === undefined ? undefined : () => readManifest(manifest),
  };
}

/** Returns the text of a manifest after validating its `settings`, which the gateway itself ignores. */
async function readManifest(path: string): Promise<string> {
  const text = await readTextFile(path, "--manifest");
  const { issues } = parseCommandManifest(text);
  if (issues.length > 0) throw new ConfigurationError(issues);
  return text;
}

/** A path, and the flag that sets it. */
interface FlagPath {
  readonly flag: string;
  readonly path: string;
}

/** Returns the paths of the env files. A mounted ConfigMap may be set by `--watch-path` alone (REP-RFC-0001 §9.3). */
export function resolveEnvPaths(options: SourceOptions): FlagPath[] {
  const { "env-file": envFiles, "watch-path": watchPath, "hot-reload-mode": mode } = options;
  if (envFiles.length > 0) return envFiles.map((path) => ({ flag: "--env-file", path }));
  return mode === "file_watch" && watchPath !== undefined ? [{ flag: "--watch-path", path: watchPath }] : [];
}

/** Returns the paths to watch for changes of the variables. */
export function watchedPaths(options: SourceOptions): string[] {
  const { "watch-path": watchPath, "env-file": envFiles, manifest } = options;
  const paths = watchPath === undefined ? [...envFiles, manifest] : [watchPath];
  return paths.filter((path) => path !== undefined);
}

/**
 * Reads the env files, and merges them.
 *
 * @throws {ConfigurationError} If any of them cannot be read; the error has the issues of all.
 */
async function readEnvPaths(envPaths: readonly FlagPath[]): Promise<Environment> {
  const issues: string[] = [];
  const files = await Promise.all(envPaths.map(async (envPath) => {
    try {
      return await readPath(envPath, () => readEnvFile(envPath.path));
    } catch (error) {
      issues.push(...(error as ConfigurationError).issues);
    }
  }));
  if (issues.length > 0) throw new ConfigurationError(issues);
  return Object.assign({}, ...files);
}

/**
 * Reads a file that an option names.
 *
 * @throws {ConfigurationError} If it cannot be read.
 */
export function readTextFile(path: string, flag: string): Promise<string> {
  return readPath({ flag, path }, () => Deno.readTextFile(path));
}

/** Returns a message if the permission to read the path is missing. Reading it would prompt. */
export function missingRead({ flag, path }: FlagPath): string | undefined {
  if (isGranted({ name: "read", path })) return undefined;
  return `Cannot read ${flag} "${path}": expected --allow-read=${path}`;
}

async function readPath<T>({ flag, path }: FlagPath, read: () => Promise<T>): Promise<T> {
  const missing = missingRead({ flag, path });
  if (missing !== undefined) throw new ConfigurationError([missing]);
  try {
    return await read();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigurationError([`Cannot read ${flag} "${path}": ${reason}`], { cause });
  }
}
