import { BackgroundTasks } from "./core/background_tasks.ts";
import { Configuration } from "./core/config/configuration.ts";
import { StoredVariablesSource } from "./core/config/stored/stored_variables_source.ts";
import { type Content, openContent } from "./content/content.ts";
import { Transfers } from "./core/http/transfers.ts";
import { createChangesEndpoint } from "./core/endpoints/changes.ts";
import {
  createHealthEndpoint,
  createReadyEndpoint,
  Health,
  LIVE_ENDPOINT,
} from "./core/endpoints/health.ts";
import { createMetricsEndpoint } from "./addons/metrics/metrics.ts";
import { SessionKeys } from "./core/endpoints/session_key.ts";
import type { StatusParts } from "./addons/status/status.ts";
import type { Gateway } from "./core/gateway_interface.ts";
import { hostRule } from "./core/http/allowed_hosts.ts";
import { createProxyWarning, trustRule } from "./core/http/client_address.ts";
import { problemResponse } from "./core/http/problem.ts";
import { createResponder } from "./core/http/respond.ts";
import {
  type Endpoint,
  type Handler,
  notFound,
  READ_METHODS,
  readUrl,
  Router,
} from "./core/http/routes.ts";
import { Epochs } from "./core/keys/epochs.ts";
import { sharedMasterKey } from "./core/keys/master_key.ts";
import { RateLimit } from "./core/keys/rate_limit.ts";
import { CertificateWatch } from "./addons/certificate_watch.ts";
import { messageOf } from "./core/observe/log.ts";
import { noMetrics, type ObservedValue } from "./core/observe/metrics.ts";
import { observeProcess } from "./addons/metrics/process_metrics.ts";
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
} from "./core/pages/config_script.ts";
import type { ServerRendering } from "./addons/server_rendering.ts";
import { Shutdown } from "./core/shutdown.ts";
import { NOT_READY_ROUTE, notReady, Startup } from "./core/startup.ts";
import { storeOfApp } from "./core/store/app_store.ts";
import { CircuitBreaker } from "./core/store/circuit_breaker.ts";
import { requireRuntime } from "./core/values/runtime.ts";

/**
 * Creates and starts a gateway. While its store cannot be read, it is returned before it is {@linkcode Gateway.ready}, so
 * that your server can listen: until then, it answers requests with 503.
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
  const module = await import("./addons/server_rendering.ts");
  const rendering = await module.ServerRendering.create();
  const gateway = await createGatewayIn(UNKNOWN_PROCESS, options, rendering);
  gateway.ready.catch((error) => {
    options.log?.error("rep.start.failed", { detail: messageOf(error) });
  });
  return gateway;
}

/**
 * Creates and starts a gateway that knows more about its process, as that of the command does.
 *
 * @param rendering What code that renders pages in this process reads; the command's process has no such code.
 */
export async function createGatewayIn(
  process: ProcessInfo,
  options: GatewayOptions,
  rendering?: ServerRendering,
): Promise<Gateway> {
  requireRuntime();
  const settings = resolveSettings(options);
  const services = resolveServices(options);
  const sources = resolveSources(options, process.sourceOf);
  const parts = await createParts(settings, services, sources, process);
  const gateway = connect(settings, services, parts, process, rendering);
  try {
    await parts.startup.begin();
  } catch (error) {
    await gateway.close();
    throw error;
  }
  gateway.ready.catch(() => gateway.close());
  rendering?.open(parts.pageValues);
  return gateway;
}

/** The parts of a gateway. */
type Parts = Awaited<ReturnType<typeof createParts>>;

/**
 * Creates the parts of a gateway, in the order in which data passes through them. A part knows only what was created
 * before it. What it has to tell, it returns or emits, and a line connects it with what comes later.
 */
async function createParts(
  settings: Settings,
  services: Services,
  sources: Sources,
  process: ProcessInfo,
) {
  const { clock, random, log, metrics, registry, telemetry } = services;
  const background = new AbortController();
  const { maxTransfers } = settings;
  const transfers = new Transfers({ clock, log, maxTransfers });
  const content = await openContent({
    staticDir: settings.staticDir,
    staticCacheBytes: settings.staticCacheBytes,
    immutable: settings.immutable,
    neverServed: sources.neverServed,
    upstream: settings.upstream,
    basePath: settings.basePath,
    preserveHost: settings.preserveHost,
    upstreamTimeoutMs: settings.upstreamTimeoutMs,
    rejectWebsockets: settings.rejectWebsockets,
  }, { clock, log, metrics, telemetry, transfers });

  const appStore = storeOfApp(services.store, settings.app);
  const store = new CircuitBreaker(appStore, { clock, metrics, telemetry });
  const epochs = new Epochs({
    clock,
    rotationMs: settings.keyRotationMs,
    retentionMs: settings.keyRetentionMs,
    masterKey: async (known) =>
      settings.masterKey ??
        await sharedMasterKey(store, { clock, random, known }),
  });
  const rateLimit = new RateLimit({
    store,
    clock,
    random,
    limit: settings.sessionKeyMaxRate,
  });
  // A gateway without hot reload does not load what publishes and delivers changes.
  const changesModule = settings.hotReload
    ? await import("./core/changes/changes.ts")
    : undefined;
  const changes = changesModule && new changesModule.Changes({
    store,
    epochs,
    clock,
    random,
    log,
    metrics,
    instanceId: settings.instanceId,
    revision: settings.revision,
    maxStreams: settings.maxStreams,
    maxStreamsPerClient: settings.maxStreamsPerClient,
    maxStreamAgeMs: settings.maxStreamAgeMs,
  });
  const storedVariables = new StoredVariablesSource({
    store,
    clock,
    random,
    log,
    signal: background.signal,
  });
  const configuration = new Configuration({
    read: sources.read,
    storedVariables,
    publisher: changes?.publisher,
    revision: settings.revision,
    log,
    metrics,
    clock,
  });
  const certificate = new CertificateWatch({
    notAfter: process.certificateNotAfter,
    rejection: process.certificateRejection,
    clock,
    log,
    metrics,
  });
  const tasks = new BackgroundTasks({
    store,
    epochs,
    rateLimit,
    changes,
    storedVariables,
    configuration,
    certificate,
    registry,
    clock,
    log,
    signal: background.signal,
  });
  store.onChange = (failure) => tasks.handleStoreChange(failure);

  metrics.observe("rep.build.info", () => buildInfo(process.version));
  const health = new Health({
    version: process.version,
    configuration,
    store,
    storedVariables,
    rollout: changes?.rollout,
    certificate,
    failure: process.failure,
    clock,
    metrics,
  });
  const sessionKeys = new SessionKeys({
    configuration,
    epochs,
    rateLimit,
    rollout: changes?.rollout,
    sessionKeyTtlMs: settings.sessionKeyTtlMs,
    allowedOrigins: settings.allowedOrigins,
    clock,
    log,
    metrics,
  });
  /** What pages are built from: the active configuration of all replicas, which may not be this process's. */
  function pageValues(knownId?: number): PageValues {
    const own = configuration.snapshot;
    return changes?.pageValues(own, knownId) ?? { values: own, cursor: 0 };
  }

  const ofrepModule = settings.ofrep
    ? await import("./addons/ofrep.ts")
    : undefined;
  const ofrepEndpoints = ofrepModule?.createOfrepEndpoints({
    current: pageValues,
    typeOf: (name) => configuration.snapshot.describe(name)?.type,
    tail: changes?.tail,
    basePath: settings.basePath,
    allowedOrigins: settings.allowedOrigins,
    transfers,
    clock,
  });
  const status: StatusParts = {
    health,
    configuration,
    changes,
    store,
    epochs,
    registry,
    clock,
    instanceId: settings.instanceId,
    revision: settings.revision,
    allowedHosts: settings.allowedHosts,
    certificate,
    shownOptions: process.shownOptions,
  };
  const startup = new Startup({
    settings,
    storedVariables,
    configuration,
    epochs,
    changes,
    tasks,
    health,
    clock,
    log,
    signal: background.signal,
  });
  const shutdown = new Shutdown({
    content,
    transfers,
    changes,
    configuration,
    health,
    sessionKeys,
    background,
    clock,
    log,
  });
  return {
    content,
    epochs,
    changes,
    ofrepEndpoints,
    configuration,
    pageValues,
    health,
    sessionKeys,
    status,
    startup,
    shutdown,
  };
}

/** Returns a gateway of its parts. Its functions can be passed on alone: `Deno.serve(gateway.fetch)`. */
function connect(
  settings: Settings,
  services: Services,
  parts: Parts,
  process: ProcessInfo,
  rendering: ServerRendering | undefined,
): Gateway {
  const { clock, log, telemetry, metrics } = services;
  const { changes, configuration, pageValues } = parts;
  const { health, startup, shutdown } = parts;
  const current = () => rendering?.pinned ?? pageValues();
  const getConfigScript = configScripts(settings, services, parts, {
    current,
    isRendered: false,
  });
  const getRenderedScript = configScripts(settings, services, parts, {
    current,
    isRendered: true,
  });
  const router = publicRouter(settings, parts, getConfigScript);
  const findRoute = (path: string) => {
    const route = router.find(path);
    const isTooEarly = health.isStarting && !route.isServedAtStart;
    return isTooEarly ? NOT_READY_ROUTE : route;
  };
  const healthRouter = internalRouter(services, parts);
  const isTrusted = trustRule(settings.trustedProxies);
  const isAnyHost = settings.allowedHosts.length === 0;
  const respond = createResponder({
    scheme: process.scheme,
    isTrusted,
    isAllowedHost: isAnyHost ? undefined : hostRule(settings.allowedHosts),
    warnOfProxy: createProxyWarning({ isTrusted, log }),
    accessLog: settings.accessLog,
    log,
    telemetry,
    metrics,
    clock,
  });
  const respondHealth = createResponder({
    scheme: undefined,
    isTrusted,
    isAllowedHost: undefined,
    warnOfProxy: undefined,
    accessLog: false, // probes and scrapes come every few seconds
    log,
    telemetry,
    metrics: noMetrics,
    clock,
  });
  observeProcess(metrics);
  metrics.observe("rep.streams.open", () => changes?.hub.size ?? 0);

  const gateway: Gateway = {
    ready: startup.ready,
    fetch: (request, info) => respond(request, info, findRoute),
    async handle(request, info) {
      const path = readUrl(request.url)?.path;
      if (path === undefined || !router.owns(path)) return undefined;
      return await gateway.fetch(request, info);
    },
    async inject(response, request = new Request("http://gateway.invalid/")) {
      const { injectPage, isHtml } = await import("./core/pages/page.ts");
      if (health.isStarting && isHtml(response)) {
        await response.body?.cancel();
        return problemResponse(notReady());
      }
      const getScript = rendering?.isRead ? getRenderedScript : getConfigScript;
      return await injectPage(response, request, getScript, { log, decode });
    },
    async configScript() {
      if (health.isStarting) throw notReady();
      const { bytes } = await getRenderedScript();
      return new TextDecoder().decode(bytes);
    },
    run: (callback) => rendering ? rendering.run(callback) : callback(),
    fetchHealth: (request) =>
      respondHealth(request, undefined, healthRouter.find),
    async reload(options) {
      await startup.ready;
      await configuration.reload(options);
    },
    get(name) {
      const { values } = rendering?.pinned ??
        { values: configuration.snapshot };
      return values.public.get(name);
    },
    getPrivate(name) {
      const { sensitive, serverValue } = configuration.snapshot;
      return sensitive.get(name) ?? serverValue(name);
    },
    onChange: (name, listener) => configuration.onChange(name, listener),
    beginShutdown: () => shutdown.begin(),
    finishUploads: (ms) => shutdown.finishUploads(ms),
    async close(options) {
      await shutdown.close(options);
      rendering?.close();
    },
    [Symbol.asyncDispose]: () => gateway.close(),
  };
  return gateway;
}

/** Decodes a page. It loads the decoders on demand, since `node:zlib` takes longer to load than the whole gateway. */
async function decode(response: Response): Promise<Response> {
  const module = await import("./content/coding/content_encoding.ts");
  return module.decodeContent(response);
}

/** The endpoints of the public port. */
function publicRouter(
  settings: Settings,
  parts: Parts,
  getConfigScript: GetConfigScript,
): Router {
  const { health, sessionKeys, changes, ofrepEndpoints } = parts;
  return new Router({
    basePath: settings.basePath,
    table: {
      // Load balancers and orchestrators request health by address, so that it is served for any host.
      "/rep/health": settings.separateHealth
        ? { handler: notFound, isForAnyHost: true, isServedAtStart: true }
        : createHealthEndpoint(health),
      "/rep/session-key": sessionKeys.endpoint,
      "/rep/changes": createChangesEndpoint(changes, settings.allowedOrigins),
      "/rep/client.js": {
        methods: READ_METHODS,
        // A gateway whose pages have a client of their own does not load this one.
        async handler(request) {
          const module = await import("./addons/client_script.ts");
          return await module.handleClientScript(request);
        },
      },
      ...ofrepEndpoints,
    },
    fallback: contentEndpoint(settings, parts.content, getConfigScript),
  });
}

/** Everything that is not the gateway's own: a file, the upstream's response, or nothing. */
function contentEndpoint(
  { staticDir }: Settings,
  content: Content | undefined,
  getConfigScript: GetConfigScript,
): Endpoint {
  if (content === undefined) return { handler: notFound };
  const handler: Handler = (request, context) =>
    content.respond(request, context, getConfigScript);
  // An upstream decides about methods itself.
  const isUpstream = staticDir === undefined;
  return isUpstream ? { handler } : { handler, methods: READ_METHODS };
}

/** The endpoints of a port that stays internal. */
function internalRouter(
  { registry }: Services,
  { health, status }: Parts,
): Router {
  return new Router({
    basePath: "",
    table: {
      "/rep/health": createHealthEndpoint(health),
      "/livez": LIVE_ENDPOINT,
      "/readyz": createReadyEndpoint(health),
      "/metrics": createMetricsEndpoint(registry),
      "/status": {
        methods: READ_METHODS,
        // A gateway whose operators do not look at the status does not load the page.
        async handler(request, context) {
          const module = await import("./addons/status/render.ts");
          return await module.respondWithStatus(request, context, status);
        },
      },
    },
    fallback: { handler: notFound },
  });
}

/** Which values the script of a page contains. */
interface ScriptOptions {
  readonly current: () => PageValues;
  /** Whether code in this process renders the page, with values that hydration needs. */
  readonly isRendered: boolean;
}

/** Returns the function that gets the script of a page. A gateway without pages does not load what it needs. */
function configScripts(
  { hotReload, basePath }: Settings,
  { clock, log, metrics }: Services,
  { epochs }: Parts,
  { current, isRendered }: ScriptOptions,
): GetConfigScript {
  async function open(): Promise<ConfigScriptCache> {
    const module = await import("./core/pages/config_script.ts");
    return new module.ConfigScriptCache({
      current,
      isRendered,
      hotReload,
      basePath,
      epochs,
      clock,
      log,
    });
  }

  let opening: Promise<ConfigScriptCache> | undefined;
  return async () => {
    metrics.count("rep.pages.served", 1);
    opening ??= open();
    const cache = await opening;
    return await cache.get();
  };
}

/** Returns what is running, as the labels of a gauge. */
function buildInfo(version: string): ObservedValue {
  const runtime = globalThis.navigator?.userAgent ?? "unknown";
  return new Map([[`${version} ${runtime}`, 1]]);
}
