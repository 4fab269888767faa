import type { CertificateRejection } from "../../addons/certificate_watch.ts";
import type { ReloadOptions } from "../../core/config/configuration.ts";
import { createGatewayIn } from "../../gateway.ts";
import type { Gateway } from "../../gateway_interface.ts";
import { denoFileSystem } from "../../files/local_files.ts";
import { hostRule } from "../../core/http/allowed_hosts.ts";
import type { ConnectionInfo } from "../../core/http/respond.ts";
import { type Log, messageOf } from "../../core/observe/log.ts";
import type { Telemetry } from "../../core/observe/telemetry.ts";
import type { ProcessInfo } from "../../options.ts";
import { MEMORY } from "../../engines/memory.ts";
import { openStore } from "../../engines/open.ts";
import type { Store } from "../../core/store/store.ts";
import { type Clock, sleep, waitAtMost } from "../../core/values/clock.ts";
import { isGranted } from "../../core/values/runtime.ts";
import {
  sharesDefaultDatabase,
  type Start,
  storeOfGateway,
} from "../options/read_start.ts";
import {
  shownOptions,
  toGatewayOptions,
} from "../options/to_gateway_options.ts";
import { readTls } from "../sources/secret_files.ts";
import {
  createSources,
  findDefaultManifest,
} from "../sources/variable_sources.ts";
import { loadTriggers, ownFiles, startWarnings } from "./check_start.ts";
import { anyHostname } from "./any_hostname.ts";
import { listen, type Listener } from "./listen.ts";
import type { Served } from "./served.ts";
import { logNodeWarnings } from "./start_log.ts";
import { createStartingResponder } from "./starting_responder.ts";

/** What a {@linkcode Service} depends on. */
interface ServiceOptions {
  readonly log: Log;
  readonly telemetry: Telemetry | undefined;
  readonly clock: Clock;
  /** Returns how many lines of the log were dropped. */
  readonly droppedLines: () => number;
}

/** How long the system may take to send the last bytes of responses after the drain. */
export const FLUSH_MS = 1_000;

/**
 * The process around a gateway, from its start to the end of its shutdown: its ports, its store, and what triggers its
 * reloads.
 */
export class Service {
  readonly #start: Start;
  readonly #log: Log;
  readonly #telemetry: Telemetry | undefined;
  readonly #clock: Clock;
  readonly #droppedLines: () => number;
  /** Responds until there is a gateway. */
  readonly #starting: Pick<Gateway, "fetch" | "fetchHealth">;
  /** Settled as soon as there is a gateway, which may still wait for its store, or when the start has failed. */
  readonly #created = Promise.withResolvers<Served>();
  #gateway: Served | undefined;
  #isReady = false;
  /** Both listeners are `undefined` under `deno serve`, which binds the port itself. */
  #listener: Listener | undefined;
  #healthListener: Listener | undefined;
  #store: Store | undefined;
  #stopTriggers: (() => void) | undefined;
  #reloadingTls: Promise<void> = Promise.resolve();
  #tlsRejection: CertificateRejection | undefined;

  constructor(start: Start, options: ServiceOptions) {
    this.#start = start;
    this.#log = options.log;
    this.#telemetry = options.telemetry;
    this.#clock = options.clock;
    this.#droppedLines = options.droppedLines;
    this.#starting = createStartingResponder({
      options: start.options,
      version: start.version,
      created: this.#created.promise,
      clock: options.clock,
      log: options.log,
    });
    this.#created.promise.catch(() => {}); // start() throws the same error
  }

  /**
   * Reads the certificate and binds every port. From then on, health is 503 `starting`, and other requests wait.
   *
   * @throws {Error} If a port cannot be bound or the certificate cannot be used; then no port stays bound.
   */
  async bind(): Promise<void> {
    const { options } = this.#start;
    this.#listener = listen({
      serves: "gateway",
      hostname: options.hostname ?? anyHostname(options.port, this.#log),
      port: options.port,
      path: options["base-path"],
      tls: await readTls(options),
      handler: this.fetch,
      clock: this.#clock,
      log: this.#log,
    });
    const healthPort = options["health-port"];
    if (healthPort === undefined) return;
    try {
      this.#healthListener = listen({
        serves: "health",
        hostname: options.hostname ?? anyHostname(healthPort, this.#log),
        port: healthPort,
        path: "",
        tls: undefined,
        handler: this.fetchHealth,
        clock: this.#clock,
        log: this.#log,
      });
    } catch (error) {
      await this.#unbind();
      throw error;
    }
  }

  /**
   * Opens the store, reads it and the variables, joins the rollout and publishes changes. If that fails, it closes the
   * ports and the store. If the process is stopped before, it never ends.
   *
   * @throws {ConfigurationError} If the variables are invalid.
   * @throws {TypeError} If the store cannot be opened.
   */
  async start(): Promise<void> {
    try {
      const { upstream, kv = "" } = this.#start.options;
      if (upstream !== undefined || kv.startsWith("postgres")) {
        await logNodeWarnings(this.#log);
      }
      await this.#startTriggers();
      this.#store = await this.#openStore();
      this.#gateway = await this.#createGateway(this.#store);
      this.#created.resolve(this.#gateway);
      await this.#gateway.ready;
      this.#isReady = true;
    } catch (error) {
      this.#created.reject(error);
      this.#stopTriggers?.();
      this.#store?.close();
      await this.#unbind();
      throw error;
    }
    this.#listener?.logListening();
    this.#healthListener?.logListening();
  }

  /** The URL of the app for a browser on this machine; `undefined` if there is none, one for each site, or it would get 421. */
  get link(): string | undefined {
    const { sites, "allowed-hosts": hosts } = this.#start.options;
    const link = this.#listener?.link;
    if (sites !== undefined || link === undefined) return undefined;
    return hostRule(hosts)(link) ? link : undefined;
  }

  /** Responds to every request. */
  readonly fetch = (
    request: Request,
    info?: ConnectionInfo,
  ): Response | Promise<Response> => {
    const responder = this.#gateway ?? this.#starting;
    return responder.fetch(request, info);
  };

  /** Responds to requests for health, probes and metrics only. */
  readonly fetchHealth = (request: Request): Response | Promise<Response> => {
    const responder = this.#gateway ?? this.#starting;
    return responder.fetchHealth(request);
  };

  /** Reads the variables and the certificate again as soon as the gateway is ready. It logs issues. */
  reloadVariablesAndTls(options: ReloadOptions): void {
    // The gateway logs an error as rep.config.rejected, or start() throws it.
    void this.#reloadVariables(options).catch(() => {});
    // If two ran at once, the one that read the older file could finish last.
    this.#reloadingTls = this.#reloadingTls.then(() => this.#reloadTls());
  }

  /**
   * Announces the shutdown, keeps serving for `--stop-delay`, then closes the ports, ends streams and requests within
   * `--drain`, and closes the store. Of a start, it waits for the first attempt to read the store only.
   */
  async stop(): Promise<void> {
    const { "stop-delay": stopDelayMs, drain: drainMs } = this.#start.options;
    const gateway = await this.#created.promise;
    this.#stopTriggers?.();
    gateway.beginShutdown();
    if (this.#isReady && stopDelayMs > 0) await sleep(stopDelayMs, this.#clock);
    await gateway.close({ drainMs, stopListening: () => this.#unbind() });
    await waitAtMost(FLUSH_MS, this.#unbind(), this.#clock);
    this.#store?.close();
  }

  async #startTriggers(): Promise<void> {
    const { options } = this.#start;
    const triggers = await loadTriggers(options["hot-reload-mode"]);
    this.#stopTriggers = await triggers?.startTriggers({
      options,
      reload: () => this.reloadVariablesAndTls({}),
      clock: this.#clock,
      log: this.#log,
    });
  }

  /** Opens the gateway's part of the store, and logs warnings about options that are probably mistakes. */
  async #openStore(): Promise<Store> {
    const { options, isSet } = this.#start;
    // Under `deno serve`, the port is not known.
    const port = this.#listener === undefined ? 0 : options.port;
    // Each site is an app. It has the same part of the store as a process of its own with --app.
    const app = options.app ?? options.sites;
    const place = { kv: options.kv, app, port };
    const store = await openStore(options.kv, this.#log);
    const isStoreShared = store.engine !== MEMORY;
    const warnings = startWarnings(options, {
      isStoreShared,
      sharesDefaultDatabase: isStoreShared && sharesDefaultDatabase(place),
      isModeSet: isSet("hot-reload-mode"),
      defaultManifest: await findDefaultManifest(),
    });
    for (const detail of warnings) {
      this.#log.warn("rep.start.warning", { detail });
    }
    return storeOfGateway(store, place);
  }

  async #createGateway(store: Store): Promise<Served> {
    const { options, masterKey, version } = this.#start;
    const listener = this.#listener;
    const log = this.#log;
    const clock = this.#clock;
    const sources = createSources(options, { clock, log });
    const process: ProcessInfo = {
      version,
      sourceOf: sources.sourceOf,
      shownOptions: () => shownOptions(options),
      scheme: listener?.scheme,
      sharesBytes: true,
      certificate: {
        notAfter: () => listener?.certificateNotAfter,
        rejection: () => this.#tlsRejection,
      },
      droppedLines: this.#droppedLines,
    };
    const instanceId = listener === undefined
      ? undefined
      : resolveInstanceId(options.port, listener);
    const telemetry = this.#telemetry;
    const services = { instanceId, masterKey, store, log, telemetry, clock };
    const { variables, manifest } = sources;
    if (options.sites !== undefined) {
      const { openSites } = await import("../sites/sites.ts");
      return await openSites({
        options,
        directory: options.sites,
        variables,
        process,
        services,
        files: denoFileSystem,
      });
    }
    const gatewayOptions = toGatewayOptions(options, {
      variables,
      manifest,
      neverServed: () => ownFiles(options),
      services,
    });
    return await createGatewayIn(process, gatewayOptions);
  }

  async #reloadVariables(options: ReloadOptions): Promise<void> {
    const gateway = await this.#created.promise;
    await gateway.reload(options);
  }

  async #reloadTls(): Promise<void> {
    try {
      const tls = await readTls(this.#start.options);
      if (tls === undefined || this.#listener === undefined) return;
      const isNew = await this.#listener.useTls(tls, async () => {
        await this.#gateway?.finishIncoming(this.#start.options.drain);
      });
      const wasRejected = this.#tlsRejection !== undefined;
      this.#tlsRejection = undefined;
      if (!isNew && !wasRejected) return;
      const not_after = tls.notAfter?.toISOString();
      this.#log.info("rep.tls.reloaded", { not_after });
    } catch (error) {
      const detail = messageOf(error);
      const since = this.#tlsRejection?.since ?? this.#clock.now();
      this.#tlsRejection = { detail, since };
      this.#log.error("rep.tls.rejected", {
        detail: `the previous certificate stays: ${detail}`,
      });
    }
  }

  async #unbind(): Promise<void> {
    await Promise.all([
      this.#listener?.shutdown(),
      this.#healthListener?.shutdown(),
    ]);
  }
}

/** Returns host name, address and port, which no two running processes share; `undefined` if they are unknown. */
function resolveInstanceId(
  port: number,
  { address }: Listener,
): string | undefined {
  if (port === 0) return undefined;
  if (!isGranted({ name: "sys", kind: "hostname" })) return undefined;
  return `${Deno.hostname()} ${address}`;
}
