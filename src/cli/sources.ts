import type { Settings } from "./option_table.ts";
import type { Environment } from "../variables/classify.ts";
import { readEnvFile } from "./env_file.ts";
import { isGranted } from "../permissions.ts";
import { readEnvironment } from "../variables/environment.ts";
import { parseCommandManifest } from "./manifest_settings.ts";
import { ConfigurationError } from "../variables/snapshot.ts";

/** Where a command's variables come from; each is asked again at every reload. */
export interface Sources {
  readonly variables: () => Promise<Environment>;
  readonly manifest: (() => Promise<string>) | undefined;
}

type SourceSettings = Pick<Settings, "env-file" | "watch-path" | "manifest" | "hot-reload-mode">;

/** The sources that the settings name. The process's environment wins over the env file (REP-RFC-0001 §4.2). */
export function createSources(settings: SourceSettings): Sources {
  const path = resolveEnvPath(settings);
  const { manifest } = settings;
  return {
    variables: async () => ({ ...(path === undefined ? {} : await readEnvPath(path)), ...readEnvironment() }),
    manifest: manifest === undefined ? undefined : () => readManifest(manifest),
  };
}

/** The text of a manifest whose `settings` are valid: the gateway itself reads its variables only. */
async function readManifest(path: string): Promise<string> {
  const text = await readTextFile(path, "--manifest");
  const { issues } = parseCommandManifest(text);
  if (issues.length > 0) throw new ConfigurationError(issues);
  return text;
}

/** Of a mounted ConfigMap, only `--watch-path` is told (REP-RFC-0001 §9.3). */
function resolveEnvPath(settings: SourceSettings): string | undefined {
  const isWatched = settings["hot-reload-mode"] === "file_watch";
  return settings["env-file"] ?? (isWatched ? settings["watch-path"] : undefined);
}

/** The paths whose change is a change of the variables. */
export function watchedPaths(settings: SourceSettings): string[] {
  const paths = settings["watch-path"] === undefined
    ? [settings["env-file"], settings.manifest]
    : [settings["watch-path"]];
  return paths.filter((path) => path !== undefined);
}

function readEnvPath(path: string): Promise<Environment> {
  return readable(path, "--env-file", () => readEnvFile(path));
}

/**
 * Reads a file that an option names.
 *
 * @throws {ConfigurationError} If it cannot be read.
 */
export function readTextFile(path: string, option: string): Promise<string> {
  return readable(path, option, () => Deno.readTextFile(path));
}

async function readable<T>(path: string, option: string, read: () => Promise<T>): Promise<T> {
  if (!isGranted({ name: "read", path })) {
    throw new ConfigurationError([`Cannot read ${option} "${path}": expected --allow-read=${path}`]);
  }
  try {
    return await read();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigurationError([`Cannot read ${option} "${path}": ${reason}`], { cause });
  }
}
