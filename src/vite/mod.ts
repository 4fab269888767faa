/**
 * A plugin for Vite: its development and its preview server serve pages with the configuration, and the gateway's
 * endpoints beside them, in Vite's own process.
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
import { requireRuntime } from "../values/runtime.ts";
import {
  rejectModule,
  rejectPublicFiles,
  rejectSecrets,
} from "./check_build.ts";
import { DevGateway } from "./dev_gateway.ts";
import { denialsOf, denyFiles } from "./deny_files.ts";
import type { ViteHosts } from "./own_requests.ts";
import { insertIntoBuiltPages } from "./preview_pages.ts";
import type {
  ViteConfig,
  ViteDevServer,
  ViteOutput,
  VitePreviewServer,
  ViteUserConfig,
  ViteWebSocket,
} from "./vite.ts";

export type {
  ViteConfig,
  ViteDevServer,
  ViteError,
  ViteLogger,
  ViteMiddlewares,
  ViteOutput,
  VitePreviewServer,
  ViteUserConfig,
  ViteWebSocket,
} from "./vite.ts";
export type {
  NodeHandler,
  NodeNext,
  NodeRequest,
  NodeResponse,
} from "../http/node_handler.ts";

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

/** A plugin, in the shape that Vite expects. */
export interface RepPlugin {
  /** The name, for Vite's messages. */
  name: string;
  /** Has Vite deny the files that the plugin reads. */
  config(
    config: ViteUserConfig,
  ): { server: { fs: { deny: string[] } } };
  /** Remembers Vite's configuration. */
  configResolved(config: ViteConfig): void;
  /** Starts the gateway beside the development server. */
  configureServer(server: ViteDevServer): Promise<void>;
  /** Starts the gateway beside the preview server. */
  configurePreviewServer(server: VitePreviewServer): Promise<void>;
  /** Inserts the configuration into the pages of the development server. */
  transformIndexHtml: { order: "post"; handler(html: string): Promise<string> };
  /** Fails a build that would copy a file that the plugin reads. */
  buildStart(): Promise<void>;
  /** Rejects a module that is a file that the plugin reads. */
  load: { order: "pre"; handler(id: string): Promise<void> };
  /** Fails a build that contains a secret. */
  generateBundle: {
    order: "post";
    handler(
      options: unknown,
      bundle: Record<string, ViteOutput>,
    ): Promise<void>;
  };
  /** Closes the gateway. */
  closeBundle(): Promise<void>;
}

/**
 * Returns the plugin.
 *
 * @throws {Error} If Node.js is too old.
 */
export function rep(options: RepOptions = {}): RepPlugin {
  requireRuntime();
  const { manifest, envFile = [], types = "src/rep.d.ts", lint = true } =
    options;
  const envFiles = [envFile].flat();
  const files = manifest === undefined ? envFiles : [...envFiles, manifest];
  let config: ViteConfig;
  let gateway: DevGateway | undefined;

  /** Returns the absolute paths of all files that the plugin reads. */
  function pathsIn(root: string): string[] {
    return files.map((path) => resolve(root, path));
  }

  /** Starts a gateway beside one of Vite's servers. @param pages The open pages, if the server knows them. */
  async function startGateway(
    config: ViteConfig,
    allowedHosts: ViteHosts,
    pages: ViteWebSocket | undefined,
  ): Promise<DevGateway> {
    const { root } = config;
    const paths = {
      manifest: manifest === undefined ? undefined : resolve(root, manifest),
      envFiles: envFiles.map((path) => resolve(root, path)),
      types: types === false ? undefined : resolve(root, types),
    };
    return await DevGateway.start({ config, paths, allowedHosts, pages });
  }

  return {
    name: "rep",
    config({ root = "", server }) {
      const deny = denialsOf(pathsIn(resolve(root)), server?.fs?.deny);
      return { server: { fs: { deny } } };
    },
    configResolved(resolved) {
      config = resolved;
    },
    async configureServer({ config, middlewares, ws }) {
      const { root, publicDir, server } = config;
      gateway = await startGateway(config, server.allowedHosts, ws);
      const folders = [root, publicDir];
      middlewares.use(denyFiles(pathsIn(root), config, folders));
      middlewares.use(gateway.handler);
    },
    async configurePreviewServer({ config, middlewares, httpServer }) {
      const { root, build, preview } = config;
      const hosts = preview.allowedHosts;
      const started = await startGateway(config, hosts, undefined);
      const folders = [resolve(root, build.outDir)];
      const insert = (page: string) => started.insert(page);
      middlewares.use(denyFiles(pathsIn(root), config, folders));
      middlewares.use(started.handler);
      middlewares.use(insertIntoBuiltPages(config, insert));
      httpServer.on("close", () => void started.close());
    },
    transformIndexHtml: {
      order: "post",
      // In a build there is no gateway: the one that serves the build inserts the configuration.
      handler: async (html) => await gateway?.insert(html) ?? html,
    },
    async buildStart() {
      if (config.command !== "build" || !lint) return;
      await rejectPublicFiles(pathsIn(config.root), config);
    },
    load: {
      order: "pre",
      handler: (id) => rejectModule(id, pathsIn(config.root), config),
    },
    generateBundle: {
      order: "post",
      async handler(_options, bundle) {
        if (!lint) return;
        const paths = envFiles.map((path) => resolve(config.root, path));
        await rejectSecrets(Object.values(bundle), paths);
      },
    },
    async closeBundle() {
      await gateway?.close();
      gateway = undefined;
    },
  };
}
