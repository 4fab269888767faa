import type { ReloadOptions } from "../../config/configuration.ts";
import { ConfigurationError } from "../../config/variables/snapshot.ts";
import {
  createHealthEndpoint,
  createReadyEndpoint,
  LIVE_ENDPOINT,
  startingHealth,
} from "../../endpoints/health.ts";
import { createGatewayIn, type Gateway } from "../../gateway.ts";
import { Problem } from "../../http/problem.ts";
import {
  createRoute,
  createRoutes,
  RequestUrls,
  type Routes,
  type RouteTable,
} from "../../http/routes.ts";
import {
  type ConnectionInfo,
  createResponder,
  type Responder,
} from "../../http/respond.ts";
import { createLog, type Log, messageOf } from "../../observe/log.ts";
import {
  noMetrics,
  noTelemetry,
  type Telemetry,
} from "../../observe/metrics.ts";
import { openTelemetry } from "../../observe/open_telemetry.ts";
import type { ProcessInfo } from "../../options.ts";
import { MEMORY } from "../../store/memory.ts";
import { openStore } from "../../store/open.ts";
import type { Store } from "../../store/store.ts";
import { type Clock, sleep, waitAtMost } from "../../values/clock.ts";
import { isGranted } from "../../values/runtime.ts";
import type { ServeCommand } from "../options/command.ts";
import type { CommandOptions } from "../options/option_table.ts";
import { toGatewayOptions } from "../options/to_gateway_options.ts";
import { createSources, findDefaultManifest } from "../sources/sources.ts";
import { checkPermissions } from "./check_permissions.ts";
import { listen, type Listener } from "./listen.ts";
import { logRuntimeWarnings } from "./runtime_warnings.ts";
import { logUncaughtErrors } from "./signals.ts";
import { startWarnings } from "./start_warnings.ts";
import { sharesDefaultDatabase, storeOfGateway } from "./store_of_gateway.ts";
import { readTls } from "./tls.ts";

/** Options of {@linkcode Service}. */
interface ServiceOptions {
  log: Log;
  telemetry: Telemetry | undefined;
  clock: Clock;
}

type GatewayFetch = (gateway: Gateway) => Promise<Response>;

/** How long the last bytes of a response may take to leave after the drain. */
const FLUSH_MS = 1_000;

/**
 * The process around a gateway: its ports, its store and what triggers its reloads, from the first step of the startup to
 * the last of the shutdown.
 */
export class Service {
  readonly #command: ServeCommand;
  readonly #options: ServiceOptions;
  readonly #ready = Promise.withResolvers<Gateway>();
  /** What is served on the port, and on the health port, before the gateway is ready. */
  readonly #startingRoutes: Routes;
  readonly #startingHealthRoutes: Routes;
  readonly #respondWhileStarting: Responder;
  #gateway: Gateway | undefined;
  readonly #listeners: Listener[] = [];
  #store: Store | undefined;
  #stopTriggers: (() => void) | undefined;
  #reloadingTls: Promise<void> = Promise.resolve();

  constructor(command: ServeCommand, options: ServiceOptions) {
    this.#command = command;
    this.#options = options;
    const { clock, log } = options;
    const { "health-port": healthPort, "base-path": basePath } =
      command.options;
    const health = createHealthEndpoint(startingHealth(clock));
    const publicTable: RouteTable = healthPort === undefined
      ? { "/rep/health": health }
      : {};
    this.#startingRoutes = createRoutes(publicTable, basePath);
    this.#startingHealthRoutes = createRoutes({
      "/rep/health": health,
      "/livez": LIVE_ENDPOINT,
      "/readyz": createReadyEndpoint(startingHealth(clock)),
    }, "");
    this.#respondWhileStarting = createResponder({
      urls: new RequestUrls(),
      isTrusted: () => false,
      isAllowedHost: undefined,
      warnOfProxy: undefined,
      accessLog: false,
      log,
      telemetry: noTelemetry,
      metrics: noMetrics,
      clock,
    });
    this.#ready.promise.catch(() => {}); // start() throws the same error
  }

  /**
   * Reads the certificate and binds every port. From here on health is 503 `starting`, and other requests wait.
   *
   * @throws {Error} If a port cannot be bound or the certificate cannot be used; then no port stays bound.
   */
  async bind(): Promise<void> {
    const { hostname, port, "health-port": healthPort, "base-path": path } =
      this.#command.options;
    const tls = await readTls(this.#command.options);
    const { clock, log } = this.#options;
    const ready = this.#ready.promise;
    this.#listeners.push(
      listen({
        serves: "gateway",
        hostname,
        port,
        path,
        tls,
        handler: this.fetch,
        finishUploads: () => this.#finishUploads(),
        ready,
        clock,
        log,
      }),
    );
    if (healthPort === undefined) return;
    try {
      this.#listeners.push(
        listen({
          serves: "health",
          hostname,
          port: healthPort,
          path: "",
          tls: undefined,
          handler: this.fetchHealth,
          ready,
          clock,
          log,
        }),
      );
    } catch (error) {
      await this.#unbind();
      throw error;
    }
  }

  /**
   * Opens the store, reads the variables, joins the rollout and publishes what changed. If it fails, ports and store
   * are closed.
   *
   * @throws {ConfigurationError} If the variables are invalid.
   * @throws {TypeError} If the store cannot be opened.
   */
  async start(): Promise<void> {
    // Not earlier: `deno serve` must exit if it cannot bind its port.
    const failure = logUncaughtErrors(this.#options.log);
    try {
      const triggers = await loadTriggers(this.#command.options);
      this.#stopTriggers = await triggers?.startTriggers(
        this.#command.options,
        () => this.reload({}),
        this.#options,
      );
      this.#gateway = await this.#createGateway(failure);
      this.#ready.resolve(this.#gateway);
    } catch (error) {
      this.#ready.reject(error);
      this.#stopTriggers?.();
      this.#store?.close();
      await this.#unbind();
      throw error;
    }
  }

  /** Responds to every request. */
  readonly fetch = (
    request: Request,
    info?: ConnectionInfo,
  ): Promise<Response> => {
    if (this.#gateway !== undefined) return this.#gateway.fetch(request, info);
    return this.#fetchWhileStarting(
      request,
      this.#startingRoutes,
      (gateway) => gateway.fetch(request, info),
    );
  };

  /** Responds to requests for health, probes and metrics only. */
  readonly fetchHealth = (request: Request): Promise<Response> => {
    if (this.#gateway !== undefined) return this.#gateway.fetchHealth(request);
    return this.#fetchWhileStarting(
      request,
      this.#startingHealthRoutes,
      (gateway) => gateway.fetchHealth(request),
    );
  };

  /**
   * Reads the variables and the certificate again, as soon as the gateway is ready. The log has the issues, if there
   * are any.
   */
  reload(options: ReloadOptions): void {
    void this.#reloadVariables(options);
    // One after the other: of two at once, the one that has read the older file could come last.
    this.#reloadingTls = this.#reloadingTls.then(() => this.#reloadTls());
  }

  async #reloadVariables(options: ReloadOptions): Promise<void> {
    try {
      const gateway = await this.#ready.promise;
      await gateway.reload(options);
    } catch {
      // It is logged as rep.config.rejected, or start() throws it.
    }
  }

  /**
   * Announces the shutdown, serves on for `--stop-delay`, then closes the ports, ends streams and requests within
   * `--drain`, and closes the store. A start that is still under way is waited for.
   */
  async stop(): Promise<void> {
    const gateway = await this.#ready.promise;
    const { "stop-delay": stopDelayMs, drain: drainMs } = this.#command.options;
    this.#stopTriggers?.();
    gateway.beginShutdown();
    if (stopDelayMs > 0) await sleep(stopDelayMs, this.#options.clock);
    await gateway.close({ drainMs, stopListening: () => this.#unbind() });
    await waitAtMost(FLUSH_MS, this.#unbind(), this.#options.clock);
    this.#store?.close();
  }

  async #createGateway(failure: AbortSignal): Promise<Gateway> {
    const { options, masterKey } = this.#command;
    const { log, clock, telemetry } = this.#options;
    const isPortKnown = this.#listeners.length > 0; // not under `deno serve`
    const store = await this.#openStore(isPortKnown ? options.port : 0);
    const sources = createSources(options, { clock, log });
    const process: ProcessInfo = {
      sourceOf: sources.sourceOf,
      shownOptions: () => showOptions(options),
      failure,
      certificateNotAfter: () => this.#listeners[0]?.certificateNotAfter,
    };
    return await createGatewayIn(
      process,
      toGatewayOptions(options, {
        sources,
        neverServed: () => listOwnFiles(options),
        instanceId: isPortKnown ? resolveInstanceId(options) : undefined,
        masterKey,
        store,
        log,
        telemetry,
        clock,
      }),
    );
  }

  /** Opens the store, and warns of what was probably not intended. */
  async #openStore(port: number): Promise<Store> {
    const { options, isSet } = this.#command;
    const { log } = this.#options;
    const place = { kv: options.kv, app: options.app, port };
    const store = storeOfGateway(await openStore(options.kv, log), place);
    this.#store = store;
    const isStoreShared = store.engine !== MEMORY;
    const warnings = startWarnings(options, {
      isStoreShared,
      sharesDefaultDatabase: isStoreShared && sharesDefaultDatabase(place),
      isModeSet: isSet("hot-reload-mode"),
      defaultManifest: await findDefaultManifest(),
    });
    for (const detail of warnings) log.warn("rep.start.warning", { detail });
    return store;
  }

  #fetchWhileStarting(
    request: Request,
    routes: Routes,
    fetch: GatewayFetch,
  ): Promise<Response> {
    const other = createRoute({ handler: () => this.#whenReady(fetch) }, "/*");
    return this.#respondWhileStarting(
      request,
      undefined,
      (path) => routes.get(path) ?? other,
    );
  }

  async #whenReady(fetch: GatewayFetch): Promise<Response> {
    const gateway = await this.#ready.promise.catch(() => undefined); // start() reports the error
    if (gateway === undefined) {
      throw new Problem(503, { detail: "The gateway could not start" });
    }
    return await fetch(gateway);
  }

  async #finishUploads(): Promise<void> {
    await this.#gateway?.finishUploads(this.#command.options.drain);
  }

  async #reloadTls(): Promise<void> {
    const { log } = this.#options;
    try {
      const tls = await readTls(this.#command.options);
      const [listener] = this.#listeners;
      if (tls === undefined || !await listener?.useTls(tls)) return;
      log.info("rep.tls.reloaded", { not_after: tls.notAfter?.toISOString() });
    } catch (error) {
      log.error("rep.tls.rejected", {
        detail: `the previous certificate stays: ${messageOf(error)}`,
      });
    }
  }

  async #unbind(): Promise<void> {
    await Promise.all(this.#listeners.map((listener) => listener.shutdown()));
  }
}

/**
 * Checks permissions, files and reload triggers, without any effect.
 *
 * @throws {ConfigurationError} If a permission is missing.
 * @throws {UsageError} If a trigger cannot be set up.
 */
export async function checkStart(options: CommandOptions): Promise<void> {
  const issues = await checkPermissions(options);
  if (issues.length > 0) throw new ConfigurationError(issues);
  (await loadTriggers(options))?.checkTriggers(options);
}

/** Returns `undefined` if only a signal triggers a reload, so that a plain start does not load the file watcher. */
async function loadTriggers({ "hot-reload-mode": mode }: CommandOptions) {
  return mode === "signal" ? undefined : await import("../sources/triggers.ts");
}

/** Returns the options in effect, for the status page, which is all that needs their descriptions while it runs. */
async function showOptions(
  options: CommandOptions,
): Promise<Record<string, string>> {
  const { formatOptions } = await import("../options/help.ts");
  return formatOptions(options);
}

/** Returns the paths of what the gateway reads or stores. */
async function listOwnFiles(options: CommandOptions): Promise<string[]> {
  const { ownFiles } = await import("./own_files.ts");
  return await ownFiles(options);
}

/** Host name, address and port: no two running processes share all three. `undefined` if they cannot be known. */
function resolveInstanceId(
  { hostname, port }: CommandOptions,
): string | undefined {
  if (port === 0 || !isGranted({ name: "sys", kind: "hostname" })) {
    return undefined;
  }
  return `${Deno.hostname()} ${hostname}:${port}`;
}

/** Creates the log of a command, and writes the command's warnings to it. */
export function openCommandLog({ options, warnings }: ServeCommand): Log {
  const log = createLog({
    format: options["log-format"],
    level: options["log-level"],
  });
  logRuntimeWarnings(log);
  for (const detail of warnings) log.warn("rep.start.warning", { detail });
  return log;
}

/** Returns the telemetry of OpenTelemetry, if it is enabled. Without its package, the gateway runs all the same. */
export async function openTelemetryIfEnabled(
  log: Log,
): Promise<Telemetry | undefined> {
  try {
    return await openTelemetry();
  } catch (error) {
    log.warn("rep.telemetry.unavailable", { detail: messageOf(error) });
    return undefined;
  }
}
