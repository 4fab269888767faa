import type { ReloadOptions } from "../../config/configuration.ts";
import { ConfigurationError } from "../../config/snapshot.ts";
import {
  HEALTH_PATH,
  HealthEndpoint,
  STARTING,
} from "../../endpoints/health.ts";
import {
  handleLive,
  handleReady,
  LIVE_PATH,
  READY_PATH,
} from "../../endpoints/probes.ts";
import { createGateway, type Gateway } from "../../gateway.ts";
import type { GatewayOptions } from "../../gateway_options.ts";
import { Problem } from "../../http/problem.ts";
import {
  createRoute,
  createRoutes,
  READ_METHODS,
  RequestUrls,
  type Routes,
  type RouteTable,
} from "../../http/routes.ts";
import { type ConnectionInfo, createResponder } from "../../http/respond.ts";
import { createLog, type Log, messageOf } from "../../observe/log.ts";
import {
  noMetrics,
  noTelemetry,
  type Telemetry,
} from "../../observe/metrics.ts";
import { openTelemetry } from "../../observe/open_telemetry.ts";
import { MEMORY } from "../../store/memory.ts";
import { openStore } from "../../store/open.ts";
import type { Store } from "../../store/store.ts";
import { type Clock, sleep, waitAtMost } from "../../values/clock.ts";
import { isGranted } from "../../values/permissions.ts";
import type { ServeCommand } from "../options/command.ts";
import type { CommandOptions } from "../options/option_table.ts";
import { toGatewayOptions } from "../options/to_gateway_options.ts";
import { findDefaultManifest } from "../sources/sources.ts";
import { checkPermissions } from "./check_permissions.ts";
import { listen, type Listener } from "./listen.ts";
import { logRuntimeWarnings } from "./runtime_warnings.ts";
import { logUncaughtErrors } from "./signals.ts";
import { startWarnings } from "./start_warnings.ts";
import { sharesDefaultDatabase, storeOfGateway } from "./store_of_gateway.ts";
import { readTls, type Tls } from "./tls.ts";

/** Options of {@linkcode Service}. */
interface ServiceOptions {
  log: Log;
  telemetry: Telemetry | undefined;
  clock: Clock;
}

/** All options of the gateway: a new one does not compile until it is set. */
type EveryOption = {
  readonly [Name in keyof Required<GatewayOptions>]: GatewayOptions[Name];
};

type GatewayFetch = (gateway: Gateway) => Promise<Response>;

/** How long the last bytes of a response may take to leave after the drain. */
const FLUSH_MS = 1_000;

const STARTING_PROBES: RouteTable = {
  [LIVE_PATH]: { methods: READ_METHODS, handler: handleLive },
  [READY_PATH]: {
    methods: READ_METHODS,
    handler: (request) => handleReady(request, "starting"),
  },
};

/**
 * A gateway with its ports, its store and its reload triggers, from the first step of the startup to the last of the
 * shutdown.
 */
export class Service {
  readonly #command: ServeCommand;
  readonly #options: ServiceOptions;
  readonly #ready = Promise.withResolvers<Gateway>();
  /** What is served on the port, and on the health port, before the gateway is ready. */
  readonly #startingRoutes: Routes;
  readonly #startingHealthRoutes: Routes;
  #gateway: Gateway | undefined;
  readonly #listeners: Listener[] = [];
  #store: Store | undefined;
  #stopTriggers: (() => void) | undefined;
  #reloadingTls: Promise<void> = Promise.resolve();

  constructor(command: ServeCommand, options: ServiceOptions) {
    this.#command = command;
    this.#options = options;
    const { "health-port": healthPort, "base-path": basePath } =
      command.options;
    const health = new HealthEndpoint(options.clock);
    const table: RouteTable = {
      [HEALTH_PATH]: {
        methods: READ_METHODS,
        handler: (request) => health.respond(request, STARTING),
      },
    };
    this.#startingRoutes = createRoutes(
      healthPort === undefined ? table : {},
      basePath,
    );
    this.#startingHealthRoutes = createRoutes(
      { ...table, ...STARTING_PROBES },
      "",
    );
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
    const common = { hostname, ...this.#options, ready: this.#ready.promise };
    this.#listeners.push(
      listen({
        ...common,
        serves: "gateway",
        port,
        path,
        tls,
        handler: this.fetch,
        finishUploads: () => this.#finishUploads(),
      }),
    );
    if (healthPort === undefined) return;
    const health = {
      ...common,
      serves: "health",
      path: "",
      tls: undefined,
      handler: this.fetchHealth,
    };
    try {
      this.#listeners.push(listen({ ...health, port: healthPort }));
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
      this.#ready.resolve(this.#gateway = await this.#createGateway(failure));
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
    this.#ready.promise.then((gateway) => gateway.reload(options)).catch(
      () => {},
    ); // logged as rep.config.rejected
    // One after the other: of two at once, the one that has read the older file could come last.
    this.#reloadingTls = this.#reloadingTls.then(() => this.#reloadTls()).catch(
      (error) => {
        this.#options.log.error("rep.tls.rejected", {
          detail: `the previous certificate stays: ${messageOf(error)}`,
        });
      },
    );
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
    const { options, masterKey, isSet } = this.#command;
    const { log } = this.#options;
    const { kv, app } = options;
    const isPortKnown = this.#listeners.length > 0; // not under `deno serve`
    const place = { kv, app, port: isPortKnown ? options.port : 0 };
    const store = storeOfGateway(await openStore(kv, log), place);
    this.#store = store;
    const defaultManifest = await findDefaultManifest();
    const isStoreShared = store.engine !== MEMORY;
    const found = {
      isStoreShared,
      sharesDefaultDatabase: isStoreShared && sharesDefaultDatabase(place),
      isModeSet: isSet("hot-reload-mode"),
      defaultManifest,
    };
    for (const detail of startWarnings(options, found)) {
      log.warn("rep.start.warning", { detail });
    }
    const instanceId = isPortKnown ? resolveInstanceId(options) : undefined;
    const neverServed = async () =>
      await (await import("./own_files.ts")).ownFiles(options);
    const settings = async () =>
      (await import("../options/help.ts")).formatOptions(options);
    const certificateNotAfter = () => this.#listeners[0]?.certificateNotAfter;
    const context = {
      ...this.#options,
      random: Math.random,
    };
    const process = {
      masterKey,
      instanceId,
      failure,
      store,
      neverServed,
      settings,
      certificateNotAfter,
      ...context,
    };
    const all = {
      ...toGatewayOptions(options, context),
      ...process,
      loadPatternLibrary: undefined,
    };
    return await createGateway(all satisfies EveryOption);
  }

  #fetchWhileStarting(
    request: Request,
    routes: Routes,
    fetch: GatewayFetch,
  ): Promise<Response> {
    const respond = createResponder({
      ...this.#options,
      urls: new RequestUrls(),
      isTrusted: () => false,
      isAllowedHost: undefined,
      warnOfProxy: undefined,
      accessLog: false,
      telemetry: noTelemetry,
      metrics: noMetrics,
    });
    const other = createRoute({ handler: () => this.#whenReady(fetch) }, "/*");
    return respond(request, undefined, (path) => routes.get(path) ?? other);
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
    const tls: Tls | undefined = await readTls(this.#command.options);
    if (tls === undefined || !await this.#listeners[0]?.useTls(tls)) return;
    this.#options.log.info("rep.tls.reloaded", {
      not_after: tls.notAfter?.toISOString(),
    });
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
