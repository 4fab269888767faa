import { readFile, writeFile } from "node:fs/promises";
import { relative } from "node:path";
import { RE2JS } from "re2js";
import { classify, type Environment } from "../config/variables/tiers.ts";
import { type Manifest, parseManifest } from "../config/variables/manifest.ts";
import { watchFiles } from "../config/mod.ts";
import { ConfigurationError } from "../config/variables/snapshot.ts";
import { createGateway, type Gateway } from "../gateway.ts";
import {
  type NodeHandler,
  type NodeRequest,
  type NodeResponse,
  toNodeHandler,
} from "../http/node_handler.ts";
import { createLog, type Log, messageOf, silentLog } from "../observe/log.ts";
import { memoryStore } from "../store/memory.ts";
import type { Store } from "../store/store.ts";
import { generateTypes } from "../config/variables/generate_types.ts";
import { allowedHostRule } from "./allowed_host_rule.ts";
import { readVariables } from "./read_variables.ts";
import type { ViteConfig, ViteLogger, ViteWebSocket } from "./vite.ts";

/** Options of {@linkcode DevGateway.start}. Paths are absolute. */
interface DevGatewayOptions {
  readonly config: ViteConfig;
  readonly manifest: string | undefined;
  readonly envFiles: readonly string[];
  /** Where the types are written. */
  readonly types: string | undefined;
  readonly allowedHosts: readonly string[] | true | undefined;
  /** The connection to the open pages, whose overlay shows what is wrong. */
  readonly pages?: ViteWebSocket;
}

/**
 * The stores of the projects that are served. They outlive a restart of Vite, in which the plugin is created anew, so
 * that open pages miss no change.
 */
const stores = new Map<string, Store>();

/** A gateway in Vite's process, with the files that it reads, and what is wrong with them. */
export class DevGateway {
  readonly #options: DevGatewayOptions;
  readonly #isAllowedHost: (host: string) => boolean;
  #watcher: Disposable | undefined;
  #gateway: Gateway | undefined;
  /** As last read. */
  #manifest: Manifest | undefined;
  #handle: NodeHandler | undefined;
  /** Where each variable is set. */
  #places: ReadonlyMap<string, string> = new Map();
  /** The SENSITIVE variables as text: as last read, and as open pages may have them. */
  readonly #sensitive = { read: "", served: "" };
  #mistake: string | undefined;
  #reloading: Promise<void> = Promise.resolve();

  private constructor(options: DevGatewayOptions) {
    this.#options = options;
    this.#isAllowedHost = allowedHostRule(options.allowedHosts);
  }

  /** Starts a gateway. If its files have a mistake, it reports that, and starts when they are corrected. */
  static async start(options: DevGatewayOptions): Promise<DevGateway> {
    const started = new DevGateway(options);
    options.pages?.on("connection", () => started.#showMistake());
    await started.#load();
    await started.#watch();
    return started;
  }

  /** Answers requests for the gateway's own paths. */
  readonly handler: NodeHandler = (request, response, next) => {
    if (this.#handle === undefined || !this.#isOwn(request)) return next?.();
    forbidOtherOrigins(response);
    if (this.#isAllowedHost(hostOf(request))) {
      return this.#handle(request, response, next);
    }
    response.writeHead(421, {});
    response.end();
  };

  /** Inserts the configuration into a page. */
  async insert(html: string): Promise<string> {
    const page = new Response(html, {
      headers: { "content-type": "text/html; charset=utf-8" },
    });
    return await (await this.#gateway?.inject(page))?.text() ?? html;
  }

  /** Ends the streams and stops watching. */
  async close(): Promise<void> {
    this.#watcher?.[Symbol.dispose]();
    await this.#reloading;
    await this.#gateway?.close();
  }

  async #load(): Promise<void> {
    try {
      this.#manifest = await this.#readManifest();
      await this.#writeTypes();
      const isStart = this.#gateway === undefined;
      await (isStart ? this.#start() : this.#gateway?.reload());
      const { read, served } = this.#sensitive;
      this.#sensitive.served = read;
      this.#showValid(isStart ? this.#mistake !== undefined : read !== served);
    } catch (error) {
      const issues = error instanceof ConfigurationError
        ? error.issues
        : [messageOf(error)];
      this.#report(issues.map((issue) => this.#locate(issue)).join("\n"));
    }
  }

  async #start(): Promise<void> {
    const { root, base, logger } = this.#options.config;
    const store = stores.get(root) ?? memoryStore();
    stores.set(root, store);
    this.#gateway = await createGateway({
      variables: () => this.#readVariables(),
      manifest: () => this.#manifest,
      loadPatternLibrary: () => Promise.resolve({ RE2JS }),
      hotReload: true,
      basePath: base.startsWith("/") ? base.replace(/\/$/, "") : "",
      store,
      log: viteLog(logger),
    });
    this.#handle = toNodeHandler(this.#gateway);
  }

  async #readVariables(): Promise<Environment> {
    const { variables, places } = await readVariables(this.#options.envFiles);
    this.#places = places;
    this.#sensitive.read = JSON.stringify(
      classify(variables).variables.filter(({ tier }) => tier === "sensitive"),
    );
    return variables;
  }

  /** Says where the variable is set that an issue is about. */
  #locate(issue: string): string {
    const [, name = ""] = /^Cannot use (REP_\w+)/.exec(issue) ?? [];
    const place = this.#places.get(name);
    return place === undefined ? issue : `${place}: ${issue}`;
  }

  async #readManifest(): Promise<Manifest | undefined> {
    const { manifest: path, config: { root } } = this.#options;
    if (path === undefined) return undefined;
    const text = await readManifestFile(path);
    return parseManifest(text, { path: relative(root, path) });
  }

  /** Writes the types only if they differ: Vite would reload the page, and an editor check the whole project. */
  async #writeTypes(): Promise<void> {
    const { types, config: { logger, root } } = this.#options;
    const manifest = this.#manifest;
    if (manifest === undefined || types === undefined) return;
    if (manifest.issues.length > 0) {
      throw new ConfigurationError(manifest.issues);
    }
    const text = generateTypes(manifest.variables);
    if (await readFile(types, "utf8").catch(() => undefined) === text) return;
    await writeFile(types, text);
    logger.info(`[rep] wrote ${relative(root, types)}`, { timestamp: true });
  }

  async #watch(): Promise<void> {
    const { manifest, envFiles } = this.#options;
    const paths = manifest === undefined ? envFiles : [...envFiles, manifest];
    const reload = () =>
      void (this.#reloading = this.#reloading.then(() => this.#load()));
    this.#watcher = await watchFiles(paths, reload);
  }

  #report(mistake: string): void {
    this.#mistake = mistake;
    const rest = this.#gateway === undefined
      ? "pages have no configuration"
      : "the last valid configuration stays";
    this.#options.config.logger.error(
      `[rep] ${mistake}\n[rep] ${rest} until that is corrected`,
      { timestamp: true },
    );
    this.#showMistake();
  }

  /** @param isOutdated Whether open pages have no configuration yet, or SENSITIVE values that no stream replaces. */
  #showValid(isOutdated: boolean): void {
    const { pages, config: { logger } } = this.#options;
    const wasInvalid = this.#mistake !== undefined;
    this.#mistake = undefined;
    if (wasInvalid) {
      logger.info("[rep] the configuration is valid again", {
        timestamp: true,
      });
    }
    if (isOutdated) pages?.send({ type: "full-reload" });
    else if (wasInvalid) pages?.send({ type: "update", updates: [] }); // closes the overlay
  }

  #showMistake(): void {
    const { pages } = this.#options;
    // Vite keeps an error for the next page if none is open, but so does `#mistake`.
    if (
      this.#mistake === undefined || pages === undefined ||
      pages.clients.size === 0
    ) return;
    // A page whose first update finds an overlay is reloaded, so that has to be an update before the overlay.
    pages.send({ type: "update", updates: [] });
    pages.send({
      type: "error",
      err: { message: this.#mistake, stack: "", plugin: "rep" },
    });
  }

  #isOwn({ url = "" }: NodeRequest): boolean {
    return url.startsWith(
      `${this.#options.config.base.replace(/\/$/, "")}/rep/`,
    );
  }
}

/** Vite permits other origins on this computer to read what it serves. */
function forbidOtherOrigins(
  response: NodeResponse & { removeHeader?(name: string): void },
): void {
  for (const name of ["access-control-allow-origin", "vary"]) {
    response.removeHeader?.(name);
  }
}

function hostOf({ headers }: NodeRequest): string {
  return String(headers[":authority"] ?? headers["host"] ?? "");
}

async function readManifestFile(path: string): Promise<string> {
  return await readFile(path, "utf8").catch((error) => {
    throw error.code === "ENOENT"
      ? new Error(`${path}: expected the manifest, or no option "manifest"`)
      : error;
  });
}

/**
 * Warnings and errors of the gateway in Vite's terminal, but not what the plugin does itself: it reports what is wrong
 * with the configuration, and checks the hosts, of which the gateway would warn at its start. Development needs no audit
 * log, which `createLog()` would write at any level.
 */
function viteLog(logger: ViteLogger): Log {
  const write = (line: string) => {
    const [, level, message] = /^\S+ (\S+) +(.*)$/s.exec(line) ?? [];
    logger[level === "ERROR" ? "error" : "warn"](`[rep] ${message}`, {
      timestamp: true,
    });
  };
  const log = createLog({ format: "text", level: "warn", write });
  return {
    ...silentLog,
    warn: (event, fields) =>
      event === "rep.start.warning" ? undefined : log.warn(event, fields),
    error: (event, fields) =>
      event === "rep.config.rejected" ? undefined : log.error(event, fields),
  };
}
