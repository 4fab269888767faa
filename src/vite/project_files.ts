import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import process from "node:process";
import {
  optionsOf,
  parseCommandManifest,
} from "../command/options/manifest_settings.ts";
import { EnvSource } from "../files/env_source.ts";
import { type EnvPath, readEnvironment } from "../files/read_environment.ts";
import {
  FROM_ENV_FILES,
  FROM_MANIFEST,
  generateTypes,
} from "../client/generate_types.ts";
import { describeFinding } from "../core/config/variables/finding.ts";
import { type Manifest, nameAt } from "../core/config/variables/manifest.ts";
import {
  classify,
  ConfigurationError,
} from "../core/config/variables/snapshot.ts";
import { withoutServiceLinks } from "../core/config/variables/service_links.ts";
import {
  type Environment,
  isRepName,
  TIER_PREFIX,
} from "../core/config/variables/tiers.ts";
import { type LogFields, messageOf } from "../core/observe/log.ts";
import { type Clock, systemClock } from "../core/values/clock.ts";
import { didYouMean } from "../core/values/did_you_mean.ts";
import { envPathsOf, type RepEnvFile } from "./env_files.ts";
import { envNameOf, envPrefixes } from "./env_names.ts";
import type { ViteConfig } from "./vite.ts";

/** Options of {@linkcode rep}. Paths are relative to the root of the project. */
export interface RepOptions {
  /** The manifest, such as `.rep.yaml`. @default {none} */
  manifest?: string | undefined;
  /** One or more env files. The last one takes precedence. @default {none} */
  envFile?: string | RepEnvFile | readonly (string | RepEnvFile)[];
  /**
   * The file to which the types of the variables are written, if it was generated; `false` writes none.
   *
   * @default {"src/rep.d.ts"; without that folder "app/rep.d.ts", or "./rep.d.ts"}
   */
  types?: string | false;
  /**
   * PUBLIC variables that are no secrets, although they look like it, as in `--accept-public`.
   *
   * @default {the setting of the manifest}
   */
  acceptPublic?: readonly string[] | undefined;
  /** Whether to stop a build that contains a secret, or a copy of a file that the plugin reads. @default {true} */
  lint?: boolean;
  /**
   * Whether `import.meta.env` contains the PUBLIC variables, read at run time: `TITLE` is `import.meta.env.VITE_TITLE`.
   *
   * @default {false}
   */
  env?: boolean;
}

const OPTION_NAMES: readonly string[] = [
  "manifest",
  "envFile",
  "types",
  "acceptPublic",
  "lint",
  "env",
] satisfies (keyof RepOptions)[];

/** @throws {TypeError} If an option has an unknown name, and so would be ignored. */
export function checkOptionNames(options: RepOptions): void {
  const unknown = Object.keys(options)
    .find((name) => !OPTION_NAMES.includes(name));
  if (unknown === undefined) return;
  const hint = didYouMean(unknown, OPTION_NAMES);
  throw new TypeError(
    `Cannot use the option "${unknown}" of rep(): expected one of ${
      OPTION_NAMES.join(", ")
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
  const envFiles = envPathsOf(envFile, root);
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
  readonly #source: EnvSource;
  #manifest: Manifest | undefined;
  #sensitive = "";

  constructor(
    paths: ProjectPaths,
    config: ViteConfig,
    clock: Clock = systemClock,
  ) {
    this.#paths = paths;
    this.#config = config;
    this.#source = new EnvSource(paths.envFiles, clock);
  }

  get manifest(): Manifest | undefined {
    return this.#manifest;
  }

  /** The settings of the manifest, and the defaults of the others. */
  get settings() {
    return optionsOf(this.#manifest);
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
    const variables = await this.#source.readOverridden();
    const classified = classify(variables).variables;
    const sensitive = classified.filter(({ tier }) => tier === "sensitive");
    this.#sensitive = JSON.stringify(sensitive);
    this.#hintAtEnvNames();
    if (classified.length === 0) this.#hintAtPrefixes();
    return variables;
  }

  /**
   * Reads the manifest, and writes the types of its variables.
   *
   * @throws {ConfigurationError} If it cannot be read or is invalid.
   */
  async readManifest(): Promise<void> {
    const { manifest: path, types } = this.#paths;
    if (path === undefined) return;
    const manifest = await this.#parseManifest(path);
    if (types === undefined) return;
    await this.#writeTypes(manifest.variables, types, FROM_MANIFEST);
  }

  /**
   * Without a manifest, writes types with the names in the env files as they were last read. In CI, nobody would commit
   * them.
   */
  async writeEnvTypes(): Promise<void> {
    const { manifest, types } = this.#paths;
    if (manifest !== undefined || types === undefined) return;
    if (process.env["CI"]) return;
    const variables = this.#source.files
      .flatMap((file) => classify(file.variables).variables)
      .sort((a, b) => a.name < b.name ? -1 : 1);
    if (variables.length === 0) return;
    const declared = new Map(
      variables.map(({ name, tier }) => [name, { tier }]),
    );
    await this.#writeTypes(declared, types, FROM_ENV_FILES);
  }

  async #parseManifest(path: string): Promise<Manifest> {
    const text = await readFile(path, "utf8").catch((cause) => {
      throw new Error(`Cannot read manifest: ${messageOf(cause)}`, { cause });
    });
    const name = relative(this.#config.root, path);
    const manifest = parseCommandManifest(text, name);
    this.#manifest = manifest; // also an invalid one, which says in which line an issue is
    if (manifest.issues.length === 0) return manifest;
    throw new ConfigurationError(manifest.issues);
  }

  /**
   * Writes the types only if they differ: Vite would reload the page, and an editor check the whole project. It replaces
   * only what was generated, and types from a manifest only by such.
   */
  async #writeTypes(
    variables: Parameters<typeof generateTypes>[0],
    path: string,
    origin: string,
  ): Promise<void> {
    const prefixes = envPrefixes(this.#config);
    const envName = (name: string) => envNameOf(name, prefixes);
    const { hasEnv } = this.#paths;
    const text = generateTypes(variables, origin, hasEnv ? envName : undefined);
    const written = await readFile(path, "utf8").catch(() => undefined);
    if (text === written) return;
    const { root, logger } = this.#config;
    const name = relative(root, path);
    const isReplaceable = [origin, FROM_ENV_FILES]
      .some((line) => written?.startsWith(line) !== false);
    if (!isReplaceable) {
      if (origin === FROM_ENV_FILES) return; // typegen may have written it, or the user
      const expected = "expected to remove it, or another path as types";
      this.#hint(`Cannot write ${name}: it was not generated; ${expected}`);
      return;
    }
    try {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, text);
      logger.info(`[rep] wrote ${name}`, { timestamp: true });
    } catch (error) {
      this.#hint(`Cannot write ${name}: ${messageOf(error)}`);
    }
  }

  /** Describes what is wrong with the files, with the place of each variable. */
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
    return this.#locate(describeFinding(event, name, detail, this.#manifest));
  }

  /** Puts the place of the first variable with one in front of a text. Terminals and editors open it at a click. */
  #locate(text: string): string {
    const names = text.match(/\bREP_[\w.-]+/g) ?? [];
    const places = names.map((name) => this.#placeOf(name));
    const place = places.find((place) => place !== undefined);
    return place === undefined ? text : `${place}: ${text}`;
  }

  /** Returns where a variable is set; `undefined` if that is the environment of the process, or nowhere. */
  #placeOf(key: string): string | undefined {
    const environment = withoutServiceLinks(readEnvironment());
    if (environment[key] !== undefined) return undefined;
    const place = this.#source.placeOf(key);
    if (place === undefined) return this.#placeOfDefault(key);
    const { path, line } = place;
    return line === undefined ? path : `${path}:${line}`;
  }

  #placeOfDefault(key: string): string | undefined {
    const [, , name = ""] = TIER_PREFIX.exec(key) ?? [];
    const manifest = this.#manifest;
    if (manifest?.variables.get(name)?.default === undefined) return undefined;
    return nameAt(name, manifest);
  }

  /** Warns of names in the env files that Vite would read, but not the gateway. */
  #hintAtEnvNames(): void {
    const prefixes = envPrefixes(this.#config);
    for (const { path, lines } of this.#source.files) {
      for (const [name, line] of lines) {
        const prefix = prefixes.find((it) => name.startsWith(it));
        if (prefix === undefined || isRepName(name)) continue;
        const expected = `REP_PUBLIC_${name.slice(prefix.length)}`;
        this.#hint(
          `${path}:${line}: ${name} is ignored: expected ${expected}`,
        );
      }
    }
  }

  /** Warns that nothing, not even the manifest, sets a variable: the names may lack their prefixes. */
  #hintAtPrefixes(): void {
    const declared = this.#manifest?.variables.values() ?? [];
    if ([...declared].some((it) => it.default !== undefined)) return;
    this.#hint(
      "there are no variables: expected names that begin with REP_PUBLIC_, REP_SENSITIVE_ or REP_SERVER_, in the file that envFile names, or in the environment",
    );
  }

  /** Prints a warning, once. */
  #hint(text: string): void {
    this.#config.logger.warnOnce(`[rep] ${text}`, { timestamp: true });
  }
}
