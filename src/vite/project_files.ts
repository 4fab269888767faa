import { readFile, writeFile } from "node:fs/promises";
import { relative, resolve } from "node:path";
import {
  readEnvFiles,
  readEnvironment,
} from "../config/files/read_environment.ts";
import { generateTypes } from "../config/variables/generate_types.ts";
import { type Manifest, parseManifest } from "../config/variables/manifest.ts";
import { classify, ConfigurationError } from "../config/variables/snapshot.ts";
import type { Environment } from "../config/variables/tiers.ts";
import { messageOf } from "../observe/log.ts";
import type { ViteConfig } from "./vite.ts";

/** Options of {@linkcode rep}. Paths are relative to the root of the project. */
export interface RepOptions {
  /** The manifest, such as `.rep.yaml`. @default {none} */
  manifest?: string;
  /** The env file, or several of them, of which the last takes precedence. @default {none} */
  envFile?: string | readonly string[];
  /** Where the types of the variables are written, if there is a manifest; `false` writes none. @default {"src/rep.d.ts"} */
  types?: string | false;
  /** Whether a build fails that contains a secret, or a copy of a file that the plugin reads. @default {true} */
  lint?: boolean;
}

/** The absolute paths of a project's files. */
export interface ProjectPaths {
  readonly manifest: string | undefined;
  /** The last one takes precedence. */
  readonly envFiles: readonly string[];
  /** Where the types are written. */
  readonly types: string | undefined;
  /** All that the plugin reads. */
  readonly read: readonly string[];
}

/** Returns the paths that a user has set, below the root of the project. */
export function resolvePaths(
  options: RepOptions,
  root: string,
): ProjectPaths {
  const { envFile = [], types = "src/rep.d.ts" } = options;
  const envFiles = [envFile].flat().map((path) => resolve(root, path));
  const manifest = options.manifest && resolve(root, options.manifest);
  return {
    manifest,
    envFiles,
    types: types === false ? undefined : resolve(root, types),
    read: manifest ? [...envFiles, manifest] : envFiles,
  };
}

/** The variables and the manifest of a project, as last read. */
export class ProjectFiles {
  readonly #paths: ProjectPaths;
  readonly #config: ViteConfig;
  /** Where each variable is set: the path and the line; nothing for one of the process's environment. */
  readonly #places = new Map<string, string>();
  #manifest: Manifest | undefined;
  #sensitive = "";

  constructor(paths: ProjectPaths, config: ViteConfig) {
    this.#paths = paths;
    this.#config = config;
  }

  get manifest(): Manifest | undefined {
    return this.#manifest;
  }

  /** The SENSITIVE variables as text, to be compared with what open pages have. */
  get sensitive(): string {
    return this.#sensitive;
  }

  /**
   * Reads the env files; the environment of the process takes precedence over all of them.
   *
   * @throws {ConfigurationError} If a file cannot be read or is invalid: with its path and the line of each issue.
   */
  async readVariables(): Promise<Environment> {
    const { envFiles } = this.#paths;
    const variables: Record<string, string> = {};
    this.#places.clear();
    for (const [index, file] of (await readEnvFiles(envFiles)).entries()) {
      Object.assign(variables, file.variables);
      for (const [name, line] of file.lines) {
        this.#places.set(name, `${envFiles[index]}:${line}`);
      }
    }
    const environment = readEnvironment();
    Object.assign(variables, environment);
    for (const name of Object.keys(environment)) this.#places.delete(name);
    const classified = classify(variables).variables;
    const sensitive = classified.filter(({ tier }) => tier === "sensitive");
    this.#sensitive = JSON.stringify(sensitive);
    return variables;
  }

  /** Reads the manifest, and writes the types of its variables. */
  async readManifest(): Promise<void> {
    const { manifest: path, types } = this.#paths;
    if (path === undefined) return;
    const text = await readManifestFile(path);
    const name = relative(this.#config.root, path);
    this.#manifest = parseManifest(text, { path: name });
    if (types !== undefined) await this.#writeTypes(this.#manifest, types);
  }

  /** Writes the types only if they differ: Vite would reload the page, and an editor check the whole project. */
  async #writeTypes(manifest: Manifest, path: string): Promise<void> {
    const { issues, variables } = manifest;
    if (issues.length > 0) throw new ConfigurationError(issues);
    const text = generateTypes(variables);
    const written = await readFile(path, "utf8").catch(() => undefined);
    if (text === written) return;
    await writeFile(path, text);
    const { root, logger } = this.#config;
    const name = relative(root, path);
    logger.info(`[rep] wrote ${name}`, { timestamp: true });
  }

  /** Says what is wrong with the files, and where, so that terminals and editors open it at a click. */
  describe(error: unknown): string {
    if (!(error instanceof ConfigurationError)) return messageOf(error);
    const lines = error.issues.map((issue) => this.#locate(issue));
    return lines.join("\n");
  }

  #locate(issue: string): string {
    const [, name = ""] = /^Cannot use (REP_\w+)/.exec(issue) ?? [];
    const place = this.#places.get(name);
    if (place !== undefined) return `${place}: ${issue}`;
    return issue.replace(/^"(.*?)":/, "$1:"); // a path in quotes cannot be clicked
  }
}

async function readManifestFile(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as { code?: string }).code !== "ENOENT") throw error;
    throw new Error(`${path}: expected the manifest, or no option "manifest"`);
  }
}
