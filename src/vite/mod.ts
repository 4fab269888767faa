/**
 * A plugin for Vite. With it, Vite's development server and preview server serve pages with the configuration, and the
 * endpoints of the gateway, without another process.
 *
 * ```ts ignore
 * import { rep } from "@rep/gateway/vite";
 * import { defineConfig } from "vite";
 *
 * export default defineConfig({ plugins: [rep({ manifest: ".rep.yaml", envFile: "app.env" })] });
 * ```
 *
 * @module
 */
import { resolve } from "node:path";
import { requireRuntime } from "../core/values/runtime.ts";
import {
  rejectModule,
  rejectPublicFiles,
  rejectSecrets,
  warnOfPrecache,
} from "./check_build.ts";
import { checkReads, FoundReads, type ReadsPlugin } from "./check_reads.ts";
import { DevGateway, type LiveEnv } from "./dev_gateway.ts";
import { denialsOf, denyFiles } from "./deny_files.ts";
import { envPrefixes, rejectSecretPrefixes } from "./env_names.ts";
import {
  checkOptionNames,
  type ProjectPaths,
  type RepOptions,
  resolvePaths,
} from "./project_files.ts";
import { isVitest } from "./is_vitest.ts";
import { type EnvPlugin, runtimeEnv } from "./runtime_env.ts";
import type {
  ViteConfig,
  ViteDevServer,
  ViteMiddlewares,
  ViteOutput,
  VitePreviewServer,
  ViteUserConfig,
  ViteWebSocket,
} from "./vite.ts";

export type {
  ViteConfig,
  ViteDevServer,
  ViteEnv,
  ViteError,
  ViteLogger,
  ViteMiddlewares,
  ViteOutput,
  ViteParser,
  VitePreviewServer,
  ViteRestart,
  ViteUserConfig,
  ViteWebSocket,
} from "./vite.ts";
export type { ReadsPlugin } from "./check_reads.ts";
export type { EnvPlugin, ViteEnvConfig } from "./runtime_env.ts";
export type { RepEnvFile } from "./env_files.ts";
export type { RepOptions } from "./project_files.ts";

/** A plugin, in the shape that Vite expects. */
export interface RepPlugin {
  /** The name, for Vite's messages. */
  name: string;
  /** Makes Vite deny requests for the files that the plugin reads. */
  config(
    config: ViteUserConfig,
  ): { server: { fs: { deny: string[] } } };
  /** Stores Vite's configuration for the other hooks. */
  configResolved(config: ViteConfig): void;
  /** Starts the gateway in the development server, before the handlers of any other plugin. */
  configureServer: {
    order: "pre";
    handler(server: ViteDevServer): Promise<void>;
  };
  /** Starts the gateway in the preview server, before the handlers of any other plugin. */
  configurePreviewServer: {
    order: "pre";
    handler(server: VitePreviewServer): Promise<void>;
  };
  /** Inserts the configuration into the pages of the development server. */
  transformIndexHtml: { order: "post"; handler(html: string): Promise<string> };
  /** Stops a build that would copy a file that the plugin reads. */
  buildStart(): Promise<void>;
  /** Rejects the import of a file that the plugin reads. */
  load: { order: "pre"; handler(id: string): Promise<void> };
  /** Stops a build whose output contains a secret. */
  generateBundle: {
    order: "post";
    handler(
      options: unknown,
      bundle: Record<string, ViteOutput>,
    ): Promise<void>;
  };
  /** Closes the gateway. After a build, and after the plugins that add to it, warns of a service worker's precache. */
  closeBundle: { order: "post"; sequential: true; handler(): Promise<void> };
}

/**
 * Returns a list, which Vite accepts in place of a plugin: the plugin, one that warns of reads of `import.meta.env`
 * without a value, and with `env: true` one that gives them values.
 *
 * @throws {Error} If Node.js is too old.
 * @throws {TypeError} If an option does not exist.
 */
export function rep(
  options: RepOptions = {},
): [RepPlugin, ReadsPlugin, ...EnvPlugin[]] {
  requireRuntime();
  checkOptionNames(options);
  const { env = false } = options;
  const found = new FoundReads();
  const reads = checkReads(options, found);
  if (!env) return [gatewayPlugin(options), reads];
  const live = runtimeEnv(options);
  const onValid = live.api.restartIfOutdated;
  const plugin = gatewayPlugin(options, { names: found.names, onValid });
  return [plugin, reads, live];
}

/**
 * Returns the plugin that runs a gateway in Vite's servers, and checks builds.
 *
 * @param liveEnv What it needs to know with `env: true`.
 */
function gatewayPlugin(options: RepOptions, liveEnv?: LiveEnv): RepPlugin {
  const { lint = true, acceptPublic } = options;
  let config: ViteConfig;
  let paths: ProjectPaths;
  let gateway: DevGateway | undefined;

  /** Starts a gateway, and adds its handlers. @param folders From where the server sends files. */
  async function start(
    middlewares: ViteMiddlewares,
    folders: readonly string[],
    { allowedHosts }: ViteConfig["server"],
    pages?: ViteWebSocket,
  ): Promise<DevGateway> {
    const started = await DevGateway.start({
      config,
      paths,
      allowedHosts,
      acceptPublic,
      liveEnv,
      pages,
    });
    middlewares.use(denyFiles(paths.read, config, folders));
    middlewares.use(started.handler);
    middlewares.use(started.pages);
    return started;
  }

  return {
    name: "rep",
    config({ root = "", server }) {
      const { read } = resolvePaths(options, resolve(root));
      return { server: { fs: { deny: denialsOf(read, server?.fs?.deny) } } };
    },
    configResolved(resolved) {
      rejectSecretPrefixes(envPrefixes(resolved));
      rejectSecondPlugin(resolved);
      config = resolved;
      paths = resolvePaths(options, config.root);
    },
    configureServer: {
      order: "pre",
      async handler({ middlewares, ws }) {
        if (isVitest(config)) return;
        const { root, publicDir, server } = config;
        gateway = await start(middlewares, [root, publicDir], server, ws);
      },
    },
    configurePreviewServer: {
      order: "pre",
      async handler({ middlewares, httpServer }) {
        const { root, build, preview } = config;
        const folder = resolve(root, build.outDir);
        const started = await start(middlewares, [folder], preview);
        httpServer.on("close", () => void started.close());
      },
    },
    transformIndexHtml: {
      order: "post",
      // A build runs no gateway. The gateway that serves the build inserts the configuration.
      handler: async (html) => await gateway?.insert(html) ?? html,
    },
    async buildStart() {
      if (config.command !== "build" || !lint) return;
      await rejectPublicFiles(paths.read, config);
    },
    load: {
      order: "pre",
      handler: (id) => rejectModule(id, paths.read, config),
    },
    generateBundle: {
      order: "post",
      async handler(_options, bundle) {
        if (!lint) return;
        await rejectSecrets(Object.values(bundle), paths.envFiles);
      },
    },
    closeBundle: {
      order: "post",
      sequential: true,
      async handler() {
        await gateway?.close();
        gateway = undefined;
        if (config.command === "build" && lint) await warnOfPrecache(config);
      },
    },
  };
}

/** @throws {Error} If there are two gateways: pages of one would ask the other for their keys. */
function rejectSecondPlugin({ plugins = [] }: ViteConfig): void {
  const own = plugins.filter(({ name }) => name === "rep");
  if (own.length < 2) return;
  throw new Error(
    `Cannot use rep() ${own.length} times: expected it once in plugins, and in no preset`,
  );
}

// With `plugins: [rep]`, without the call, Vite would take the function for a plugin that does nothing.
Object.defineProperty(rep, "config", {
  value() {
    throw new TypeError(
      "Cannot use the plugin rep: expected rep() in plugins, got the function",
    );
  },
});
