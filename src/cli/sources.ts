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

/** Creates the sources. The environment of the process overrides the env file (REP-RFC-0001 §4.2). */
export function createSources(options: SourceOptions): Sources {
  const path = resolveEnvPath(options);
  const { manifest } = options;
  return {
    variables: async () => ({ ...(path === undefined ? {} : await readEnvPath(path)), ...readEnvironment() }),
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

/** A mounted ConfigMap may be named by `--watch-path` alone (REP-RFC-0001 §9.3). */
function resolveEnvPath(options: SourceOptions): string | undefined {
  const isWatched = options["hot-reload-mode"] === "file_watch";
  return options["env-file"] ?? (isWatched ? options["watch-path"] : undefined);
}

/** Returns the paths to watch for changes of the variables. */
export function watchedPaths(options: SourceOptions): string[] {
  const paths = options["watch-path"] === undefined ? [options["env-file"], options.manifest] : [options["watch-path"]];
  return paths.filter((path) => path !== undefined);
}

function readEnvPath(path: string): Promise<Environment> {
  return readPath(path, "--env-file", () => readEnvFile(path));
}

/**
 * Reads a file that an option names.
 *
 * @throws {ConfigurationError} If it cannot be read.
 */
export function readTextFile(path: string, flag: string): Promise<string> {
  return readPath(path, flag, () => Deno.readTextFile(path));
}

async function readPath<T>(path: string, flag: string, read: () => Promise<T>): Promise<T> {
  if (!isGranted({ name: "read", path })) {
    throw new ConfigurationError([`Cannot read ${flag} "${path}": expected --allow-read=${path}`]);
  }
  try {
    return await read();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigurationError([`Cannot read ${flag} "${path}": ${reason}`], { cause });
  }
}
