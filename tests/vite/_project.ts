import type {
  NodeHandler,
  NodeResponse,
} from "../../src/adapters/node_handler.ts";
import type { checkReads } from "../../src/vite/check_reads.ts";
import type { gatewayPlugin } from "../../src/vite/gateway_plugin.ts";
import { rep, type RepOptions } from "../../src/vite/mod.ts";
import type { runtimeEnv } from "../../src/vite/runtime_env.ts";
import type { ViteConfig, ViteDevServer } from "../../src/vite/vite.ts";
import { TempDirectory } from "../_temp.ts";

/** A page of an app. */
export const PAGE =
  "<!doctype html><html><head><title>x</title></head><body></body></html>";

/** The options of most tests. */
export const OPTIONS: RepOptions = {
  manifest: ".rep.yaml",
  envFile: "app.env",
};

/** Returns the plugins with the hooks that Vite calls. There is a third one with `env: true`. */
export function pluginsOf(options: RepOptions) {
  return rep(options) as [
    ReturnType<typeof gatewayPlugin>,
    ReturnType<typeof checkReads>,
    ReturnType<typeof runtimeEnv>?,
  ];
}

/** Returns the title that a page has been given. */
export function titleOf(html: string): unknown {
  const [, text = "{}"] =
    /<script id="__rep__"[^>]*>(.*?)<\/script>/.exec(html) ?? [];
  return JSON.parse(text).public?.TITLE;
}

/** Makes a folder with a project. It has what Vite prints, what it sends to pages, and its handlers. */
export async function makeProject(files: Record<string, string>) {
  const directory = await TempDirectory.make();
  const root = directory.path;
  const printed: string[] = [];
  const sent: unknown[] = [];
  const handlers: NodeHandler[] = [];
  const printedOnce = new Set<string>();
  let restarts = 0;
  let connect = () => {};
  for (const folder of ["src", "public", "dist"]) {
    await Deno.mkdir(directory.at(folder));
  }
  for (const [name, text] of Object.entries(files)) {
    await directory.write(name, text);
  }

  function configOf(changed: Partial<ViteConfig> = {}): ViteConfig {
    const print = (message: string) =>
      void printed.push(message.replaceAll(root, "ROOT"));
    return {
      command: "serve",
      root,
      publicDir: directory.at("public"),
      base: "/",
      build: { outDir: "dist" },
      server: {},
      preview: {},
      logger: {
        info: print,
        warn: print,
        warnOnce(message) {
          if (printedOnce.has(message)) return;
          printedOnce.add(message);
          print(message);
        },
        error: print,
      },
      env: {},
      isWorker: false,
      ...changed,
    };
  }

  /** Returns the plugin with Vite's configuration. */
  function pluginOf(options = OPTIONS, config: Partial<ViteConfig> = {}) {
    const [plugin] = pluginsOf(options);
    plugin.configResolved(configOf(config));
    return plugin;
  }

  /** Sends a request through the handlers to Vite or a framework, which answers it last. */
  async function send(
    url: string,
    headers: Record<string, string> = {},
    answerLast?: (response: NodeResponse) => void,
  ) {
    const ended = Promise.withResolvers<void>();
    const answer = { status: 404, text: "" };
    const response = {
      statusCode: 200,
      getHeaders: () => ({}),
      getHeaderNames: () => [],
      flushHeaders() {},
      writeHead: (status: number) => answer.status = status,
      write(chunk: Uint8Array) {
        answer.text += new TextDecoder().decode(chunk);
        return true;
      },
      end: ended.resolve,
      on() {},
      off() {},
      emit: () => true,
    };
    const request = {
      method: "GET",
      url,
      headers: { host: "localhost:5173", ...headers },
      socket: {},
    };
    const rest = [...handlers];
    function next(error?: unknown): void {
      if (error !== undefined) return ended.reject(error);
      const handler = rest.shift();
      if (handler) handler(request, response, next);
      else if (answerLast) answerLast(response);
      else ended.resolve();
    }
    next();
    await ended.promise;
    return answer;
  }

  return {
    printed,
    sent,
    handlers,
    configOf,
    pluginOf,
    at: (name: string) => directory.at(name),
    /** How often Vite was restarted. */
    get restarts() {
      return restarts;
    },
    /** A page connects, such as after a reload. */
    connect: () => connect(),
    read: (name: string) => Deno.readTextFile(directory.at(name)),
    /** Replaces a file at once. */
    async write(name: string, text: string) {
      const written = await directory.write(`${name}.tmp`, text);
      await Deno.rename(written, directory.at(name));
    },
    /** Starts the development server. @param pages How many pages are open. */
    async startVite(
      config: Partial<ViteConfig> = {},
      pages = 1,
      options = OPTIONS,
    ) {
      const [plugin, reads, liveEnv] = pluginsOf(options);
      const resolved = configOf(config);
      plugin.configResolved(resolved);
      reads.configResolved(resolved);
      await liveEnv?.config({ root }, { command: "serve" });
      const server: ViteDevServer = {
        middlewares: {
          use: (handler) => handlers.push(handler as NodeHandler),
        },
        ws: {
          clients: { size: pages },
          send: (message) => sent.push(message),
          on: (_, listener) => connect = listener,
        },
        restart() {
          restarts++;
          return Promise.resolve();
        },
      };
      await plugin.configureServer.handler(server); // before the others
      liveEnv?.configureServer(server);
      const insert = plugin.transformIndexHtml.handler;
      return {
        insert,
        /** Vite loads a module. */
        transform: (code: string) =>
          reads.transform(code, directory.at("src/main.ts")),
        title: async () => titleOf(await insert(PAGE)),
        [Symbol.asyncDispose]: plugin.closeBundle.handler,
      };
    },
    /** Starts the preview server. It ends with the event `close` of Vite's. */
    async startPreview(config: Partial<ViteConfig>, options = OPTIONS) {
      let close = () => {};
      await pluginOf(options, config).configurePreviewServer.handler({
        middlewares: {
          use: (handler) => handlers.push(handler as NodeHandler),
        },
        httpServer: { on: (_, listener) => close = listener },
      });
      return { [Symbol.dispose]: () => close() };
    },
    /** Sends a request; 404 is the status of one that Vite itself would answer. */
    request: (url: string, headers?: Record<string, string>) =>
      send(url, headers),
    /** Sends a request that Vite or a framework answers with a page. */
    async requestPage(url: string, headers?: Record<string, string>) {
      const { text } = await send(url, headers, (response) => {
        response.writeHead(200, { "content-type": "text/html" });
        response.write(new TextEncoder().encode(PAGE));
        response.end();
      });
      return text;
    },
    /** Returns the statuses of requests for these paths. */
    async statusesOf(paths: string[]) {
      const answers = await Promise.all(paths.map((path) => send(path)));
      return answers.map(({ status }) => status);
    },
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}
