import { type Manifest, parseManifest } from "../config/variables/manifest.ts";
import { readFile, writeFile } from "node:fs/promises";
import { relative } from "node:path";
import { RE2JS } from "re2js";
import { classify, type Environment } from "../config/variables/tiers.ts";
import {
  readEnvFiles,
  readEnvironment,
} from "../config/files/read_environment.ts";
import { generateTypes } from "../config/variables/generate_types.ts";
import { ConfigurationError } from "../config/variables/snapshot.ts";
import { watchFiles } from "../config/mod.ts";
import { createGateway } from "../gateway.ts";
import type { Gateway } from "../gateway_interface.ts";
import { internalHostRule } from "../http/allowed_hosts.ts";
import {
  type NodeHandler,
  type NodeRequest,
  type NodeResponse,
  toNodeHandler,
} from "../http/node_handler.ts";
import { createLog, type Log, messageOf, silentLog } from "../observe/log.ts";
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
  readonly pages: ViteWebSocket | undefined;
}

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
  #sensitiveRead = "";
  #sensitiveServed = "";
  #mistake: string | undefined;
  #loading: Promise<void> = Promise.resolve();

  private constructor(options: DevGatewayOptions) {
    this.#options = options;
    this.#isAllowedHost = viteHostRule(options.allowedHosts);
  }

  /** Starts a gateway. If its files have a mistake, it reports that, and starts when they are corrected. */
  static async start(options: DevGatewayOptions): Promise<DevGateway> {
    const { manifest, envFiles, pages } = options;
    const started = new DevGateway(options);
    pages?.on("connection", () => started.#showMistake());
    await started.#load();
    const paths = manifest === undefined ? envFiles : [...envFiles, manifest];
    started.#watcher = await watchFiles(paths, () => started.#loadAgain());
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

  #isOwn({ url = "" }: NodeRequest): boolean {
    return url.startsWith(`${this.#basePath()}/rep/`);
  }

  #basePath(): string {
    return this.#options.config.base.replace(/\/$/, "");
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
    const wasInvalid = this.#mistake !== undefined;
    try {
      this.#manifest = await this.#readManifest();
      await this.#writeTypes();
      if (isStart) await this.#start();
      else await this.#gateway?.reload();
    } catch (error) {
      this.#report(error);
      return;
    }
    const isReplaced = this.#sensitiveRead !== this.#sensitiveServed;
    this.#sensitiveServed = this.#sensitiveRead;
    if (wasInvalid) this.#reportValid();
    // Open pages have no configuration yet, or SENSITIVE values that no stream replaces.
    const isOutdated = isStart ? wasInvalid : isReplaced;
    const { pages } = this.#options;
    if (isOutdated) pages?.send({ type: "full-reload" });
    else if (wasInvalid) pages?.send({ type: "update", updates: [] }); // closes the overlay
  }

  async #start(): Promise<void> {
    const { config } = this.#options;
    const basePath = this.#basePath();
    this.#gateway = await createGateway({
      variables: () => this.#readVariables(),
      manifest: () => this.#manifest,
      loadPatternLibrary: () => Promise.resolve({ RE2JS }),
      hotReload: true,
      basePath: basePath.startsWith("/") ? basePath : "",
      log: viteLog(config.logger),
    });
    this.#handle = toNodeHandler(this.#gateway);
  }

  async #readVariables(): Promise<Environment> {
    const { variables, places } = await readVariables(this.#options.envFiles);
    this.#places = places;
    const classified = classify(variables).variables;
    const sensitive = classified.filter(({ tier }) => tier === "sensitive");
    this.#sensitiveRead = JSON.stringify(sensitive);
    return variables;
  }

  async #readManifest(): Promise<Manifest | undefined> {
    const { manifest: path, config } = this.#options;
    if (path === undefined) return undefined;
    const text = await readManifestFile(path);
    return parseManifest(text, { path: relative(config.root, path) });
  }

  /** Writes the types only if they differ: Vite would reload the page, and an editor check the whole project. */
  async #writeTypes(): Promise<void> {
    const { types, config } = this.#options;
    const manifest = this.#manifest;
    if (manifest === undefined || types === undefined) return;
    if (manifest.issues.length > 0) {
      throw new ConfigurationError(manifest.issues);
    }
    const text = generateTypes(manifest.variables);
    const written = await readFile(types, "utf8").catch(() => undefined);
    if (text === written) return;
    await writeFile(types, text);
    const name = relative(config.root, types);
    config.logger.info(`[rep] wrote ${name}`, { timestamp: true });
  }

  #report(error: unknown): void {
    const issues = error instanceof ConfigurationError
      ? error.issues
      : [messageOf(error)];
    const located = issues.map((issue) => this.#locate(issue));
    this.#mistake = located.join("\n");
    const rest = this.#gateway === undefined
      ? "pages have no configuration"
      : "the last valid configuration stays";
    const { logger } = this.#options.config;
    logger.error(
      `[rep] ${this.#mistake}\n[rep] ${rest} until that is corrected`,
      { timestamp: true },
    );
    this.#showMistake();
  }

  /** Says where the variable is set that an issue is about. */
  #locate(issue: string): string {
    const [, name = ""] = /^Cannot use (REP_\w+)/.exec(issue) ?? [];
    const place = this.#places.get(name);
    return place === undefined ? issue : `${place}: ${issue}`;
  }

  /** Vite would keep an error for the next page if none is open, but so does this class. */
  #showMistake(): void {
    const { pages } = this.#options;
    if (this.#mistake === undefined || !pages?.clients.size) return;
    // A page whose first update finds an overlay is reloaded, so that has to be an update before the overlay.
    pages.send({ type: "update", updates: [] });
    const err = { message: this.#mistake, stack: "", plugin: "rep" };
    pages.send({ type: "error", err });
  }

  #reportValid(): void {
    this.#mistake = undefined;
    const { logger } = this.#options.config;
    const message = "[rep] the configuration is valid again";
    logger.info(message, { timestamp: true });
  }
}

/**
 * Returns Vite's own rule for the `Host` header, which Vite applies only after its plugins: this computer, IP addresses,
 * and `allowedHosts`, in which a leading dot stands for a domain with its subdomains.
 *
 * @param allowedHosts Vite's option; `true` allows any host.
 */
function viteHostRule(
  allowedHosts: readonly string[] | true | undefined = [],
): (host: string) => boolean {
  if (allowedHosts === true) return () => true;
  const patterns = ["*.localhost"];
  for (const host of allowedHosts) {
    if (host.startsWith(".")) patterns.push(host.slice(1), `*${host}`);
    else patterns.push(host);
  }
  const isAllowed = internalHostRule(patterns);
  return (host) => {
    const origin = `http://${host}`;
    return URL.canParse(origin) && isAllowed(origin);
  };
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

/** Variables, and where each of them is set. */
interface LocatedVariables {
  readonly variables: Environment;
  /** The path and the line; nothing for a variable of the process's environment. */
  readonly places: ReadonlyMap<string, string>;
}

/**
 * Reads the variables of env files, of which the last takes precedence; the environment of the process takes precedence
 * over all of them.
 *
 * @throws {ConfigurationError} If a file cannot be read or is invalid: with its path and the line of each issue.
 */
async function readVariables(
  paths: readonly string[],
): Promise<LocatedVariables> {
  const files = await readEnvFiles(paths).catch(rejectWithLinks);
  const variables: Record<string, string> = {};
  const places = new Map<string, string>();
  for (const [index, file] of files.entries()) {
    Object.assign(variables, file.variables);
    for (const [name, line] of file.lines) {
      places.set(name, `${paths[index]}:${line}`);
    }
  }
  const environment = readEnvironment();
  Object.assign(variables, environment);
  for (const name of Object.keys(environment)) places.delete(name);
  return { variables, places };
}

/** Terminals and editors open `path:line` at a click if it is not within quotes. */
function rejectWithLinks(error: unknown): never {
  if (!(error instanceof ConfigurationError)) throw error;
  const issues = error.issues.map((issue) => issue.replace(/^"(.*?)":/, "$1:"));
  throw new ConfigurationError(issues, { cause: error });
}

async function readManifestFile(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as { code?: string }).code !== "ENOENT") throw error;
    throw new Error(`${path}: expected the manifest, or no option "manifest"`);
  }
}

/**
 * Warnings and errors of the gateway in Vite's terminal, but not what the plugin does itself: it reports what is wrong
 * with the configuration, and checks the hosts, of which the gateway would warn at its start. Development needs no audit
 * log, which `createLog()` would write at any level.
 */
function viteLog(logger: ViteLogger): Log {
  function write(line: string): void {
    const [, level, message] = /^\S+ (\S+) +(.*)$/s.exec(line) ?? [];
    const text = `[rep] ${message}`;
    if (level === "ERROR") logger.error(text, { timestamp: true });
    else logger.warn(text, { timestamp: true });
  }
  const log = createLog({ format: "text", level: "warn", write });
  return {
    ...silentLog,
    warn(event, fields) {
      if (event !== "rep.start.warning") log.warn(event, fields);
    },
    error(event, fields) {
      if (event !== "rep.config.rejected") log.error(event, fields);
    },
  };
}
