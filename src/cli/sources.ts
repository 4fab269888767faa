import { type Clock, systemClock } from "../clock.ts";
import { messageOf } from "../log.ts";
import { isGranted } from "../permissions.ts";
import type { Environment } from "../variables/classify.ts";
import { readEnvironment } from "../variables/environment.ts";
import { ConfigurationError } from "../variables/snapshot.ts";
import { EnvFileError, readEnvFile } from "./env_file.ts";
import { EnvSource } from "./env_source.ts";
import { parseCommandManifest } from "./manifest_settings.ts";
import type { CommandOptions } from "./option_table.ts";

/** Sources of the variables. Both functions are called at startup and at every reload. */
interface Sources {
  readonly variables: () => Promise<Environment>;
  readonly manifest: (() => Promise<string>) | undefined;
}

/** The options that name a source. */
export type SourceOptions = Pick<CommandOptions, "env-file" | "watch-path" | "manifest" | "hot-reload-mode">;

/** Creates the sources. The environment of the process overrides the env file (REP-RFC-0001 §4.2). */
export function createSources(options: SourceOptions, clock: Clock = systemClock): Sources {
  const envPath = resolveEnvPath(options);
  const readFile = envPath === undefined ? () => Promise.resolve({}) : createEnvReader(envPath, clock);
  const { manifest } = options;
  return {
    variables: async () => ({ ...await readFile(), ...readEnvironment() }),
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

/** Returns the path of the env file. A mounted ConfigMap may be set by `--watch-path` alone (REP-RFC-0001 §9.3). */
export function resolveEnvPath(options: SourceOptions): FlagPath | undefined {
  const { "env-file": envFile, "watch-path": watchPath, "hot-reload-mode": mode } = options;
  if (envFile !== undefined) return { flag: "--env-file", path: envFile };
  return mode === "file_watch" && watchPath !== undefined ? { flag: "--watch-path", path: watchPath } : undefined;
}

/** Returns the paths to watch for changes of the variables. */
export function watchedPaths(options: SourceOptions): string[] {
  const paths = options["watch-path"] === undefined ? [options["env-file"], options.manifest] : [options["watch-path"]];
  return paths.filter((path) => path !== undefined);
}

/**
 * Reads an env file or directory that an option names, once.
 *
 * @throws {ConfigurationError} If it cannot be read.
 */
export async function readEnvPath(envPath: FlagPath): Promise<Environment> {
  const { variables } = await readPath(envPath, () => readEnvFile(envPath.path));
  return variables;
}

function createEnvReader(envPath: FlagPath, clock: Clock): () => Promise<Environment> {
  const source = new EnvSource(envPath.path, clock);
  return () => readPath(envPath, () => source.read());
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
    throw new ConfigurationError(issuesOf(cause, path).map((issue) => `Cannot read ${flag} ${issue}`), { cause });
  }
}

function issuesOf(error: unknown, path: string): readonly string[] {
  if (error instanceof EnvFileError) return error.issues.map(({ where, detail }) => `"${where}": ${detail}`);
  return [`"${path}": ${messageOf(error)}`];
}
