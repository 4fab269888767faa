import { resolve } from "node:path";
import {
  rejectModule,
  rejectPublicFiles,
  rejectSecrets,
  warnOfPrecache,
} from "./check_build.ts";
import { DevGateway, type LiveEnv } from "./dev_gateway.ts";
import { denialsOf, denyFiles } from "./deny_files.ts";
import { envPrefixes, rejectSecretPrefixes } from "./env_names.ts";
import {
  type ProjectPaths,
  type RepOptions,
  resolvePaths,
} from "./project_files.ts";
import type {
  ViteConfig,
  ViteDevServer,
  ViteMiddlewares,
  ViteOutput,
  VitePreviewServer,
  ViteUserConfig,
  ViteWebSocket,
} from "./vite.ts";
import { isVitest, testConfig } from "./vitest.ts";

/**
 * Returns the plugin that runs a gateway in Vite's servers, and checks builds.
 *
 * @param liveEnv What it needs to know with `env: true`.
 */
export function gatewayPlugin(options: RepOptions, liveEnv?: LiveEnv) {
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
    const started = new DevGateway({
      config,
      paths,
      allowedHosts,
      acceptPublic,
      liveEnv,
      pages,
    });
    await started.start();
    middlewares.use(denyFiles(paths.read, config, folders));
    middlewares.use(started.handler);
    middlewares.use(started.pages);
    return started;
  }

  return {
    name: "rep",
    /** Makes Vite deny requests for the files that the plugin reads, and Vitest use the client's double. */
    config(user: ViteUserConfig) {
      const { root = "", server } = user;
      const { read } = resolvePaths(options, resolve(root));
      const deny = denialsOf(read, server?.fs?.deny);
      const forTests = isVitest(user) ? testConfig(user) : {};
      return { server: { fs: { deny } }, ...forTests };
    },
    configResolved(resolved: ViteConfig) {
      rejectSecretPrefixes(envPrefixes(resolved));
      if (!isVitest(resolved)) rejectSecondPlugin(resolved); // a project of Vitest has the root's plugins, too
      config = resolved;
      paths = resolvePaths(options, config.root);
    },
    /** Starts the gateway in the development server, before the handlers of any other plugin. */
    configureServer: {
      order: "pre",
      async handler({ middlewares, ws }: ViteDevServer) {
        if (isVitest(config)) return;
        const { root, publicDir, server } = config;
        gateway = await start(middlewares, [root, publicDir], server, ws);
      },
    },
    /** Starts the gateway in the preview server, before the handlers of any other plugin. */
    configurePreviewServer: {
      order: "pre",
      async handler({ middlewares, httpServer }: VitePreviewServer) {
        const { root, build, preview } = config;
        const folder = resolve(root, build.outDir);
        const started = await start(middlewares, [folder], preview);
        httpServer.on("close", () => void started.close());
      },
    },
    /**
     * Inserts the configuration into the pages of the development server. A build runs no gateway. The gateway that serves
     * the build inserts the configuration.
     */
    transformIndexHtml: {
      order: "post",
      handler: async (html: string) => await gateway?.insert(html) ?? html,
    },
    /** Stops a build that would copy a file that the plugin reads. */
    async buildStart() {
      if (config.command !== "build" || !lint) return;
      await rejectPublicFiles(paths.read, config);
    },
    /** Rejects the import of a file that the plugin reads. */
    load: {
      order: "pre",
      handler: (id: string) => rejectModule(id, paths.read, config),
    },
    /** Stops a build whose output contains a secret. */
    generateBundle: {
      order: "post",
      async handler(_options: unknown, bundle: Record<string, ViteOutput>) {
        if (!lint) return;
        await rejectSecrets(Object.values(bundle), paths.envFiles);
      },
    },
    /** Closes the gateway. After a build, and after the plugins that add to it, warns of a service worker's precache. */
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
