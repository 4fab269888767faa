import {
  type NodeHandler,
  type NodeRequest,
  type NodeResponse,
  toNodeHandler,
} from "../adapters/node_handler.ts";
import { type PlainServerOptions, startOrExit } from "./start_gateway.ts";

/** The part of Nuxt that a module uses. */
export interface NuxtLike {
  /** The configuration of the project. */
  readonly options: {
    /** The folder with what Nuxt generates. */
    readonly buildDir: string;
  };
  /** Calls back with the configuration of its server. */
  // deno-lint-ignore no-explicit-any -- the type is that of the app's Nuxt
  hook(name: any, listener: (config: any) => void): unknown;
}

/** A module, in the shape that Nuxt expects. */
export type NuxtModule = (options: unknown, nuxt: NuxtLike) => void;

/** A request in Nuxt's server. */
export interface NitroEvent {
  /** The request and the response of Node.js. */
  readonly node: {
    /** The request. */
    readonly req: NodeRequest;
    /** The response. */
    readonly res: NodeResponse & {
      /** Sets a header. */
      setHeader(name: string, value: string): unknown;
    };
  };
}

/** Nuxt's server. */
export interface NitroApp {
  /** What handles its requests. */
  readonly h3App: {
    /** Handles a request. */
    handler: (event: NitroEvent) => unknown;
  };
  /** Its hooks. */
  readonly hooks: {
    /** Calls back with each rendered page. */
    hook(
      name: "render:html",
      listener: (
        html: { head: string[] },
        context: { event: NitroEvent },
      ) => Promise<void>,
    ): unknown;
  };
}

/**
 * Returns a module for `nuxt.config.ts`. The server starts the gateway, in development as well.
 *
 * ```ts ignore
 * import { nuxt as rep } from "@rep/gateway/server";
 *
 * export default defineNuxtConfig({ modules: [rep({ envFile: { path: "app.env", required: false } })] });
 * ```
 */
export function nuxt(options: PlainServerOptions = {}): NuxtModule {
  const code = `import { nitroPlugin } from "@rep/gateway/server";\n` +
    `export default import.meta.prerender ? () => {} : nitroPlugin(${
      JSON.stringify(options)
    });\n`;
  return (_options, nuxt) => {
    // There is no such file: Nitro looks for the module by this path.
    const path = `${nuxt.options.buildDir}/rep-gateway.mjs`;
    nuxt.hook("nitro:config", (config) => {
      config.virtual = { ...config.virtual, [path]: code };
      config.plugins = [...config.plugins ?? [], path];
    });
  };
}

/** Returns the plugin that {@linkcode nuxt} adds to Nuxt's server. */
export function nitroPlugin(
  options: PlainServerOptions,
): (app: NitroApp) => void {
  return ({ h3App, hooks }) => {
    const starting = startOrExit(options); // a plugin cannot wait
    const { handler } = h3App;
    h3App.handler = async (event) => {
      const gateway = await starting;
      const isAnswered = await answers(toNodeHandler(gateway), event);
      return isAnswered ? undefined : await gateway.run(() => handler(event));
    };
    hooks.hook("render:html", async ({ head }, { event }) => {
      const gateway = await starting;
      head.unshift(await gateway.configScript());
      event.node.res.setHeader("cache-control", "no-store");
    });
  };
}

/** Returns whether a handler has answered a request, once the response has ended. */
function answers(
  handler: NodeHandler,
  { node: { req, res } }: NitroEvent,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    res.on("close", () => resolve(true));
    handler(
      req,
      res,
      (error) => error === undefined ? resolve(false) : reject(error),
    );
  });
}
