import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { parseCommandManifest } from "../command/options/manifest_settings.ts";
import { EnvSource, readTwice } from "../core/config/files/env_source.ts";
import {
  type EnvPath,
  isMissing,
  readEnvironment,
} from "../core/config/files/read_environment.ts";
import { generateTypes } from "../core/config/variables/generate_types.ts";
import { type Manifest, nameAt } from "../core/config/variables/manifest.ts";
import {
  classify,
  ConfigurationError,
} from "../core/config/variables/snapshot.ts";
import {
  type Environment,
  environmentName,
  hasTier,
  isRepName,
  TIER_PREFIX,
} from "../core/config/variables/tiers.ts";
import { type LogFields, messageOf } from "../core/observe/log.ts";
import { type Clock, systemClock } from "../core/values/clock.ts";
import { didYouMean } from "../core/values/did_you_mean.ts";
import { envNameOf, envPrefixes } from "./env_names.ts";
import type { ViteConfig } from "./vite.ts";

/** Options of {@linkcode rep}. Paths are relative to the root of the project. */
export interface RepOptions {
  /** The manifest, such as `.rep.yaml`. @default {none} */
  manifest?: string;
  /** One or more env files. The last one takes precedence. @default {none} */
  envFile?: string | RepEnvFile | readonly (string | RepEnvFile)[];
  /**
   * The file to which the types of the variables in the manifest are written; `false` writes none.
   *
   * @default {"src/rep.d.ts"; without that folder "app/rep.d.ts", or "./rep.d.ts"}
   */
  types?: string | false;
  /**
   * PUBLIC variables that are no secrets, although they look like it, as in `--accept-public`.
   *
   * @default {the setting of the manifest}
   */
  acceptPublic?: readonly string[];
  /** Whether to stop a build that contains a secret, or a copy of a file that the plugin reads. @default {true} */
  lint?: boolean;
  /**
   * Whether `import.meta.env` contains the PUBLIC variables, read at run time: `TITLE` is `import.meta.env.VITE_TITLE`.
   *
   * @default {false}
   */
  env?: boolean;
}

/** An env file that may be missing, as in `env_file` of Docker Compose. */
export interface RepEnvFile {
  /** The path. */
  path: string;
  /** Whether the file has to exist. @default {true} */
  required?: boolean;
}

const OPTION_NAMES: Readonly<Record<keyof RepOptions, true>> = {
  manifest: true,
  envFile: true,
  types: true,
  acceptPublic: true,
  lint: true,
  env: true,
};

const ENV_FILE_NAMES: Readonly<Record<keyof RepEnvFile, true>> = {
  path: true,
  required: true,
};

/** @throws {TypeError} If an option has an unknown name, and so would be ignored. */
export function checkOptionNames(options: RepOptions): void {
  checkNames(options, OPTION_NAMES, "rep()");
  for (const file of [options.envFile ?? []].flat()) {
    if (typeof file !== "string") checkNames(file, ENV_FILE_NAMES, "envFile");
  }
}

function checkNames(options: object, names: object, owner: string): void {
  const known = Object.keys(names);
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const hint = didYouMean(unknown, known);
  throw new TypeError(
    `Cannot use the option "${unknown}" of ${owner}: expected one of ${
      known.join(", ")
    }${hint}`,
  );
}

/** The absolute paths of a project's files. */
export interface ProjectPaths {
  readonly manifest: string | undefined;
  /** The last one takes precedence. */
  readonly envFiles: readonly EnvPath[];
  /** Where the types are written; `undefined` if they are not. */
  readonly types: string | undefined;
  /** Whether to write types for `import.meta.env`, too. */
  readonly hasEnv: boolean;
  /** All files that the plugin reads. */
  readonly read: readonly string[];
}

/** Returns the absolute paths of the files that the options name. */
export function resolvePaths(
  options: RepOptions,
  root: string,
): ProjectPaths {
  const { envFile = [], types = defaultTypes(root) } = options;
  const envFiles = [envFile].flat().map((file) => {
    const { path, required = true } = typeof file === "string"
      ? { path: file }
      : file as RepEnvFile;
    return { path: resolve(root, path), required };
  });
  const manifest = options.manifest && resolve(root, options.manifest);
  const paths = envFiles.map(({ path }) => path);
  return {
    manifest,
    envFiles,
    types: types === false ? undefined : resolve(root, types),
    hasEnv: options.env === true,
    read: manifest ? [...paths, manifest] : paths,
  };
}

/** The folders for the code of a project. React Router and Nuxt use `app/`. */
const CODE_FOLDERS = ["src", "app"];

function defaultTypes(root: string): string {
  const folder = CODE_FOLDERS.find((name) => existsSync(join(root, name)));
  return `${folder ?? "."}/rep.d.ts`;
}

/** The variables and the manifest of a project, as they were last read. */
export class ProjectFiles {
  readonly #paths: ProjectPaths;
  readonly #config: ViteConfig;
  readonly #clock: Clock;
  readonly #source: EnvSource;
  /** The variables from the environment of the process. */
  #environment: Environment = {};
  #manifest: Manifest | undefined;
  #sensitive = "";
  /** The warnings that were printed. Each is printed once. */
  readonly #hints = new Set<string>();

  constructor(
    paths: ProjectPaths,
    config: ViteConfig,
    clock: Clock = systemClock,
  ) {
    this.#paths = paths;
    this.#config = config;
    this.#clock = clock;
    this.#source = new EnvSource(paths.envFiles, clock);
    this.#hintAtRestarts();
  }

  get manifest(): Manifest | undefined {
    return this.#manifest;
  }

  /** The SENSITIVE variables as text, for the comparison with those of open pages. */
  get sensitive(): string {
    return this.#sensitive;
  }

  /**
   * Reads the env files, and the environment of the process, which takes precedence over them.
   *
   * @throws {ConfigurationError} If a file cannot be read or is invalid. Each issue names the file and the line.
   */
  async readVariables(): Promise<Environment> {
    const files = await this.#readEnvFiles();
    this.#environment = readEnvironment();
    const variables = { ...files, ...this.#environment };
    const classified = classify(variables).variables;
    const sensitive = classified.filter(({ tier }) => tier === "sensitive");
    this.#sensitive = JSON.stringify(sensitive);
    this.#hintAtPrefixes(classified.length > 0);
    return variables;
  }

  async #readEnvFiles(): Promise<Environment> {
    try {
      return await this.#source.read();
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
      const issues = error.issues.map((issue) => this.#nameExample(issue));
      throw new ConfigurationError(issues);
    }
  }

  /** Adds to the issue of a missing env file how to create the file. */
  #nameExample(issue: string): string {
    const { envFiles } = this.#paths;
    const missing = envFiles.find(({ path }) =>
      issue.startsWith(`"${path}": `) && !existsSync(path)
    );
    if (missing === undefined) return issue;
    const example = `${missing.path}.example`;
    const remedy = existsSync(example)
      ? `a copy of ${basename(example)}`
      : "one";
    return `"${missing.path}": expected the env file: make ${remedy}, or set required: false`;
  }

  /**
   * Reads the manifest, and writes the types of its variables.
   *
   * @throws {ConfigurationError} If it cannot be read or is invalid.
   */
  async readManifest(): Promise<void> {
    const { manifest: path, types } = this.#paths;
    if (path === undefined) return;
    const read = () => this.#parseManifest(path);
    const wasValid = this.#manifest?.issues.length === 0;
    const manifest = wasValid
      ? await readTwice(read, this.#clock)
      : await read();
    if (types !== undefined) await this.#writeTypes(manifest, types);
  }

  async #parseManifest(path: string): Promise<Manifest> {
    const text = await readManifestFile(path);
    const name = relative(this.#config.root, path);
    const manifest = parseCommandManifest(text, name);
    this.#manifest = manifest; // also an invalid one, which says in which line an issue is
    if (manifest.issues.length === 0) return manifest;
    throw new ConfigurationError(manifest.issues);
  }

  /** Writes the types only if they differ: Vite would reload the page, and an editor check the whole project. */
  async #writeTypes({ variables }: Manifest, path: string): Promise<void> {
    const prefixes = envPrefixes(this.#config);
    const envName = (name: string) => envNameOf(name, prefixes);
    const { hasEnv } = this.#paths;
    const text = generateTypes(variables, hasEnv ? envName : undefined);
    const written = await readFile(path, "utf8").catch(() => undefined);
    if (text === written) return;
    const { root, logger } = this.#config;
    const name = relative(root, path);
    try {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, text);
      logger.info(`[rep] wrote ${name}`, { timestamp: true });
    } catch (error) {
      this.#hint(`Cannot write ${name}: ${messageOf(error)}`);
    }
  }

  /** Describes what is wrong with the files. Each line begins with a place that terminals and editors open at a click. */
  describe(error: unknown): string {
    if (!(error instanceof ConfigurationError)) return messageOf(error);
    const lines = error.issues.map((issue) => this.#locate(issue));
    return lines.join("\n");
  }

  /** Describes an event of the gateway's log about a variable in the same way. */
  describeFinding(
    event: string,
    name: string,
    detail: LogFields[string],
  ): string {
    const { tier = "public" } = this.#manifest?.variables.get(name) ?? {};
    const key = isRepName(name) ? name : environmentName({ name, tier });
    const isDeprecated = event === "rep.config.deprecated";
    const finding = [isDeprecated ? `${key} is deprecated` : key, detail];
    return this.#locate(
      finding.filter((part) => part !== undefined).join(": "),
    );
  }

  /** Puts the file and the line in front of a text about a variable or a file. */
  #locate(text: string): string {
    const [, path] = /^"(.*?)":/.exec(text) ?? [];
    if (path !== undefined) return `${path}${text.slice(path.length + 2)}`; // nobody can click a path in quotes
    const names = text.match(/\bREP_[\w.-]+/g) ?? [];
    for (const name of names) {
      const place = this.#placeOf(name);
      if (place !== undefined) return `${place}: ${text}`;
    }
    const place = this.#placeInManifest(text, names);
    if (place === undefined) return text;
    const reason = text.replace(` "${place}"`, "")
      .replace(/^Cannot use the manifest: /, "");
    return `${resolve(this.#config.root, place)}: ${reason}`;
  }

  /** Returns the place in the manifest that a text names, or where the manifest sets the default of a named variable. */
  #placeInManifest(
    text: string,
    names: readonly string[],
  ): string | undefined {
    const manifest = this.#manifest;
    let place = text;
    for (const key of names) {
      const [, , name = ""] = TIER_PREFIX.exec(key) ?? [];
      const isSet = this.#environment[key] !== undefined;
      const hasDefault = manifest?.variables.get(name)?.default !== undefined;
      if (isSet || !hasDefault) continue;
      place = nameAt(`variables.${name}.default`, manifest);
    }
    return /the manifest "(.*?)"/.exec(place)?.[1];
  }

  /** Returns where an env file sets a variable; `undefined` if the environment of the process overrides it. */
  #placeOf(name: string): string | undefined {
    if (this.#environment[name] !== undefined) return undefined;
    const place = this.#source.placeOf(name);
    if (place === undefined) return undefined;
    const { path, line } = place;
    return line === undefined ? path : `${path}:${line}`;
  }

  /** Warns of an env file that Vite reads as well. The names are those of Vite's `getEnvFilesForMode()`. */
  #hintAtRestarts(): void {
    const { root, envDir = root, mode } = this.#config;
    if (envDir === false) return;
    const names = [".env", ".env.local", `.env.${mode}`, `.env.${mode}.local`];
    const own = names.map((name) => resolve(root, envDir, name));
    for (const { path } of this.#paths.envFiles) {
      if (!own.includes(path)) continue;
      this.#hint(
        `Vite restarts whenever its own env file ${
          relative(root, path)
        } is saved, and pages lose their state: expected another name, such as app.env`,
      );
    }
  }

  /**
   * Warns if an env file, or the whole configuration, contains no variable: the names may lack their prefixes.
   *
   * @param hasVariables Whether the env files or the environment contain any variable.
   */
  #hintAtPrefixes(hasVariables: boolean): void {
    const { envFiles } = this.#paths;
    const expected =
      "expected names that begin with REP_PUBLIC_, REP_SENSITIVE_ or REP_SERVER_";
    for (const [index, { lines, variables }] of this.#source.files.entries()) {
      if (lines.size === 0 || Object.keys(variables).some(hasTier)) continue;
      this.#hint(`${envFiles[index]?.path} contains no variables: ${expected}`);
      return;
    }
    const defaults = this.#manifest?.variables.values() ?? [];
    const hasDefault = [...defaults].some((it) => it.default !== undefined);
    if (hasVariables || hasDefault) return;
    this.#hint(
      `there are no variables: ${expected}, in the file that envFile names, or in the environment`,
    );
  }

  /** Prints a warning, once. */
  #hint(text: string): void {
    if (this.#hints.has(text)) return;
    this.#hints.add(text);
    this.#config.logger.warn(`[rep] ${text}`, { timestamp: true });
  }
}

async function readManifestFile(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (!isMissing(error)) throw error;
    throw new Error(`${path}: expected the manifest, or no option "manifest"`);
  }
}
