import { RE2JS } from "re2js";
import { watchFiles } from "../config/mod.ts";
import { createGateway } from "../gateway.ts";
import type { Gateway } from "../gateway_interface.ts";
import { type NodeHandler, toNodeHandler } from "../http/node_handler.ts";
import { createLog, type Log } from "../observe/log.ts";
import { ownRequests, type ViteHosts } from "./own_requests.ts";
import { ProjectFiles, type ProjectPaths } from "./project_files.ts";
import type { ViteConfig, ViteLogger, ViteWebSocket } from "./vite.ts";

/** Options of {@linkcode DevGateway.start}. */
interface DevGatewayOptions {
  readonly config: ViteConfig;
  readonly paths: ProjectPaths;
  readonly allowedHosts: ViteHosts;
  /** The connection to the open pages, whose overlay shows what is wrong; the preview server has none. */
  readonly pages?: ViteWebSocket;
}

/** A gateway in Vite's process, with the files that it reads, and what is wrong with them. */
export class DevGateway {
  readonly #config: ViteConfig;
  readonly #allowedHosts: ViteHosts;
  readonly #pages: ViteWebSocket | undefined;
  readonly #files: ProjectFiles;
  #watcher: Disposable | undefined;
  /** Missing until the files are valid for the first time. */
  #gateway: Gateway | undefined;
  #handle: NodeHandler | undefined;
  #mistake: string | undefined;
  /** The SENSITIVE variables as open pages may have them. */
  #servedSensitive = "";
  #loading: Promise<void> = Promise.resolve();

  private constructor(options: DevGatewayOptions) {
    const { config, paths, allowedHosts, pages } = options;
    this.#config = config;
    this.#allowedHosts = allowedHosts;
    this.#pages = pages;
    this.#files = new ProjectFiles(paths, config);
  }

  /** Starts a gateway. If its files have a mistake, it reports that, and starts when they are corrected. */
  static async start(options: DevGatewayOptions): Promise<DevGateway> {
    const started = new DevGateway(options);
    options.pages?.on("connection", () => started.#showMistake());
    await started.#load();
    const { read } = options.paths;
    started.#watcher = await watchFiles(read, () => started.#loadAgain());
    return started;
  }

  /** Answers requests for the gateway's own paths. */
  readonly handler: NodeHandler = (request, response, next) => {
    if (this.#handle === undefined) return next?.();
    this.#handle(request, response, next);
  };

  /** Inserts the configuration into a page. */
  async insert(html: string): Promise<string> {
    if (this.#gateway === undefined) return html;
    const headers = { "content-type": "text/html; charset=utf-8" };
    const page = new Response(html, { headers });
    const response = await this.#gateway.inject(page);
    return await response.text();
  }

  /** Ends the streams and stops watching. */
  async close(): Promise<void> {
    this.#watcher?.[Symbol.dispose]();
    await this.#loading;
    await this.#gateway?.close();
  }

  #loadAgain(): void {
    this.#loading = this.#loading.then(() => this.#load());
  }

  /** Starts the gateway, or reloads it, and says what is wrong with its files. */
  async #load(): Promise<void> {
    const isStart = this.#gateway === undefined;
    try {
      await this.#files.readManifest();
      if (isStart) await this.#startGateway();
      else await this.#gateway?.reload();
    } catch (error) {
      this.#report(error);
      return;
    }
    const wasInvalid = this.#mistake !== undefined;
    if (wasInvalid) this.#reportValid();
    const isReplaced = this.#files.sensitive !== this.#servedSensitive;
    this.#servedSensitive = this.#files.sensitive;
    // Open pages have no configuration yet, or SENSITIVE values that no stream replaces.
    const isOutdated = isStart ? wasInvalid : isReplaced;
    if (isOutdated) this.#pages?.send({ type: "full-reload" });
    else if (wasInvalid) this.#pages?.send({ type: "update", updates: [] }); // closes the overlay
  }

  async #startGateway(): Promise<void> {
    const { base, logger } = this.#config;
    const basePath = base.replace(/\/$/, "");
    this.#gateway = await createGateway({
      variables: () => this.#files.readVariables(),
      manifest: () => this.#files.manifest,
      loadPatternLibrary: () => Promise.resolve({ RE2JS }),
      hotReload: true,
      basePath: basePath.startsWith("/") ? basePath : "",
      log: viteLog(logger),
    });
    const handle = toNodeHandler(this.#gateway);
    this.#handle = ownRequests(handle, basePath, this.#allowedHosts);
  }

  #report(error: unknown): void {
    this.#mistake = this.#files.describe(error);
    const rest = this.#gateway === undefined
      ? "pages have no configuration"
      : "the last valid configuration stays";
    this.#config.logger.error(
      `[rep] ${this.#mistake}\n[rep] ${rest} until that is corrected`,
      { timestamp: true },
    );
    this.#showMistake();
  }

  /** Vite would keep an error for the next page if none is open, but so does this class. */
  #showMistake(): void {
    const pages = this.#pages;
    if (this.#mistake === undefined || !pages?.clients.size) return;
    // A page whose first update finds an overlay is reloaded, so that has to be an update before the overlay.
    pages.send({ type: "update", updates: [] });
    const err = { message: this.#mistake, stack: "", plugin: "rep" };
    pages.send({ type: "error", err });
  }

  #reportValid(): void {
    this.#mistake = undefined;
    const message = "[rep] the configuration is valid again";
    this.#config.logger.info(message, { timestamp: true });
  }
}

/**
 * Warnings and errors of the gateway in Vite's terminal, but not what the plugin does itself: it reports what is wrong
 * with the configuration, and checks the hosts, of which the gateway would warn at its start. Development needs no audit
 * log, which `createLog()` would write at any level.
 */
function viteLog(logger: ViteLogger): Log {
  const warnings = textLog((line) => logger.warn(line, { timestamp: true }));
  const errors = textLog((line) => logger.error(line, { timestamp: true }));
  return {
    debug() {},
    info() {},
    warn(event, fields) {
      if (event !== "rep.start.warning") warnings.warn(event, fields);
    },
    error(event, fields) {
      if (event !== "rep.config.rejected") errors.error(event, fields);
    },
  };
}

/** Writes events without the time and the level, which Vite adds itself. */
function textLog(print: (line: string) => void): Log {
  function write(line: string): void {
    print(`[rep] ${line.replace(/^\S+ \S+ +/, "")}`);
  }
  return createLog({ format: "text", level: "warn", write });
}
