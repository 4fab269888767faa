import type {
  PublicVariables,
  SensitiveVariables,
  ServerVariables,
} from "@rep/gateway/client";
import type { Changes } from "./changes/changes.ts";
import {
  Configuration,
  type ReloadOptions,
  type ValueListener,
} from "./config/configuration.ts";
import { requireRuntime } from "./values/runtime.ts";
import {
  newestWrite,
  StoredVariablesSource,
  VARIABLES_HEAD_KEY,
} from "./config/stored/stored_variables.ts";
import { type Content, openContent } from "./content/content.ts";
import { createChangesEndpoint } from "./endpoints/changes_endpoint.ts";
import {
  createHealthEndpoint,
  createReadyEndpoint,
  Health,
  LIVE_ENDPOINT,
} from "./endpoints/health.ts";
import { createMetricsEndpoint } from "./endpoints/metrics_endpoint.ts";
import {
  createSessionKeyEndpoint,
  SessionKeys,
} from "./endpoints/session_key.ts";
import type { StatusParts } from "./endpoints/status/status.ts";
import { hostRule } from "./http/allowed_hosts.ts";
import { createProxyWarning, trustRule } from "./http/client_address.ts";
import {
  type Endpoint,
  type Handler,
  notFound,
  READ_METHODS,
  readUrl,
  type RouteContext,
  Router,
} from "./http/routes.ts";
import {
  type ConnectionInfo,
  createResponder,
  type Responder,
} from "./http/respond.ts";
import { Epochs } from "./keys/epochs.ts";
import { sharedMasterKey } from "./keys/master_key.ts";
import { RateLimit, WINDOW_MS } from "./keys/rate_limit.ts";
import { CertificateWatch } from "./observe/certificate_watch.ts";
import { type GaugeValue, noMetrics } from "./observe/metrics.ts";
import {
  type GatewayOptions,
  type ProcessInfo,
  resolveServices,
  resolveSettings,
  resolveSources,
  type Services,
  type Settings,
  type Sources,
  UNKNOWN_PROCESS,
} from "./options.ts";
import type {
  ConfigScriptCache,
  GetConfigScript,
  PageValues,
} from "./pages/config_script.ts";
import { storeOfApp } from "./store/app_store.ts";
import { BackgroundTasks } from "./store/background_tasks.ts";
import { CircuitBreaker } from "./store/circuit_breaker.ts";
import { waitAtMost } from "./values/clock.ts";
import { VERSION } from "./values/version.ts";

/** The variables that a server reads with {@linkcode Gateway.getPrivate}, by name. */
export type PrivateVariables = SensitiveVariables & ServerVariables;

/** A running gateway. */
export interface Gateway extends AsyncDisposable {
  /**
   * Responds to every request; pass it to `Deno.serve`. Without `info`, all clients share one rate limit.
   */
  fetch(request: Request, info?: ConnectionInfo): Response | Promise<Response>;
  /**
   * Responds to a request if its path is the gateway's own, for servers with other routes; else returns `undefined`.
   */
  handle(
    request: Request,
    info?: ConnectionInfo,
  ): Promise<Response | undefined>;
  /**
   * Injects the configuration into a response if it is an HTML page, and returns any other response unchanged. HTML that
   * a script requests (`Sec-Fetch-Dest: empty`) is a fragment, whose body is not changed, except for navigations that a
   * service worker passes on. Pass complete pages: a 304 of your own would confirm a page with an old configuration, or
   * a stored fragment.
   *
   * @param request The request that is responded to: the response to HEAD has no body, and `If-None-Match` may make it
   * a 304.
   */
  inject(response: Response, request?: Request): Promise<Response>;
  /** Responds to `GET /rep/health`, `/livez`, `/readyz`, `/metrics` and `/status` only, for a port that stays internal. */
  fetchHealth(request: Request): Response | Promise<Response>;
  /**
   * Reads the variables again.
   *
   * @throws {ConfigurationError} If they are invalid; then everything stays as it was.
   */
  reload(options?: ReloadOptions): Promise<void>;
  /** Returns the value of a PUBLIC variable; `undefined` if it is not set. For what a server renders itself. */
  get<Name extends keyof PublicVariables & string>(
    name: Name,
  ): PublicVariables[Name];
  /**
   * Returns the value of a SENSITIVE or a SERVER variable; `undefined` if it is not set. It has another name than
   * {@linkcode Gateway.get}, so that code that runs in a page as well cannot reveal it.
   */
  getPrivate<Name extends keyof PrivateVariables & string>(
    name: Name,
  ): PrivateVariables[Name];
  /**
   * Calls back after each reload of this process that changes a variable of any tier, with its new and its old value.
   *
   * @returns A function that ends the subscription.
   */
  onChange(
    name: keyof (PublicVariables & PrivateVariables) & string,
    listener: ValueListener,
  ): () => void;
  /**
   * Announces the shutdown while everything is still served: `GET /rep/health` is 503 `stopping`, and this replica
   * leaves the rollout. Give load balancers time to notice before {@linkcode close}.
   */
  beginShutdown(): void;
  /**
   * Waits until no body of a proxied request is being received and no proxied WebSocket is open, both of which
   * `Deno.HttpServer.shutdown()` breaks. What it will break is logged. {@linkcode close} waits as well: call this one
   * before you shut down a server although the gateway goes on, such as for a new certificate.
   *
   * @param ms How long to wait at most, in milliseconds. More requests may arrive meanwhile.
   */
  finishUploads(ms: number): Promise<void>;
  /**
   * Ends all streams, lets proxied requests in flight finish, then closes the connections to the upstream. Calling it
   * again has no effect. The store stays open.
   *
   * Pass the server's `shutdown()` as `stopListening` instead of calling it yourself: it breaks uploads over HTTP/1.1
   * and closes proxied WebSockets at once. What does not finish in time is logged.
   */
  close(options?: CloseOptions): Promise<void>;
}

/** Options of {@linkcode Gateway.close}. */
export interface CloseOptions {
  /** Time over which streams end and within which requests and WebSockets may finish, in milliseconds. @default {0} */
  drainMs?: number;
  /**
   * Closes the ports, and resolves when no request is in flight. Called as soon as no body of a proxied request is being
   * received and no proxied WebSocket is open, since `Deno.HttpServer.shutdown` breaks both.
   *
   * @default {the caller closes the ports}
   */
  stopListening?: () => Promise<void>;
}

/**
 * Creates and starts a gateway.
 *
 * @throws {ConfigurationError} If the variables are invalid; the error lists all issues.
 * @throws {OptionError} If an option has an invalid value.
 *
 * @example Beside your own handler
 * ```ts
 * import { createGateway } from "@rep/gateway";
 * import { assertEquals } from "@std/assert";
 *
 * await using gateway = await createGateway({ variables: { REP_PUBLIC_API_URL: "https://api.example.com" } });
 * const response = await gateway.fetch(new Request("http://localhost/rep/health"));
 * const { variables } = await response.json();
 * assertEquals(variables, { public: 1, sensitive: 0, server: 0 });
 * ```
 */
export async function createGateway(
  options: GatewayOptions = {},
): Promise<Gateway> {
  return await createGatewayIn(UNKNOWN_PROCESS, options);
}

/** Creates and starts a gateway in a process of which more is known, as of the command's. */
export async function createGatewayIn(
  process: ProcessInfo,
  options: GatewayOptions,
): Promise<Gateway> {
  requireRuntime();
  const settings = resolveSettings(options);
  const services = resolveServices(options);
  const sources = resolveSources(options, process.sourceOf);
  const content = await openContent({
    staticDir: settings.staticDir,
    staticCacheBytes: settings.staticCacheBytes,
    immutable: settings.immutable,
    neverServed: sources.neverServed,
    upstream: settings.upstream,
    basePath: settings.basePath,
    preserveHost: settings.preserveHost,
    upstreamTimeoutMs: settings.upstreamTimeoutMs,
    maxTransfers: settings.maxTransfers,
    rejectWebsockets: settings.rejectWebsockets,
  }, {
    clock: services.clock,
    log: services.log,
    metrics: services.metrics,
  });
  // A gateway without hot reload does not load what publishes and delivers changes.
  const changesModule = settings.hotReload
    ? await import("./changes/changes.ts")
    : undefined;
  const gateway = new RunningGateway({
    settings,
    services,
    sources,
    process,
    content,
    changesModule,
  });
  try {
    await gateway.start();
    return gateway;
  } catch (error) {
    await gateway.close();
    throw error;
  }
}

/** What a gateway is made of. */
interface Ingredients {
  readonly settings: Settings;
  readonly services: Services;
  readonly sources: Sources;
  readonly process: ProcessInfo;
  /** What is served besides the endpoints. */
  readonly content: Content | undefined;
  /** `undefined` without hot reload. */
  readonly changesModule: typeof import("./changes/changes.ts") | undefined;
}

/** How often new writes to the variables in the store, and new events, are looked for. */
const POLL_MS = 1_000;
/** How often a publication that has failed is repeated while the store is available. */
const PUBLISH_MS = 5_000;
/** How often a store that has failed is probed, and what was counted in memory is stored. */
const PROBE_MS = 1_000;
/** How often a sample is taken for the plots of the status page, and the end of the certificate is looked at. */
const SAMPLE_MS = 60_000;
/**
 * How long a shutdown waits for the store, and for a reload, whose sources may never answer: the other replicas notice a
 * missing heartbeat as well.
 */
const LEAVE_TIMEOUT_MS = 1_000;

const ANY_REQUEST = new Request("http://gateway.invalid/");

/**
 * A gateway while it runs: its parts, in the order in which data passes through them, and what connects them.
 *
 * A part knows only what was created before it. What it has to tell, it returns or emits, and the lines below connect it
 * with what comes later. The public functions are bound, so that they can be passed on alone: `Deno.serve(gateway.fetch)`.
 */
class RunningGateway implements Gateway {
  readonly #settings: Settings;
  readonly #services: Services;
  readonly #content: Content | undefined;
  readonly #store: CircuitBreaker;
  readonly #tasks: BackgroundTasks;
  readonly #epochs: Epochs;
  readonly #rateLimit: RateLimit;
  readonly #changes: Changes | undefined;
  readonly #storedVariables: StoredVariablesSource;
  readonly #configuration: Configuration;
  readonly #certificate: CertificateWatch;
  readonly #health: Health;
  readonly #sessionKeys: SessionKeys;
  readonly #respond: Responder;
  readonly #respondHealth: Responder;
  readonly #router: Router;
  readonly #healthRouter: Router;
  readonly #stopTasks = new AbortController();
  #configScripts: ConfigScriptCache | undefined;
  #closing: Promise<void> | undefined;

  constructor(ingredients: Ingredients) {
    const { settings, services, sources, process, content } = ingredients;
    const { changesModule } = ingredients;
    const { clock, random, log, metrics, registry, telemetry } = services;
    this.#settings = settings;
    this.#services = services;
    this.#content = content;

    const appStore = storeOfApp(services.store, settings.app);
    this.#store = new CircuitBreaker(appStore, { clock, metrics });
    this.#store.onChange = (failure) => this.#handleStoreChange(failure);
    this.#tasks = new BackgroundTasks({
      store: this.#store,
      clock,
      log,
      signal: this.#stopTasks.signal,
    });
    this.#epochs = new Epochs({
      clock,
      rotationMs: settings.keyRotationMs,
      retentionMs: settings.keyRetentionMs,
      masterKey: async () =>
        settings.masterKey ??
          await sharedMasterKey(this.#store, { clock, random }),
    });
    this.#rateLimit = new RateLimit({
      store: this.#store,
      clock,
      random,
      limit: settings.sessionKeyMaxRate,
    });
    this.#changes = changesModule && new changesModule.Changes({
      store: this.#store,
      epochs: this.#epochs,
      clock,
      random,
      log,
      metrics,
      instanceId: settings.instanceId,
      maxStreams: settings.maxStreams,
      maxStreamsPerClient: settings.maxStreamsPerClient,
      maxStreamAgeMs: settings.maxStreamAgeMs,
    });
    this.#storedVariables = new StoredVariablesSource({
      store: this.#store,
      clock,
      random,
      signal: this.#stopTasks.signal,
    });
    this.#configuration = new Configuration({
      read: sources.read,
      storedVariables: this.#storedVariables,
      publisher: this.#changes?.publisher,
      log,
      metrics,
      clock,
    });
    this.#certificate = new CertificateWatch({
      notAfter: process.certificateNotAfter,
      clock,
      log,
    });

    this.#health = new Health({
      configuration: this.#configuration,
      store: this.#store,
      rollout: this.#changes?.rollout,
      certificate: this.#certificate,
      failure: process.failure,
      clock,
      metrics,
    });
    this.#sessionKeys = new SessionKeys({
      configuration: this.#configuration,
      epochs: this.#epochs,
      rateLimit: this.#rateLimit,
      rollout: this.#changes?.rollout,
      sessionKeyTtlMs: settings.sessionKeyTtlMs,
      allowedOrigins: settings.allowedOrigins,
      clock,
      log,
      metrics,
    });
    const status: StatusParts = {
      health: this.#health,
      configuration: this.#configuration,
      changes: this.#changes,
      store: this.#store,
      epochs: this.#epochs,
      registry,
      clock,
      instanceId: settings.instanceId,
      allowedHosts: settings.allowedHosts,
      certificateNotAfter: process.certificateNotAfter,
      shownOptions: process.shownOptions,
    };
    const isTrusted = trustRule(settings.trustedProxies);
    const isAnyHost = settings.allowedHosts.length === 0;

    this.#router = new Router({
      basePath: settings.basePath,
      table: {
        // Load balancers and orchestrators request health by address, so that it is served for any host.
        "/rep/health": settings.separateHealth
          ? { handler: notFound, isForAnyHost: true }
          : createHealthEndpoint(this.#health),
        "/rep/session-key": createSessionKeyEndpoint(this.#sessionKeys),
        "/rep/changes": createChangesEndpoint(
          this.#changes,
          settings.allowedOrigins,
        ),
        "/rep/client.js": {
          methods: READ_METHODS,
          handler: respondWithClientScript,
        },
      },
      fallback: this.#contentEndpoint(),
    });
    this.#respond = createResponder({
      isTrusted,
      isAllowedHost: isAnyHost ? undefined : hostRule(settings.allowedHosts),
      warnOfProxy: createProxyWarning({ isTrusted, log }),
      accessLog: settings.accessLog,
      log,
      telemetry,
      metrics,
      clock,
    });
    this.#healthRouter = new Router({
      basePath: "",
      table: {
        "/rep/health": createHealthEndpoint(this.#health),
        "/livez": LIVE_ENDPOINT,
        "/readyz": createReadyEndpoint(this.#health),
        "/metrics": createMetricsEndpoint(registry),
        "/status": {
          methods: READ_METHODS,
          handler: (request, context) =>
            respondWithStatus(request, context, status),
        },
      },
      fallback: { handler: notFound },
    });
    this.#respondHealth = createResponder({
      isTrusted,
      isAllowedHost: undefined,
      warnOfProxy: undefined,
      accessLog: false, // probes and scrapes come every few seconds
      log,
      telemetry,
      metrics: noMetrics,
      clock,
    });

    metrics.observe("rep.build.info", buildInfo);
    metrics.observe("rep.streams.open", () => this.#changes?.hub.size ?? 0);
    metrics.observe(
      "rep.tls.not_after_timestamp_seconds",
      process.certificateNotAfter,
    );
  }

  /**
   * Reads the variables, then loads the master key, joins the rollout and publishes what changed. If the variables are
   * invalid, nothing outside the process has changed.
   *
   * @throws {ConfigurationError} If the variables are invalid.
   */
  async start(): Promise<void> {
    await this.#configuration.load();
    await this.#loadMasterKey();
    const { snapshot } = this.#configuration;
    await this.#changes?.publisher.publish(snapshot);
    this.#startTasks();
    if (snapshot.sensitive.size > 0) this.#warnOfRebinding();
  }

  readonly fetch: Gateway["fetch"] = (request, info) =>
    this.#respond(request, info, this.#router.find);

  readonly handle: Gateway["handle"] = async (request, info) => {
    const path = readUrl(request.url)?.path;
    if (path === undefined || !this.#router.owns(path)) return undefined;
    return await this.fetch(request, info);
  };

  readonly inject: Gateway["inject"] = async (
    response,
    request = ANY_REQUEST,
  ) => {
    const { injectPage } = await import("./pages/page.ts");
    const { log } = this.#services;
    return await injectPage(response, request, this.#configScript, log);
  };

  readonly fetchHealth: Gateway["fetchHealth"] = (request) =>
    this.#respondHealth(request, undefined, this.#healthRouter.find);

  readonly reload: Gateway["reload"] = (options) =>
    this.#configuration.reload(options);

  readonly get: Gateway["get"] = (name) =>
    this.#configuration.snapshot.public.get(name);

  readonly getPrivate: Gateway["getPrivate"] = (name) => {
    const { sensitive, serverValue } = this.#configuration.snapshot;
    return sensitive.get(name) ?? serverValue(name);
  };

  readonly onChange: Gateway["onChange"] = (name, listener) =>
    this.#configuration.listeners.add(name, listener);

  readonly beginShutdown: Gateway["beginShutdown"] = () => {
    this.#health.isStopping = true;
    this.#changes?.leave();
  };

  readonly finishUploads: Gateway["finishUploads"] = async (ms) => {
    const content = this.#content;
    if (content?.drainIncoming === undefined) return;
    await waitAtMost(ms, content.drainIncoming(), this.#services.clock);
    this.#logCutOff(content.countRequests().uploads);
  };

  readonly close: Gateway["close"] = (options = {}) =>
    this.#closing ??= this.#close(options.drainMs ?? 0, options.stopListening);

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(
    drainMs: number,
    stopListening = () => Promise.resolve(),
  ): Promise<void> {
    const { clock } = this.#services;
    this.beginShutdown();
    const requests = this.#finishRequests(stopListening);
    await Promise.all([
      this.#changes?.hub.close(drainMs),
      waitAtMost(drainMs, requests, clock),
    ]);
    this.#logCutOff(this.#content?.countRequests().all ?? 0);
    this.#content?.close(); // ends the WebSockets that are left, so that the ports are closed
    await this.#changes?.hub.close(0);
    this.#stopTasks.abort();
    const ending = Promise.all([
      this.#configuration.close(),
      this.#changes?.close(),
    ]);
    await waitAtMost(LEAVE_TIMEOUT_MS, ending, clock);
    this.#sessionKeys.close();
  }

  async #finishRequests(stopListening: () => Promise<void>): Promise<void> {
    await this.#content?.drainIncoming?.();
    await Promise.all([stopListening(), this.#content?.drain?.()]);
  }

  #logCutOff(requests: number): void {
    if (requests === 0) return;
    this.#services.log.warn("rep.requests.cut_off", { requests });
  }

  /** Everything that is not the gateway's own: a file, the upstream's response, or nothing. */
  #contentEndpoint(): Endpoint {
    const content = this.#content;
    if (content === undefined) return { handler: notFound };
    const handler: Handler = (request, context) =>
      content.respond(request, context, this.#configScript);
    // An upstream decides about methods itself.
    const isUpstream = this.#settings.staticDir === undefined;
    return isUpstream ? { handler } : { handler, methods: READ_METHODS };
  }

  readonly #configScript: GetConfigScript = async () => {
    this.#services.metrics.count("rep.pages.served", 1);
    this.#configScripts ??= await this.#createConfigScripts();
    return await this.#configScripts.get();
  };

  /** A gateway without pages does not load what they need. */
  async #createConfigScripts(): Promise<ConfigScriptCache> {
    const { ConfigScriptCache } = await import(
      "./pages/config_script.ts"
    );
    return new ConfigScriptCache({
      current: () => this.#pageValues(),
      hotReload: this.#settings.hotReload,
      basePath: this.#settings.basePath,
      epochs: this.#epochs,
      clock: this.#services.clock,
      log: this.#services.log,
    });
  }

  /** What pages are built from: the active configuration of all replicas, which may not be this process's. */
  #pageValues(): PageValues {
    const own = this.#configuration.snapshot;
    return this.#changes?.pageValues(own) ?? { values: own, cursor: 0 };
  }

  /** Loaded early, so that a later outage of the store does not turn into rejected requests for session keys. */
  async #loadMasterKey(): Promise<void> {
    try {
      await this.#epochs.keys(this.#epochs.current());
    } catch (error) {
      this.#services.log.debug("rep.master_key.not_loaded", {
        detail: `loading it with the first page: ${error}`,
      });
    }
  }

  #startTasks(): void {
    const tasks = this.#tasks;
    this.#certificate.check();
    tasks.repeat(SAMPLE_MS, "sample", () => this.#sample(), {
      needsStore: false,
    });
    tasks.repeat(PROBE_MS, "probe", () => this.#store.probe());
    tasks.repeat(PROBE_MS, "save", () => this.#saveCounts());
    tasks.repeat(WINDOW_MS, "sweep", () => this.#rateLimit.sweep());
    tasks.repeat(POLL_MS, "poll", () => this.#poll());
    tasks.runOnHint(VARIABLES_HEAD_KEY, "reload", async () => {
      await this.#follow(await newestWrite(this.#store));
    });
    if (this.#changes === undefined) return;
    const { eventsHeadKey, tail } = this.#changes;
    tasks.runOnHint(eventsHeadKey, "poll", () => tail.readNew());
    tasks.repeat(PUBLISH_MS, "publish", () => this.#retryPublication());
  }

  #sample(): Promise<void> {
    this.#services.registry.sample();
    this.#certificate.check();
    return Promise.resolve();
  }

  /** Looks for new events, and for new writes to the variables in the store. */
  async #poll(): Promise<void> {
    if (this.#changes === undefined) {
      return await this.#follow(await newestWrite(this.#store));
    }
    const found = await this.#changes.poll();
    // Not awaited: reading the sources may take long, and the next poll must not wait for that.
    void this.#tasks.run("reload", () => this.#follow(found.newestWrite));
    // The store may have lost variables as well as events.
    if (found.hasLostEvents) await this.#reloadInBackground();
  }

  /** Reads the variables again if one in the store has been written since. */
  async #follow(newestWrite: number): Promise<void> {
    await this.#storedVariables.follow(
      newestWrite,
      () => this.#reloadInBackground(),
    );
  }

  /** Repeats a publication that has failed; if the variables in the store are why, they are read again first. */
  async #retryPublication(): Promise<void> {
    const publisher = this.#changes?.publisher;
    if (publisher?.isOutdated) await this.#reloadInBackground();
    await publisher?.retry();
  }

  async #reloadInBackground(): Promise<void> {
    try {
      await this.#configuration.reload();
    } catch {
      // Its issues have been logged.
    }
  }

  /**
   * Called when the store fails, and when it is available again. Meanwhile, what needs it fails at once
   * ({@linkcode CircuitBreaker}), and then all repeated tasks make up for that: they read what was missed, publish what
   * could not be published, and store what was counted in memory.
   */
  #handleStoreChange(failure: Error | undefined): void {
    const { log } = this.#services;
    if (failure === undefined) {
      log.info("rep.store.up", { detail: "the store is available again" });
      this.#tasks.runAll();
      return;
    }
    log.error("rep.store.down", {
      detail: `limits are counted in memory, changes wait: ${failure.message}`,
    });
  }

  /** Stores the session keys that were counted in memory. */
  async #saveCounts(): Promise<void> {
    const clients = await this.#rateLimit.save();
    if (clients === 0) return;
    this.#services.log.info("rep.rate_limit.saved", { clients });
  }

  /** Without HTTPS, a page of any host name that resolves to the gateway's address is of the gateway's own origin. */
  #warnOfRebinding(): void {
    const { allowedHosts, allowedOrigins } = this.#settings;
    if (allowedHosts.length > 0 || allowedOrigins.length > 0) return;
    this.#services.log.warn("rep.start.warning", {
      detail:
        "SENSITIVE variables are served under any host name, which permits DNS rebinding: " +
        "set the allowed hosts or the allowed origins",
    });
  }
}

/** A gateway whose pages have a client of their own does not load this one. */
const respondWithClientScript: Handler = async (request) => {
  const { handleClientScript } = await import("./endpoints/client_script.ts");
  return await handleClientScript(request);
};

/** A gateway whose operators do not look at the status does not load the page. */
async function respondWithStatus(
  request: Request,
  context: RouteContext,
  parts: StatusParts,
): Promise<Response> {
  const module = await import("./endpoints/status/render.ts");
  return await module.respondWithStatus(request, context, parts);
}

/** Returns what is running, as the labels of a gauge. */
function buildInfo(): GaugeValue {
  const runtime = globalThis.navigator?.userAgent ?? "unknown";
  return new Map([[`${VERSION} ${runtime}`, 1]]);
}
