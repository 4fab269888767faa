import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { watchFiles } from "../config/mod.ts";
import { EnvSource } from "../config/files/env_source.ts";
import { parseManifest } from "../config/variables/manifest.ts";
import { classify, ConfigurationError } from "../config/variables/snapshot.ts";
import { messageOf } from "../observe/log.ts";
import { type Clock, systemClock } from "../values/clock.ts";
import { envNameOf, envPrefixes } from "./env_names.ts";
import { isVitest } from "./is_vitest.ts";
import {
  type ProjectPaths,
  type RepOptions,
  resolvePaths,
} from "./project_files.ts";
import type {
  ViteEnv,
  ViteParser,
  ViteRestart,
  ViteUserConfig,
} from "./vite.ts";

/** The plugin for `import.meta.env`, in the shape that Vite expects. */
export interface EnvPlugin {
  /** The name, for Vite's messages. */
  name: string;
  /** Modules are JavaScript then, whatever they were. */
  enforce: "post";
  /** A preview has no modules. */
  apply(config: unknown, env: { isPreview?: boolean | undefined }): boolean;
  /** Has builds read the variables from the plugin's module. */
  config(
    config: ViteUserConfig,
    env: { command: string },
  ): Promise<ViteEnvConfig>;
  /** Warns of variables that Vite has as well. */
  configResolved(config: ViteEnv): void;
  /** Restarts Vite if other variables are declared. */
  configureServer(server: ViteRestart): Promise<void>;
  /** Finds the plugin's module. */
  resolveId(id: string): string | undefined;
  /** Returns the plugin's module. */
  load(id: string): { code: string; moduleSideEffects: false } | undefined;
  /** Imports the plugin's module where `import.meta.env` is read. */
  transform(
    this: ViteParser,
    code: string,
    id: string,
  ): { code: string; map: null } | undefined;
  /** Rejects `%VITE_…%` of a declared variable. */
  transformIndexHtml: { order: "pre"; handler(html: string): void };
  /** Stops watching. */
  closeBundle(): void;
}

/** What the plugin adds to Vite's configuration. */
export interface ViteEnvConfig {
  /** What builds replace. */
  define: Record<string, string>;
  /** The client is found at the start, and not when the first page imports it. */
  optimizeDeps: { include: string[] };
  /** Builds of workers have plugins of their own. */
  worker: { plugins: () => EnvPlugin[] };
}

/** The plugin's module. The `\0` says that it is no file. */
const MODULE = "virtual:rep/env";
const MODULE_ID = `\0${MODULE}`;

/** What modules import it as: names that nobody else uses. */
const OBJECT = "__rep_import_meta_env__";
const FUNCTION = "__rep_add_to_import_meta_env__";

/** The line with the object that builds of Vite 6 and 7 replace `import.meta.env` by, and a property of it. */
const VITE_OBJECT = /\bconst __vite_import_meta_env__\w* = .*/;
const PROPERTY = new RegExp(`"(\\w+)": (${OBJECT}\\.\\1)\\b`, "g");

/**
 * Returns the plugin that lets modules read PUBLIC variables by `import.meta.env`.
 *
 * In a build, Vite's own `define` replaces each read, since it can tell code from text. In development, Vite gives each
 * module an object, which gets the variables as properties. Either way, a read calls `getAll()`, and the module imports what
 * it needs for that: so it works in whatever order modules run, and in frameworks without `index.html`.
 */
export function runtimeEnv(
  options: RepOptions,
  clock: Clock = systemClock,
): EnvPlugin {
  let paths: ProjectPaths;
  let envFiles: EnvSource;
  let isBuild: boolean;
  /** Vitest has its own `import.meta.env`, which tests set. */
  let isTest = false;
  let declared: readonly string[];
  let names: EnvNames = new Map();
  let watcher: Disposable | undefined;

  const plugin: EnvPlugin = {
    name: "rep:env",
    enforce: "post",
    apply(_config, { isPreview = false }) {
      return !isPreview;
    },
    async config({ root = "", ...config }, { command }) {
      paths = resolvePaths(options, resolve(root));
      isBuild = command === "build";
      envFiles = new EnvSource(paths.envFiles, clock);
      declared = await declaredNames(paths, envFiles).catch(rejectInBuild);
      names = envNamesOf(declared, envPrefixes(config));
      return {
        define: isBuild ? definitions(names) : {},
        optimizeDeps: { include: ["@rep/gateway/client"] },
        worker: { plugins: () => [plugin] },
      };
    },
    configResolved(config) {
      const { env, isWorker, logger } = config;
      isTest = isVitest(config);
      if (isWorker || isTest) return;
      if (names.size === 0) {
        logger.warn("[rep] import.meta.env: no PUBLIC variable is declared");
      }
      for (const [envName, name] of names) {
        if (env[envName] === undefined) continue;
        logger.warn(
          `[rep] import.meta.env.${envName} is ${name} of the gateway: the value that Vite has for it is ignored`,
        );
      }
    },
    async configureServer({ restart }) {
      if (isTest) return;
      watcher = await watchFiles(paths.read, async () => {
        const current = await declaredNames(paths, envFiles)
          .catch(() => declared); // the gateway reports the mistake
        if (current.join() !== declared.join()) await restart();
      }, { clock });
    },
    resolveId(id) {
      return id === MODULE ? MODULE_ID : undefined;
    },
    load(id) {
      if (id !== MODULE_ID) return;
      return { code: moduleOf(names), moduleSideEffects: false };
    },
    transform(code, id) {
      if (isTest || id === MODULE_ID || !readsEnv(code, this)) return;
      const added = isBuild
        ? `import { env as ${OBJECT} } from "${MODULE}";`
        : `import { addTo as ${FUNCTION} } from "${MODULE}";${FUNCTION}(import.meta.env);`;
      // All lines keep their numbers, and a hashbang its place.
      const [hashbang = ""] = /^#!.*\n/.exec(code) ?? [];
      const rest = withGetters(code.slice(hashbang.length));
      return { code: hashbang + added + rest, map: null };
    },
    transformIndexHtml: {
      order: "pre",
      handler: (html) => rejectPlaceholders(html, names),
    },
    closeBundle() {
      watcher?.[Symbol.dispose]();
    },
  };

  /** The servers report what is wrong with the files, and start without them. */
  function rejectInBuild(cause: unknown): string[] {
    if (!isBuild) return [];
    throw new Error(
      `Cannot build with "env: true": expected a manifest, or an env file, of which the build needs the names; ${
        messageOf(cause)
      }`,
      { cause },
    );
  }

  return plugin;
}

/** Others cannot be written after a dot, and `define` accepts nothing else. */
const IDENTIFIER = /^\w+$/;

/** The names of variables by those in `import.meta.env`. */
type EnvNames = ReadonlyMap<string, string>;

/** @throws {Error} If two variables have the same name in `import.meta.env`. */
function envNamesOf(
  names: readonly string[],
  prefixes: readonly string[],
): EnvNames {
  const found = new Map<string, string>();
  for (const name of names) {
    if (!IDENTIFIER.test(name)) continue;
    const envName = envNameOf(name, prefixes);
    const other = found.get(envName) ?? name;
    if (other !== name) {
      throw new Error(
        `Cannot have both ${other} and ${name} as import.meta.env.${envName}`,
      );
    }
    found.set(envName, name);
  }
  return found;
}

/**
 * Returns the names of the PUBLIC variables: of the manifest; without one, of the env files.
 *
 * @throws {Error} If a file cannot be read or is invalid.
 */
async function declaredNames(
  { manifest }: ProjectPaths,
  envFiles: EnvSource,
): Promise<string[]> {
  if (manifest !== undefined) {
    const text = await readFile(manifest, "utf8");
    const { variables, issues } = parseManifest(text, { path: manifest });
    if (issues.length > 0) throw new ConfigurationError(issues); // it may declare others
    const declared = [...variables].filter(([, { tier }]) => tier === "public");
    return declared.map(([name]) => name);
  }
  const { variables } = classify(await envFiles.read());
  const declared = variables.filter(({ tier }) => tier === "public");
  return declared.map(({ name }) => name);
}

/** Returns what a build replaces: reads by what the plugin's module exports. */
function definitions(names: EnvNames): Record<string, string> {
  const entries = [...names.keys()].map((name) =>
    [`import.meta.env.${name}`, `${OBJECT}.${name}`] as const
  );
  return Object.fromEntries(entries);
}

/** Returns the code of the plugin's module: an object with all variables, and a function that adds them to another. */
function moduleOf(names: EnvNames): string {
  const getters = [...names].map(([envName, name]) =>
    `  get ${envName}() { return read(${JSON.stringify(name)}); },\n`
  );
  return `import { getAll, meta, onAnyChange } from "@rep/gateway/client";

let isFirst = true;
function read(name) {
  if (isFirst) keepCurrent();
  isFirst = false;
  return getAll()[name];
}
function keepCurrent() {
  if (meta()?.hotReloadAvailable) onAnyChange(() => {});
  if (globalThis.importScripts) {
    console.warn("[REP] A worker has no configuration: its page has to send it what it reads from import.meta.env");
  }
}
export const env = {
${getters.join("")}};
export function addTo(object) {
  Object.defineProperties(object, Object.getOwnPropertyDescriptors(env));
}
`;
}

/** Returns whether a module reads `import.meta.env`, or did so before a build of Vite 6 or 7 replaced that. */
function readsEnv(code: string, parser: ViteParser): boolean {
  if (code.includes(OBJECT)) return true;
  return code.includes("import.meta.env") && hasImportMeta(parser.parse(code));
}

/** Text in a comment or in a string is no read: an import there could turn a CommonJS module into another kind. */
function hasImportMeta(node: unknown): boolean {
  if (typeof node !== "object" || node === null) return false;
  if ((node as { type?: unknown }).type === "MetaProperty") return true;
  return Object.values(node).some(hasImportMeta);
}

/**
 * Has `import.meta.env` as an object, which builds of Vite 6 and 7 create once for each module, read its properties when
 * they are read. Those of Vite 8 create it at each read. An object of the module's own stays as it is.
 */
function withGetters(code: string): string {
  return code.replace(
    VITE_OBJECT,
    (line) => line.replaceAll(PROPERTY, "get $1() { return $2 }"),
  );
}

/** @throws {Error} If a page has the value of a variable in its HTML, which a build would have to know. */
function rejectPlaceholders(html: string, names: EnvNames): void {
  for (const name of names.keys()) {
    if (!html.includes(`%${name}%`)) continue;
    throw new Error(
      `Cannot replace %${name}% in HTML: its value is known at run time only; expected a script that reads import.meta.env.${name}`,
    );
  }
}
