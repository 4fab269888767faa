import { resolve } from "node:path";
import { EnvSource } from "../files/env_source.ts";
import { classify } from "../core/config/variables/snapshot.ts";
import { messageOf } from "../core/observe/log.ts";
import { type Clock, systemClock } from "../core/values/clock.ts";
import { readDeclared } from "./declared_variables.ts";
import { envNameOf, envPrefixes } from "./env_names.ts";
import { isVitest } from "./vitest.ts";
import {
  type ProjectPaths,
  type RepOptions,
  resolvePaths,
} from "./project_files.ts";
import type {
  ViteConfig,
  ViteDevServer,
  ViteParser,
  ViteUserConfig,
} from "./vite.ts";

/** The plugin's module. The `\0` tells other plugins that it is not a file. */
const MODULE = "virtual:rep/env";
const MODULE_ID = `\0${MODULE}`;

/** The names under which other modules import its exports. No other code uses these names. */
const OBJECT = "__rep_import_meta_env__";
const FUNCTION = "__rep_add_to_import_meta_env__";

/** The object by which builds of Vite 6 and 7 replace `import.meta.env`, on a line of its own. */
const VITE_OBJECT = /(\bconst __vite_import_meta_env__\w* = )(\{.*\})/;

/**
 * Returns the plugin that makes PUBLIC variables available in `import.meta.env`.
 *
 * In a build, Vite's own `define` replaces each read, because it distinguishes code from text. In development, Vite
 * creates an `import.meta.env` for each module, and the plugin adds the variables to it as properties. In both cases a
 * read calls `getAll()`, which the module imports itself. So it works in whatever order modules run, and in frameworks
 * without `index.html`.
 */
export function runtimeEnv(
  options: RepOptions,
  clock: Clock = systemClock,
) {
  let paths: ProjectPaths;
  let envFiles: EnvSource;
  let isBuild: boolean;
  /** Vitest has its own `import.meta.env`, which tests can set. */
  let isTest = false;
  let declared: readonly string[];
  let names: EnvNames = new Map();
  let restart: ViteDevServer["restart"] | undefined;

  const plugin = {
    name: "rep:env",
    /** After the other plugins, when every module is JavaScript. */
    enforce: "post",
    /** Not for a preview, which has no modules. */
    apply(_config: unknown, { isPreview = false }) {
      return !isPreview;
    },
    /** Makes builds read the variables from the plugin's module. */
    async config(
      { root = "", ...config }: ViteUserConfig,
      { command }: { command: string },
    ) {
      paths = resolvePaths(options, resolve(root));
      isBuild = command === "build";
      envFiles = new EnvSource(paths.envFiles, clock);
      declared = await declaredNames(paths, envFiles).catch(rejectInBuild);
      names = envNamesOf(declared, envPrefixes(config));
      return {
        define: isBuild ? definitions(names) : {},
        // So Vite finds the client at its start, and not when the first page imports it.
        optimizeDeps: { include: ["@rep/gateway/client"] },
        // Vite configures the builds of workers separately.
        worker: { plugins: (): object[] => [plugin] },
      };
    },
    /** Warns of variables that Vite also defines. */
    configResolved(config: ViteConfig) {
      const { env, isWorker, logger } = config;
      isTest = isVitest(config);
      if (isWorker || isTest) return;
      if (names.size === 0) {
        logger.warn("[rep] import.meta.env: no PUBLIC variable is declared");
      }
      const ignored = [...names.keys()].filter((it) => env[it] !== undefined);
      if (ignored.length === 0) return;
      logger.warn(
        `[rep] import.meta.env has the gateway's values; Vite's own are ignored: ${
          ignored.join(", ")
        }`,
      );
    },
    configureServer(server: ViteDevServer) {
      restart = server.restart;
    },
    /** What the gateway's plugin calls. */
    api: {
      /**
       * Begins to restart Vite's development server if other variables are declared, and returns whether it does. The files
       * have to be valid: the gateway ends with the server, and its last valid configuration with it.
       */
      async restartIfOutdated() {
        if (restart === undefined) return false;
        const current = await declaredNames(paths, envFiles)
          .catch(() => declared); // the gateway reports the mistake
        const isOutdated = current.join() !== declared.join();
        if (isOutdated) void restart(); // it waits for the gateway, which must not wait for it
        return isOutdated;
      },
    },
    resolveId(id: string) {
      return id === MODULE ? MODULE_ID : undefined;
    },
    load(id: string) {
      if (id !== MODULE_ID) return;
      return { code: moduleOf(names), moduleSideEffects: false };
    },
    /** Imports the plugin's module where `import.meta.env` is read. */
    transform(this: ViteParser, code: string, id: string) {
      if (isTest || id === MODULE_ID || !readsEnv(code, this)) return;
      const imported =
        `import { env as ${OBJECT}, addTo as ${FUNCTION} } from "${MODULE}";`;
      // All lines keep their numbers. In a build, a hashbang stays the first line.
      const changed = isBuild
        ? `${withLiveObjects(code, this)}\n${imported}`
        : `${imported}${FUNCTION}(import.meta.env);${code}`;
      return { code: changed, map: null };
    },
    transformIndexHtml: {
      order: "pre",
      handler: (html: string) => rejectPlaceholders(html, names),
    },
  };

  /** Servers start without the names: the gateway reports what is wrong with the files. */
  function rejectInBuild(cause: unknown): string[] {
    if (!isBuild) return [];
    throw new Error(
      `Cannot build with "env: true": the build needs the names of the variables, from a manifest or an env file; ${
        messageOf(cause)
      }`,
      { cause },
    );
  }

  return plugin;
}

/** Other names cannot be written after a dot, and `define` does not accept them. */
const IDENTIFIER = /^\w+$/;

/** The name of each variable, by its name in `import.meta.env`. */
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
        `Cannot use import.meta.env.${envName} for both ${other} and ${name}`,
      );
    }
    found.set(envName, name);
  }
  return found;
}

/**
 * Returns the names of the PUBLIC variables in the manifest; without a manifest, those in the env files.
 *
 * @throws {Error} If a file cannot be read or is invalid.
 */
async function declaredNames(
  { manifest }: ProjectPaths,
  envFiles: EnvSource,
): Promise<string[]> {
  const variables = manifest === undefined
    ? classify(await envFiles.read()).variables
    : await readDeclared(manifest);
  const declared = variables.filter(({ tier }) => tier === "public");
  return declared.map(({ name }) => name);
}

/** Returns what a build replaces each read of a variable by: a property of the object that the plugin's module exports. */
function definitions(names: EnvNames): Record<string, string> {
  const entries = [...names.keys()].map((name) =>
    [`import.meta.env.${name}`, `${OBJECT}.${name}`] as const
  );
  return Object.fromEntries(entries);
}

/** Returns the code of the plugin's module. It exports an object with all variables, and a function that copies them. */
function moduleOf(names: EnvNames): string {
  const getters = [...names].map(([envName, name]) =>
    `  get ${envName}() { return read(${JSON.stringify(name)}); },\n`
  );
  return `import { getAll, meta, onAnyChange } from "@rep/gateway/client";

let isCurrent = false;
function read(name) {
  if (!isCurrent) keepCurrent();
  return getAll()[name];
}
function keepCurrent() {
  const page = meta(); // null while the browser has not parsed the configuration
  isCurrent = !!page || !globalThis.document;
  if (page?.hotReloadAvailable) onAnyChange(() => {});
  if (globalThis.importScripts) {
    console.warn("[REP] A worker has no configuration: its page has to send it the values that it reads from import.meta.env");
  }
}
export const env = {
${getters.join("")}};
export function addTo(object) {
  return Object.defineProperties(object, Object.getOwnPropertyDescriptors(env));
}
`;
}

/**
 * Returns whether a module reads `import.meta.env`, or read it before a build of Vite 6 or 7 replaced the read. The text
 * may also be in a comment or a string: if the plugin then added its import, it could turn a CommonJS module into an ES
 * module.
 */
function readsEnv(code: string, parser: ViteParser): boolean {
  return code.includes(OBJECT) || findEnv(code, parser).length > 0;
}

/**
 * Makes an `import.meta.env` that is used as an object live, since a module may keep the object. Builds of Vite 6 and 7
 * create that object once for each module, before this plugin; those of Vite 8 create it for each read, after this
 * plugin.
 */
function withLiveObjects(code: string, parser: ViteParser): string {
  let live = code.replace(VITE_OBJECT, `$1${FUNCTION}($2)`);
  for (const { start, end } of findEnv(live, parser).reverse()) {
    const isProperty = /^\s*(?:\?\.|[.[])/.test(live.slice(end));
    if (isProperty) continue;
    const object = live.slice(start, end);
    live = `${live.slice(0, start)}${FUNCTION}(${object})${live.slice(end)}`;
  }
  return live;
}

/** The fields of a node of a syntax tree that are read here. */
interface SyntaxNode {
  readonly type?: string;
  readonly start: number;
  readonly end: number;
  readonly object?: SyntaxNode;
  readonly property?: { readonly name?: string };
  readonly computed?: boolean;
}

/** Returns where a module has `import.meta.env`, in the order of the text. */
function findEnv(code: string, parser: ViteParser): SyntaxNode[] {
  if (!code.includes("import.meta.env")) return [];
  const nodes = findEnvIn(parser.parse(code));
  return nodes.sort((a, b) => a.start - b.start);
}

function findEnvIn(node: unknown): SyntaxNode[] {
  if (typeof node !== "object" || node === null) return [];
  if (isEnv(node as SyntaxNode)) return [node as SyntaxNode];
  return Object.values(node).flatMap(findEnvIn);
}

/** Returns whether a node is `import.meta.env`. Its object is not `new.target`. */
function isEnv({ object, property, computed }: SyntaxNode): boolean {
  return object?.type === "MetaProperty" && object.property?.name === "meta" &&
    property?.name === "env" && !computed;
}

/** @throws {Error} If HTML contains a placeholder for a variable: Vite would need its value for the build. */
function rejectPlaceholders(html: string, names: EnvNames): void {
  for (const name of names.keys()) {
    if (!html.includes(`%${name}%`)) continue;
    throw new Error(
      `Cannot replace %${name}% in HTML: its value is only known at run time; expected a script that reads import.meta.env.${name}`,
    );
  }
}
