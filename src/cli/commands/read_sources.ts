import type { Environment } from "../../config/classify.ts";
import { ConfigurationError } from "../../config/snapshot.ts";
import { isGranted } from "../../values/permissions.ts";
import { DEFAULT_MANIFEST, findDefaultManifest, readEnvPath, readTextFile } from "../sources/sources.ts";
import type { CommandLine } from "./command_line.ts";

/** The sources of the variables, as a gateway would read them, except its store. */
export interface CommandSources {
  /** The text of the manifest, if there is one. */
  readonly manifest: string | undefined;
  readonly manifestPath: string | undefined;
  /** The variables of all sources. */
  readonly environment: Environment;
  /** Where each of them is set: the path of an env file, or `environment`. */
  readonly setIn: ReadonlyMap<string, string>;
  /** The files that cannot be read. */
  readonly issues: readonly string[];
  /** What is not read for want of a permission. */
  readonly warnings: readonly string[];
}

/** Returns the manifest of a command: by default the one in the current directory, if there is one. */
export async function findManifest({ manifest }: Pick<CommandLine, "manifest">): Promise<string | undefined> {
  return manifest ?? await findDefaultManifest();
}

/** Reads the sources of a command, and goes on if one of them cannot be read. */
export async function readSources(
  line: Pick<CommandLine, "manifest" | "env-file">,
  processEnvironment: Environment,
): Promise<CommandSources> {
  const issues: string[] = [];
  const manifestPath = await findManifest(line);
  const manifest = manifestPath && await orIssue(readTextFile(manifestPath, "--manifest"), issues);
  const files = await Promise.all(line["env-file"].map(async (path) => {
    return [path, await orIssue(readEnvPath(path, "--env-file"), issues) ?? {}] as const;
  }));
  const all = [...files, ["environment", processEnvironment] as const];
  return {
    manifest,
    manifestPath,
    environment: Object.fromEntries(all.flatMap(([, environment]) => Object.entries(environment))),
    setIn: new Map(all.flatMap(([source, environment]) => Object.keys(environment).map((name) => [name, source]))),
    issues,
    warnings: permissionWarnings(line),
  };
}

function permissionWarnings({ manifest }: Pick<CommandLine, "manifest">): string[] {
  const isManifestMissing = manifest === undefined && !isGranted({ name: "read", path: DEFAULT_MANIFEST });
  return [
    ...(isGranted({ name: "env" }) ? [] : ["without --allow-env, environment variables are not read"]),
    ...(isManifestMissing ? [`without --allow-read, ${DEFAULT_MANIFEST} is not read`] : []),
  ];
}

async function orIssue<T>(reading: Promise<T>, issues: string[]): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    issues.push(...error.issues);
    return undefined;
  }
}
