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
import { checkBuild } from "./check_build.ts";
import { DevGateway } from "./dev_gateway.ts";
import {
  denialsOf,
  denyFiles,
  rejectModule,
  rejectPublicFiles,
} from "./own_files.ts";
import { insertIntoBuiltPages } from "./preview_pages.ts";
import type {
  ViteConfig,
  ViteDevServer,
  ViteOutput,
  VitePreviewServer,
  ViteUserConfig,
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
export function rep(
  { manifest, envFile = [], types = "src/rep.d.ts", lint = true }: RepOptions =
    {},
): RepPlugin {
  requireRuntime();
  let config: ViteConfig;
  let gateway: DevGateway | undefined;
  const paths = () => ({
    manifest: manifest === undefined
      ? undefined
      : resolve(config.root, manifest),
    envFiles: [envFile].flat().map((path) => resolve(config.root, path)),
    types: types === false ? undefined : resolve(config.root, types),
  });
  const filesRead = (root: string) =>
    [envFile, manifest ?? []].flat().map((path) => resolve(root, path));
  return {
    name: "rep",
    config({ root = "", server }) {
      const deny = denialsOf(filesRead(resolve(root)), server?.fs?.deny);
      return { server: { fs: { deny } } };
    },
    configResolved(resolved) {
      config = resolved;
    },
    async configureServer({ config, middlewares, ws }) {
      const { allowedHosts } = config.server;
      gateway = await DevGateway.start({
        ...paths(),
        config,
        allowedHosts,
        pages: ws,
      });
      const { root, publicDir } = config;
      middlewares.use(denyFiles(filesRead(root), config, [root, publicDir]));
      middlewares.use(gateway.handler);
    },
    async configurePreviewServer({ config, middlewares, httpServer }) {
      const started = await DevGateway.start({
        ...paths(),
        config,
        allowedHosts: config.preview.allowedHosts,
      });
      const { root, build } = config;
      const folders = [resolve(root, build.outDir)];
      middlewares.use(denyFiles(filesRead(root), config, folders));
      middlewares.use(started.handler);
      middlewares.use(
        insertIntoBuiltPages(config, (page) => started.insert(page)),
      );
      httpServer.on("close", () => void started.close());
    },
    transformIndexHtml: {
      order: "post",
      // In a build there is no gateway: the one that serves the build inserts the configuration.
      handler: async (html) => await gateway?.insert(html) ?? html,
    },
    async buildStart() {
      if (config.command !== "build" || !lint) return;
      await rejectPublicFiles(filesRead(config.root), config);
    },
    load: {
      order: "pre",
      handler: (id) => rejectModule(id, filesRead(config.root), config),
    },
    generateBundle: {
      order: "post",
      handler: async (_options, bundle) =>
        lint
          ? await checkBuild(Object.values(bundle), paths().envFiles)
          : undefined,
    },
    async closeBundle() {
      await gateway?.close();
      gateway = undefined;
    },
  };
}
