import type { RepOptions } from "../vite/mod.ts";
import { type PlainServerOptions, respond } from "./start_gateway.ts";

/** What Astro passes to the hook `astro:config:setup`. */
export interface AstroSetup {
  /** What Astro is run for, such as `build`. */
  readonly command: string;
  /** Adds a middleware. */
  addMiddleware(middleware: { order: "pre"; entrypoint: string }): void;
  /** Adds to the configuration. */
  // deno-lint-ignore no-explicit-any -- the plugins' types are those of the app's Vite
  updateConfig(config: { vite: { plugins: any[] } }): unknown;
}

/** An integration, in the shape that Astro expects. */
export interface AstroIntegration {
  /** The name, for Astro's messages. */
  name: string;
  /** Adds the plugin for Vite and the middleware. */
  hooks: { "astro:config:setup": (setup: AstroSetup) => Promise<void> };
}

/** What Astro passes to a middleware. */
export interface AstroContext {
  /** The request. */
  readonly request: Request;
  /** Whether the page is rendered at build time. */
  readonly isPrerendered: boolean;
}

/** The module of the middleware. It exists in Vite only. */
const MIDDLEWARE = "virtual:@rep/gateway/middleware";

/**
 * Returns an integration for `astro.config.mjs`. In development, the plugin for Vite serves the configuration. A server
 * that is built with an adapter starts the gateway at its first request.
 *
 * ```ts ignore
 * import { astro as rep } from "@rep/gateway/server";
 * import { defineConfig } from "astro/config";
 *
 * export default defineConfig({ integrations: [rep({ manifest: ".rep.yaml", envFile: { path: "app.env", required: false } })] });
 * ```
 *
 * @param plugin More options of the plugin for Vite.
 */
export function astro(
  options: PlainServerOptions = {},
  plugin: Pick<RepOptions, "types" | "lint" | "env"> = {},
): AstroIntegration {
  const { manifest, envFile = [], acceptPublic } = options;
  async function setup(
    { command, addMiddleware, updateConfig }: AstroSetup,
  ): Promise<void> {
    const { rep } = await import("../vite/mod.ts");
    const plugins = [
      rep({ ...plugin, manifest, envFile, acceptPublic }),
      middlewareModule(options),
    ];
    updateConfig({ vite: { plugins } });
    if (command !== "build") return;
    addMiddleware({ order: "pre", entrypoint: MIDDLEWARE });
  }
  return { name: "@rep/gateway", hooks: { "astro:config:setup": setup } };
}

/** Returns a plugin for Vite with the module of the middleware. */
function middlewareModule(options: PlainServerOptions) {
  const id = `\0${MIDDLEWARE}`;
  const code = `import { astroMiddleware } from "@rep/gateway/server";\n` +
    `export const onRequest = astroMiddleware(${JSON.stringify(options)});\n`;
  return {
    name: "rep:middleware",
    resolveId: (name: string) => name === MIDDLEWARE ? id : undefined,
    load: (name: string) => name === id ? code : undefined,
  };
}

/** A middleware, in the shape that Astro expects. */
export type AstroMiddleware = (
  context: AstroContext,
  next: () => Promise<Response>,
) => Promise<Response>;

/** Returns the middleware that {@linkcode astro} adds. */
export function astroMiddleware(options: PlainServerOptions): AstroMiddleware {
  return async ({ request, isPrerendered }, next) =>
    isPrerendered ? await next() : await respond(request, next, options);
}
