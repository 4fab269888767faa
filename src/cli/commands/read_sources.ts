import type { Environment } from "../../config/variables/tiers.ts";
import {
  ConfigurationError,
  NO_MANIFEST,
} from "../../config/variables/snapshot.ts";
import { isGranted } from "../../values/runtime.ts";
import { parseCommandManifest } from "../options/manifest_settings.ts";
import {
  environmentWarnings,
  readOptions,
  UsageError,
} from "../options/read_options.ts";
import {
  DEFAULT_MANIFEST,
  findDefaultManifest,
  readEnvPath,
  readTextFile,
} from "../sources/sources.ts";
import type { CommandArguments } from "./command_line.ts";

/** What {@linkcode readSources} returns. */
export type CommandSources = Awaited<ReturnType<typeof readSources>>;

/**
 * Reads the sources of the variables as a gateway would, except its store, and goes on if one of them cannot be read or
 * is invalid.
 */
export async function readSources(
  line: CommandArguments,
  processEnvironment: Environment,
) {
  const issues: string[] = [];
  const manifestPath = line.manifest ?? await findDefaultManifest();
  const text = manifestPath &&
    await orIssues(() => readTextFile(manifestPath, "--manifest"), issues);
  const files = await Promise.all(line["env-file"].map(async (path) => {
    return [
      path,
      await orIssues(() => readEnvPath(path, "--env-file"), issues) ?? {},
    ] as const;
  }));
  const manifest = text === undefined
    ? NO_MANIFEST
    : parseCommandManifest(text, manifestPath);
  issues.push(...manifest.issues);
  const flags = new Map(line.strict ? [["strict", "true"]] : []);
  const sources = {
    flags,
    environment: processEnvironment,
    manifest: manifest.settings,
  };
  const options = await orIssues(() => readOptions(sources), issues);
  const all = [...files, ["environment", processEnvironment] as const];
  const environment = Object.fromEntries(
    all.flatMap(([, environment]) => Object.entries(environment)),
  );
  return {
    /** The valid parts of the manifest; `NO_MANIFEST` if there is none. */
    manifest,
    /** The variables of all sources. */
    environment,
    /** Where each of them is set: the path of an env file, or `environment`. */
    setIn: new Map(
      all.flatMap(([source, environment]) =>
        Object.keys(environment).map((name) => [name, source])
      ),
    ),
    strict: options?.strict ?? false,
    /** What cannot be read or is invalid. */
    issues,
    /** What is not read. */
    warnings: [...environmentWarnings(environment), ...manifestWarnings(line)],
  };
}

function manifestWarnings({ manifest }: CommandArguments): string[] {
  if (
    manifest !== undefined ||
    isGranted({ name: "read", path: DEFAULT_MANIFEST })
  ) return [];
  return [`without --allow-read, ${DEFAULT_MANIFEST} is not read`];
}

/** Returns `undefined` and adds the issues to a list if the configuration or an option is invalid. */
export async function orIssues<T>(
  read: () => T | Promise<T>,
  issues: string[],
): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof ConfigurationError) issues.push(...error.issues);
    else if (error instanceof UsageError) {
      issues.push(...error.message.split("\n"));
    } else throw error;
    return undefined;
  }
}
