import { RE2JS } from "re2js";
import { watchFiles } from "../sources.ts";
import { createGateway } from "../gateway.ts";
import type { Gateway } from "../gateway_interface.ts";
import { type NodeHandler, toNodeHandler } from "../adapters/node_handler.ts";
import {
  type Log,
  type LogFields,
  messageOf,
  silentLog,
} from "../core/observe/log.ts";
import { envPrefixes, variablesOf } from "./env_names.ts";
import { ownRequests } from "./own_requests.ts";
import { ProjectFiles, type ProjectPaths } from "./project_files.ts";
import { servePages } from "./serve_pages.ts";
import type { ViteConfig, ViteWebSocket } from "./vite.ts";

/** What the gateway of a server needs to know of `import.meta.env`. */
export interface LiveEnv {
  /** The names that modules read from `import.meta.env`, as far as Vite has loaded them. */
  readonly names: ReadonlySet<string>;
  /** Called when files have changed and are valid. It returns whether the server restarts, which reloads open pages. */
  readonly onValid: () => Promise<boolean>;
}

/** Options of {@linkcode DevGateway}. */
interface DevGatewayOptions {
  readonly config: ViteConfig;
  readonly paths: ProjectPaths;
  readonly allowedHosts: ViteConfig["server"]["allowedHosts"];
  /** Replaces the setting of the manifest. */
  readonly acceptPublic: readonly string[] | undefined;
  /** Missing without `env: true`. */
  readonly liveEnv: LiveEnv | undefined;
  /** The connection to the open pages, whose overlay shows mistakes; the preview server has none. */
  readonly pages: ViteWebSocket | undefined;
}

/** A gateway in Vite's process. It watches the project's files, and reports mistakes in them. */
export class DevGateway {
  readonly #options: DevGatewayOptions;
  readonly #files: ProjectFiles;
  #watcher: Disposable | undefined;
  /** Missing until the files are valid for the first time. */
  #gateway: Gateway | undefined;
  #handle: NodeHandler | undefined;
  /** The settings of the manifest with which the gateway was started, as text. */
  #settings: string | undefined;
  #mistake: string | undefined;
  /** The SENSITIVE variables that open pages may have. */
  #servedSensitive = "";
  #loading: Promise<void> = Promise.resolve();

  constructor(options: DevGatewayOptions) {
    this.#options = options;
    this.#files = new ProjectFiles(options.paths, options.config);
  }

  /** Starts the gateway. If its files contain a mistake, it reports the mistake, and starts when that is corrected. */
  async start(): Promise<void> {
    const { pages, paths } = this.#options;
    pages?.on("connection", () => this.#showMistake());
    // It watches before it reads, so that it notices a correction during the first read.
    this.#watcher = await watchFiles(paths.read, () => this.#loadAgain());
    this.#loadAgain();
    await this.#loading;
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
      // A build that prerenders pages starts a preview server, and must not contain values of the build machine.
      browsersOnly: this.#options.pages === undefined,
      onError: (error) =>
        this.#print("error", `Cannot send a page: ${messageOf(error)}`),
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

  /** Returns the values that modules read from `import.meta.env`, as text. */
  #valuesIn(envNames: readonly string[]): string {
    const prefixes = envPrefixes(this.#options.config);
    const names = envNames.flatMap((name) => variablesOf(name, prefixes));
    return JSON.stringify(names.map((name) => this.#gateway?.get(name)));
  }

  /** Starts or reloads the gateway, and reports mistakes in its files. */
  async #load(): Promise<void> {
    const { liveEnv, pages } = this.#options;
    const isStart = this.#gateway === undefined;
    let isRestart = false;
    const names = [...liveEnv?.names ?? []];
    const values = this.#valuesIn(names);
    try {
      await this.#files.readManifest();
      const settings = JSON.stringify(this.#files.manifest?.settings);
      isRestart = !isStart && settings !== this.#settings;
      if (isStart || isRestart) await this.#startGateway();
      else await this.#gateway?.reload();
      this.#settings = settings;
      if (pages !== undefined) await this.#files.writeEnvTypes();
    } catch (error) {
      this.#report(error);
      return;
    }
    const wasInvalid = this.#mistake !== undefined;
    if (wasInvalid) {
      this.#mistake = undefined;
      this.#print("info", "the configuration is valid again");
    }
    if (await liveEnv?.onValid()) return;
    const isReplaced = this.#files.sensitive !== this.#servedSensitive ||
      values !== this.#valuesIn(names);
    this.#servedSensitive = this.#files.sensitive;
    // Open pages have no configuration yet, that of another gateway, SENSITIVE values that no stream replaces, or values
    // of import.meta.env, which no component renders again.
    const isOutdated = isStart ? wasInvalid : isRestart || isReplaced;
    if (isOutdated) pages?.send({ type: "full-reload" });
    else if (wasInvalid) pages?.send({ type: "update", updates: [] }); // closes the overlay
  }

  /**
   * Starts a gateway and then closes the previous one. If the start fails, the previous one keeps running. The plugin
   * decides about the other settings of the manifest: it always watches the files, and returns keys only to pages of
   * Vite's own origin, which is not among the `allowed_origins` of production.
   */
  async #startGateway(): Promise<void> {
    const { config, allowedHosts, acceptPublic } = this.#options;
    const { settings } = this.#files;
    const basePath = config.base.replace(/\/$/, "");
    const gateway = await createGateway({
      variables: () => this.#files.readVariables(),
      manifest: () => this.#files.manifest,
      loadPatternLibrary: () => Promise.resolve({ RE2JS }),
      strict: settings.strict,
      acceptPublic: acceptPublic ?? settings["accept-public"],
      sessionKeyTtlMs: settings["session-key-ttl"],
      sessionKeyMaxRate: settings["session-key-max-rate"],
      hotReload: true,
      basePath: basePath.startsWith("/") ? basePath : "",
      log: this.#createLog(),
    });
    await this.#gateway?.close();
    this.#gateway = gateway;
    this.#handle = ownRequests(toNodeHandler(gateway), basePath, allowedHosts);
  }

  #report(error: unknown): void {
    const mistake = this.#files.describe(error);
    const consequence = this.#gateway === undefined
      ? "pages have no configuration"
      : "the last valid configuration stays active";
    if (mistake !== this.#mistake) {
      this.#print(
        "error",
        `${mistake}\n[rep] ${consequence} until this is corrected`,
      );
    }
    this.#mistake = mistake;
    this.#showMistake();
  }

  /** Sends the mistake to open pages only: Vite would keep it for the next page, which gets it when it connects. */
  #showMistake(): void {
    const { pages } = this.#options;
    if (this.#mistake === undefined || !pages?.clients.size) return;
    // A page reloads if its first update finds an overlay, so it gets an update before the overlay.
    pages.send({ type: "update", updates: [] });
    const err = { message: this.#mistake, stack: "", plugin: "rep" };
    pages.send({ type: "error", err });
  }

  #print(level: "info" | "warn" | "error", message: string): void {
    const { logger } = this.#options.config;
    logger[level](`[rep] ${message}`, { timestamp: true });
  }

  /**
   * Returns the gateway's log, which prints warnings and errors in Vite's terminal. It leaves out what the plugin does
   * itself: it reports rejected configurations, and it checks hosts, which the gateway warns about at its start.
   */
  #createLog(): Log {
    return {
      ...silentLog,
      warn: (event, fields = {}) => {
        if (event === "rep.start.warning") return;
        const { variable_name: name, detail } = fields;
        const message = typeof name === "string"
          ? this.#files.describeFinding(event, name, detail)
          : formatEvent(event, fields);
        this.#print("warn", message);
      },
      error: (event, fields = {}) => {
        if (event === "rep.config.rejected") return;
        this.#print("error", formatEvent(event, fields));
      },
    };
  }
}

function formatEvent(event: string, fields: LogFields): string {
  return `${event} ${JSON.stringify(fields)}`;
}
