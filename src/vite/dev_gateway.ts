import { RE2JS } from "re2js";
import { watchFiles } from "../config/mod.ts";
import type { Manifest } from "../config/variables/manifest.ts";
import { createGateway } from "../gateway.ts";
import type { Gateway } from "../gateway_interface.ts";
import { type NodeHandler, toNodeHandler } from "../http/node_handler.ts";
import { createLog, type Log, messageOf } from "../observe/log.ts";
import { type GatewayOptions, NUMBER_OPTIONS } from "../options.ts";
import { ownRequests, type ViteHosts } from "./own_requests.ts";
import { ProjectFiles, type ProjectPaths } from "./project_files.ts";
import { servePages } from "./serve_pages.ts";
import type { ViteConfig, ViteWebSocket } from "./vite.ts";

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
  /** Those of the manifest with which the gateway has started. */
  #settings: DevSettings | undefined;
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
    const { read } = options.paths;
    // Before they are read, since reading and starting take a while, in which a mistake may be corrected.
    started.#watcher = await watchFiles(read, () => started.#loadAgain());
    started.#loadAgain();
    await started.#loading;
    return started;
  }

  /** Answers requests for the gateway's own paths. */
  readonly handler: NodeHandler = (request, response, next) => {
    if (this.#handle === undefined) return next?.();
    this.#handle(request, response, next);
  };

  /** Inserts the configuration into the pages that later handlers send. */
  get pages(): NodeHandler {
    return servePages({
      current: () => this.#gateway,
      // Builds that prerender pages start a preview server: no value of the machine that builds may be in a build.
      browsersOnly: this.#pages === undefined,
      onError: (error) => this.#reportPage(error),
    });
  }

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
    let isRestart = false;
    try {
      await this.#files.readManifest();
      const settings = devSettings(this.#files.manifest);
      isRestart = !isStart && !isSame(settings, this.#settings);
      if (isStart || isRestart) await this.#startGateway(settings);
      else await this.#gateway?.reload();
    } catch (error) {
      this.#report(error);
      return;
    }
    const wasInvalid = this.#mistake !== undefined;
    if (wasInvalid) this.#reportValid();
    const isReplaced = this.#files.sensitive !== this.#servedSensitive;
    this.#servedSensitive = this.#files.sensitive;
    // Open pages have no configuration yet, that of another gateway, or SENSITIVE values that no stream replaces.
    const isOutdated = isStart ? wasInvalid : isRestart || isReplaced;
    if (isOutdated) this.#pages?.send({ type: "full-reload" });
    else if (wasInvalid) this.#pages?.send({ type: "update", updates: [] }); // closes the overlay
  }

  /** Starts a gateway in place of the one that runs, which goes on if that fails. */
  async #startGateway(settings: DevSettings): Promise<void> {
    const { base } = this.#config;
    const basePath = base.replace(/\/$/, "");
    const gateway = await createGateway({
      variables: () => this.#files.readVariables(),
      manifest: () => this.#files.manifest,
      loadPatternLibrary: () => Promise.resolve({ RE2JS }),
      strict: settings.strict,
      sessionKeyTtlMs: settings.sessionKeyTtlMs,
      sessionKeyMaxRate: settings.sessionKeyMaxRate,
      hotReload: true,
      basePath: basePath.startsWith("/") ? basePath : "",
      log: this.#createLog(),
    });
    await this.#gateway?.close();
    this.#gateway = gateway;
    this.#settings = settings;
    const handle = toNodeHandler(gateway);
    this.#handle = ownRequests(handle, basePath, this.#allowedHosts);
  }

  #report(error: unknown): void {
    const mistake = this.#files.describe(error);
    const rest = this.#gateway === undefined
      ? "pages have no configuration"
      : "the last valid configuration stays";
    if (mistake !== this.#mistake) {
      this.#config.logger.error(
        `[rep] ${mistake}\n[rep] ${rest} until that is corrected`,
        { timestamp: true },
      );
    }
    this.#mistake = mistake;
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

  #reportPage(error: unknown): void {
    const message = `[rep] Cannot send a page: ${messageOf(error)}`;
    this.#config.logger.error(message, { timestamp: true });
  }

  #reportValid(): void {
    this.#mistake = undefined;
    const message = "[rep] the configuration is valid again";
    this.#config.logger.info(message, { timestamp: true });
  }

  /**
   * Warnings and errors of the gateway in Vite's terminal, but not what the plugin does itself: it reports what is wrong
   * with the configuration, and checks the hosts, of which the gateway would warn at its start. Development needs no
   * audit log, which `createLog()` would write at any level.
   */
  #createLog(): Log {
    const { logger } = this.#config;
    const warn = (line: string) => logger.warn(line, { timestamp: true });
    const warnings = textLog(warn);
    const errors = textLog((line) => logger.error(line, { timestamp: true }));
    const files = this.#files;
    return {
      debug() {},
      info() {},
      warn(event, fields = {}) {
        if (event === "rep.start.warning") return;
        const { variable_name: name, detail } = fields;
        if (typeof name !== "string") return warnings.warn(event, fields);
        warn(`[rep] ${files.describeFinding(event, name, detail)}`);
      },
      error(event, fields) {
        if (event !== "rep.config.rejected") errors.error(event, fields);
      },
    };
  }
}

/** The settings of a manifest that apply in development as well. */
type DevSettings = Required<
  Pick<GatewayOptions, "strict" | "sessionKeyTtlMs" | "sessionKeyMaxRate">
>;

/**
 * Returns the settings of a manifest. Of what it may set, the plugin decides the rest itself: changes always arrive, by
 * watching the files (`hot_reload`, `hot_reload_mode`, `hot_reload_poll_interval`), and only pages of Vite's own origin
 * get keys, which `allowed_origins` of production does not have.
 */
function devSettings(manifest: Manifest | undefined): DevSettings {
  // `parseCommandManifest()` has checked them.
  const settings = manifest?.settings as {
    strict_guardrails?: boolean;
    session_key_ttl?: number;
    session_key_max_rate?: number;
  } | undefined;
  const { sessionKeyTtlMs, sessionKeyMaxRate } = NUMBER_OPTIONS;
  return {
    strict: settings?.strict_guardrails ?? false,
    sessionKeyTtlMs: settings?.session_key_ttl ?? sessionKeyTtlMs.default,
    sessionKeyMaxRate: settings?.session_key_max_rate ??
      sessionKeyMaxRate.default,
  };
}

function isSame(a: DevSettings, b: DevSettings | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Writes events without the time and the level, which Vite adds itself. */
function textLog(print: (line: string) => void): Log {
  function write(line: string): void {
    print(`[rep] ${line.replace(/^\S+ \S+ +/, "")}`);
  }
  return createLog({ format: "text", level: "warn", write });
}
