import type { Addon, AddonParts } from "./addon.ts";
import { BackgroundTasks } from "./background_tasks.ts";
import {
  Configuration,
  type ReloadOptions,
  type ValueListener,
} from "./config/configuration.ts";
import { StoredVariablesSource } from "./config/stored/stored_variables_source.ts";
import type { Content } from "./content.ts";
import { createChangesEndpoint } from "./endpoints/changes.ts";
import {
  createHealthEndpoint,
  createReadyEndpoint,
  Health,
  LIVE_ENDPOINT,
} from "./endpoints/health.ts";
import { SessionKeys } from "./endpoints/session_key.ts";
import { hostRule } from "./http/allowed_hosts.ts";
import { createProxyWarning, trustRule } from "./http/client_address.ts";
import { problemResponse } from "./http/problem.ts";
import { type ConnectionInfo, createResponder } from "./http/respond.ts";
import {
  type Handler,
  notFound,
  readUrl,
  Router,
  type RouteTable,
} from "./http/routes.ts";
import type { Transfers } from "./http/transfers.ts";
import { Epochs } from "./keys/epochs.ts";
import { sharedMasterKey } from "./keys/master_key.ts";
import { RateLimit } from "./keys/rate_limit.ts";
import { logOnce } from "./observe/log.ts";
import { noMetrics } from "./observe/metrics.ts";
import type { GetConfigScript, PageValues } from "./pages/config_script.ts";
import type { DecodeResponse } from "./pages/page.ts";
import type { CoreServices, CoreSettings, CoreSources } from "./settings.ts";
import { type CloseOptions, Shutdown } from "./shutdown.ts";
import { OwnBuild } from "./own_build.ts";
import { NOT_READY_ROUTE, notReady, Startup } from "./startup.ts";
import { indexApp } from "./store/app_index.ts";
import { storeOfApp } from "./store/app_store.ts";

/** What is around the core: what it delivers, what is added to it, and what it is told about its process. */
export interface Surroundings {
  readonly version: string;
  /** What the port speaks; `undefined` if another program has bound it. */
  readonly scheme: "http" | "https" | undefined;
  /** What is delivered besides the gateway's own endpoints; `undefined` for nothing. */
  readonly content: Content | undefined;
  /** Counts what is in flight for all that deliver something. */
  readonly transfers: Transfers;
  readonly addons: readonly Addon[];
  /** Decodes the pages that `inject()` gets. */
  readonly decode: DecodeResponse;
  /** The code that renders pages in this process; `undefined` if there is none. */
  readonly rendering: Rendering | undefined;
}

/** Code that renders pages in this process, as the core sees it. */
export interface Rendering {
  /** Whether that code has read a value: pages may then have been rendered with it. */
  readonly isRead: boolean;
  /** The values for the page of the current request; `undefined` outside of {@linkcode run}. */
  readonly pinned: PageValues | undefined;
  /** Makes the values of a page that is sent now available to that code. */
  open(current: () => PageValues): void;
  /** Calls back with all values of the same moment. */
  run<T>(callback: () => T): T;
  close(): void;
}

/**
 * Creates a gateway, which has to be started: this is the gateway of the specification, without anything of what is
 * around it.
 */
export async function createCore(
  settings: CoreSettings,
  services: CoreServices,
  sources: CoreSources,
  around: Surroundings,
) {
  const parts = await createParts(settings, services, sources, around);
  return connect(settings, services, parts, around);
}

/** The parts of a gateway. */
type Parts = Awaited<ReturnType<typeof createParts>>;

/**
 * Creates the parts of a gateway, in the order in which data passes through them. A part knows only what was created
 * before it. What it has to tell, it returns or emits, and a line connects it with what comes later.
 */
async function createParts(
  settings: CoreSettings,
  services: CoreServices,
  sources: CoreSources,
  around: Surroundings,
) {
  const { breaker, clock, random, log, metrics } = services;
  const background = new AbortController();
  const store = storeOfApp(breaker, settings.app);
  const epochs = new Epochs({
    clock,
    app: settings.app,
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
  const build = new OwnBuild(around.content, settings.revision);
  // A gateway without hot reload does not load what publishes and delivers changes.
  const changesModule = settings.hotReload
    ? await import("./changes/changes.ts")
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
    version: around.version,
    build: () => build.id ?? "",
    maxStreams: settings.maxStreams,
    streams: services.streams,
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
    readSources: sources.readSources,
    storedVariables,
    rollout: changes?.rollout,
    publisher: changes?.publisher,
    epochs,
    revision: settings.revision,
    log,
    metrics,
    clock,
  });
  if (changes !== undefined) {
    const { rollout } = changes;
    build.onChange = () => rollout.announceBuild();
    rollout.onActiveChange = () => {
      if (rollout.isActive) void configuration.readAgain();
    };
  }
  const tasks = new BackgroundTasks({
    build,
    store,
    epochs,
    rateLimit,
    changes,
    storedVariables,
    configuration,
    clock,
    log,
    signal: background.signal,
  });
  const stopListening = breaker.listen((failure) => {
    if (failure === undefined) tasks.catchUp();
  });
  background.signal.addEventListener("abort", stopListening);

  const health = new Health({
    version: around.version,
    build,
    configuration,
    store: breaker,
    storedVariables,
    changes,
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
  function pageValues(): PageValues {
    const own = configuration.snapshot;
    return changes?.pageValues.current(own) ?? { values: own, cursor: 0 };
  }

  const seen: AddonParts = {
    basePath: settings.basePath,
    clock,
    log,
    transfers: around.transfers,
    health,
    configuration,
    changes,
    store: breaker,
    epochs,
    pageValues,
  };
  const additions = around.addons.map((addon) => addon(seen));
  health.problemsAround = () =>
    Object.assign({}, ...additions.map(({ problems }) => problems?.()));
  const startup = new Startup({
    store,
    settings,
    storedVariables,
    build,
    configuration,
    epochs,
    changes,
    tasks,
    indexApp: async () => {
      const { app: name } = settings;
      if (name === undefined) return;
      await indexApp(breaker, { name, at: clock.now() }).catch(() => {}); // only commands use it
    },
    health,
    clock,
    log,
    signal: background.signal,
  });
  const shutdown = new Shutdown({
    content: around.content,
    transfers: around.transfers,
    changes,
    configuration,
    health,
    sessionKeys,
    additions,
    background,
    clock,
    log,
  });
  return {
    build,
    epochs,
    changes,
    configuration,
    pageValues,
    health,
    sessionKeys,
    additions,
    startup,
    shutdown,
  };
}

/**
 * Returns a gateway of its parts. Its functions can be passed on alone: `Deno.serve(gateway.fetch)`. `Gateway` describes
 * them for users of the module.
 */
function connect(
  settings: CoreSettings,
  services: CoreServices,
  parts: Parts,
  { content, scheme, rendering, decode }: Surroundings,
) {
  const { clock, log, telemetry, metrics } = services;
  const onceLog = logOnce(log);
  const { changes, configuration, pageValues } = parts;
  const { health, startup, shutdown } = parts;
  const current = () => rendering?.pinned ?? pageValues();
  const scripts = (isRendered: boolean): GetConfigScript =>
    onceOpened(async () => {
      const { configScripts } = await import("./pages/config_script.ts");
      return configScripts({
        build: () => parts.build.look(),
        current,
        isRendered,
        hotReload: settings.hotReload,
        pollMs: settings.pollMs,
        basePath: settings.basePath,
        epochs: parts.epochs,
        clock,
        log,
      }, metrics);
    });
  const getConfigScript = scripts(false);
  const getRenderedScript = scripts(true);
  const router = publicRouter(settings, parts, content, getConfigScript);
  const findRoute = (path: string) => {
    const route = router.find(path);
    const isTooEarly = health.isStarting && !route.isServedAtStart;
    return isTooEarly ? NOT_READY_ROUTE : route;
  };
  const healthRouter = internalRouter(parts);
  const isTrusted = trustRule(settings.trustedProxies);
  const respond = createResponder({
    scheme,
    isTrusted,
    isAllowedHost: hostRule(settings.allowedHosts),
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
  metrics.observe("rep.streams.open", () => changes?.hub.size ?? 0);

  function fetch(
    request: Request,
    info?: ConnectionInfo,
  ): Response | Promise<Response> {
    return respond(request, info, findRoute);
  }

  async function close(options?: CloseOptions): Promise<void> {
    await shutdown.close(options);
    rendering?.close();
  }

  return {
    ready: startup.ready,
    /** Begins the start. Resolves when the gateway is ready, or as soon as it waits for its store. */
    async start() {
      await startup.begin();
      rendering?.open(pageValues);
    },
    fetch,
    async handle(request: Request, info?: ConnectionInfo) {
      const path = readUrl(request.url)?.path;
      if (path === undefined || !router.owns(path)) return undefined;
      return await fetch(request, info);
    },
    async inject(
      response: Response,
      request = new Request("http://gateway.invalid/"),
    ) {
      const { injectPage, isHtml } = await import("./pages/page.ts");
      if (health.isStarting && isHtml(response)) {
        await response.body?.cancel();
        return problemResponse(notReady());
      }
      const getScript = rendering?.isRead ? getRenderedScript : getConfigScript;
      return await injectPage(response, request, getScript, {
        log: onceLog,
        decode,
      });
    },
    async configScript() {
      if (health.isStarting) throw notReady();
      const { bytes } = await getRenderedScript();
      return new TextDecoder().decode(bytes);
    },
    run: <Result>(callback: () => Result) =>
      rendering ? rendering.run(callback) : callback(),
    fetchHealth: (request: Request) =>
      respondHealth(request, undefined, healthRouter.find),
    async reload(options?: ReloadOptions) {
      await startup.ready;
      await configuration.reload(options);
    },
    get(name: string) {
      const { values } = rendering?.pinned ??
        { values: configuration.snapshot };
      return values.public.get(name);
    },
    getPrivate(name: string) {
      const { sensitive, serverValue } = configuration.snapshot;
      return sensitive.get(name) ?? serverValue(name);
    },
    onChange: (name: string, listener: ValueListener) =>
      configuration.onChange(name, listener),
    beginShutdown: () => shutdown.begin(),
    finishIncoming: (ms: number) => shutdown.finishIncoming(ms),
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}

/** The endpoints of the public port. */
function publicRouter(
  settings: CoreSettings,
  { health, sessionKeys, changes, additions }: Parts,
  content: Content | undefined,
  getConfigScript: GetConfigScript,
): Router {
  const respond: Handler = (request, context) =>
    content?.respond(request, context, getConfigScript) ?? notFound();
  return new Router({
    basePath: settings.basePath,
    table: joined({
      // Load balancers and orchestrators request health by address, so that it is served for any host.
      "/rep/health": settings.separateHealth
        ? { handler: notFound, isForAnyHost: true, isServedAtStart: true }
        : createHealthEndpoint(() => health.report()),
      "/rep/session-key": sessionKeys.endpoint,
      "/rep/changes": createChangesEndpoint(changes, settings.allowedOrigins),
    }, additions.map(({ routes }) => routes)),
    fallback: {
      handler: respond,
      ...(content?.methods && { methods: content.methods }),
    },
  });
}

/** The endpoints of a port that stays internal. */
function internalRouter({ health, additions }: Parts): Router {
  return new Router({
    basePath: "",
    table: joined({
      "/rep/health": createHealthEndpoint(() => health.internalReport()),
      "/livez": LIVE_ENDPOINT,
      "/readyz": createReadyEndpoint(health),
    }, additions.map(({ internalRoutes }) => internalRoutes)),
    fallback: { handler: notFound },
  });
}

/** Joins the endpoints of the core and of all add-ons. None replaces one of the core. */
function joined(
  own: RouteTable,
  tables: readonly (RouteTable | undefined)[],
): RouteTable {
  return Object.assign({}, ...tables, own);
}

/** Returns a function that is loaded when it is first called: a gateway without pages does not load what they need. */
function onceOpened<T>(
  open: () => Promise<() => Promise<T>>,
): () => Promise<T> {
  let opening: Promise<() => Promise<T>> | undefined;
  return async () => {
    const opened = await (opening ??= open());
    return await opened();
  };
}
