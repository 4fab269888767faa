import type {
  PublicVariables,
  SensitiveVariables,
  ServerVariables,
} from "@rep/gateway/client";
import type { ChangesOptions } from "./changes/changes.ts";
import type { ReloadOptions } from "./config/configuration.ts";
import type { ValueListener } from "./config/value_listeners.ts";
import { type Content, openContent } from "./content/content.ts";
import { createChangesEndpoint } from "./endpoints/changes.ts";
import {
  HEALTH_PATH,
  HealthEndpoint,
  type HealthStatus,
  observeProblems,
  problemsOf,
} from "./endpoints/health.ts";
import { handleMetrics, METRICS_PATH } from "./endpoints/metrics.ts";
import {
  handleLive,
  handleReady,
  LIVE_PATH,
  READY_PATH,
} from "./endpoints/probes.ts";
import { SessionKeyEndpoint } from "./endpoints/session_key.ts";
import { Core } from "./core.ts";
import {
  type GatewayOptions,
  type ResolvedOptions,
  resolveOptions,
} from "./gateway_options.ts";
import { hostRule } from "./http/allowed_hosts.ts";
import { createProxyWarning } from "./http/proxy_warning.ts";
import { RequestUrls } from "./http/request_urls.ts";
import {
  type ConnectionInfo,
  createResponder,
  type Responder,
} from "./http/respond.ts";
import {
  CORS_METHODS,
  type Endpoint,
  type Handler,
  notFound,
  READ_METHODS,
  Router,
  type RouteTable,
} from "./http/routes.ts";
import { noMetrics } from "./observe/metrics.ts";
import type { ConfigScript, GetConfigScript } from "./pages/config_script.ts";
import type { ConfigScriptCache } from "./pages/config_script_cache.ts";
import { waitAtMost } from "./values/clock.ts";
import { VERSION } from "./values/version.ts";

/** The variables that a server reads with {@linkcode Gateway.getPrivate}, by name. */
export type PrivateVariables = SensitiveVariables & ServerVariables;

/** A running gateway. */
export interface Gateway extends AsyncDisposable {
  /**
   * Responds to every request; pass it to `Deno.serve`. Without `info`, all clients share one rate limit.
   */
  fetch(request: Request, info?: ConnectionInfo): Promise<Response>;
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
  fetchHealth(request: Request): Promise<Response>;
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
 * Creates and starts a gateway: its content, its routes, and a {@linkcode Core}, which creates everything
 * that changes at run time.
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
  const resolved = resolveOptions(options);
  const { clock, log, metrics } = resolved;
  const content = await openContent(resolved, { clock, log, metrics });
  const core = new Core(
    resolved,
    resolved.hotReload ? await loadChanges() : undefined,
  );
  const gateway = new RunningGateway(resolved, core, content);
  try {
    await core.start();
    if (core.configuration.snapshot.sensitive.size > 0) {
      warnAboutRebinding(resolved);
    }
    return gateway;
  } catch (error) {
    await gateway.close();
    throw error;
  }
}

/** A gateway without hot reload does not load what publishes and delivers changes. */
async function loadChanges() {
  const { Changes } = await import("./changes/changes.ts");
  return (options: ChangesOptions) => new Changes(options);
}

/** Without HTTPS, a page of any host name that resolves to the gateway's address is of the gateway's own origin. */
function warnAboutRebinding(
  { allowedHosts, allowedOrigins, log }: ResolvedOptions,
): void {
  if (allowedHosts.length > 0 || allowedOrigins.length > 0) return;
  const detail =
    "SENSITIVE variables are served under any host name, which permits DNS rebinding: " +
    "set the allowed hosts or the allowed origins";
  log.warn("rep.start.warning", { detail });
}

const ANY_REQUEST = { method: "GET", headers: new Headers() };

/** Its public functions are bound, so that they can be passed on alone: `Deno.serve(gateway.fetch)`. */
class RunningGateway implements Gateway {
  readonly #options: ResolvedOptions;
  readonly #core: Core;
  readonly #content: Content | undefined;
  readonly #health: HealthEndpoint;
  readonly #urls = new RequestUrls();
  readonly #respond: Responder;
  readonly #respondHealth: Responder;
  #configScripts: ConfigScriptCache | undefined;
  readonly #sessionKey: SessionKeyEndpoint;
  readonly #router: Router;
  readonly #healthRouter: Router;
  #isStopping = false;
  #closing: Promise<void> | undefined;

  constructor(
    options: ResolvedOptions,
    core: Core,
    content: Content | undefined,
  ) {
    this.#options = options;
    this.#core = core;
    this.#content = content;
    const { clock, allowedHosts, basePath } = options;
    this.#health = new HealthEndpoint(clock);
    observeProblems(options.metrics, core);
    const runtime = globalThis.navigator?.userAgent ?? "unknown";
    options.metrics.observe(
      "rep.build.info",
      () => new Map([[`${VERSION} ${runtime}`, 1]]),
    );
    options.metrics.observe(
      "rep.tls.not_after_timestamp_seconds",
      options.certificateNotAfter,
    );
    const isAllowedHost = allowedHosts.length === 0
      ? undefined
      : hostRule(allowedHosts);
    const common = {
      ...options,
      urls: this.#urls,
      isAllowedHost: undefined,
      warnOfProxy: undefined,
    };
    this.#respond = createResponder({
      ...common,
      isAllowedHost,
      warnOfProxy: createProxyWarning(options),
    });
    // Probes and scrapes come every few seconds.
    this.#respondHealth = createResponder({
      ...common,
      accessLog: false,
      metrics: noMetrics,
    });
    this.#sessionKey = new SessionKeyEndpoint({
      ...options,
      epochs: core.epochs,
      isKeyOfReplica: (fingerprint) =>
        core.changes?.rollout.hasMasterKey(fingerprint) ?? false,
      rateLimit: core.rateLimit,
    });
    const fallback = content
      ? this.#contentEndpoint(content)
      : { handler: notFound };
    this.#router = new Router({
      table: this.#portTable(options),
      fallback,
      basePath,
    });
    const health = {
      table: this.#healthPortTable(options),
      fallback: { handler: notFound },
      basePath: "",
    };
    this.#healthRouter = new Router(health);
  }

  readonly fetch: Gateway["fetch"] = (request, info) =>
    this.#respond(request, info, this.#router.find);

  readonly handle: Gateway["handle"] = async (request, info) => {
    const path = this.#urls.read(request.url)?.path;
    return path !== undefined && this.#router.owns(path)
      ? await this.fetch(request, info)
      : undefined;
  };

  readonly inject: Gateway["inject"] = async (
    response,
    request = ANY_REQUEST as Request,
  ) => {
    const { injectPage } = await import("./pages/page_response.ts");
    return await injectPage(
      response,
      request,
      this.#configScript,
      this.#options.log,
    );
  };

  readonly fetchHealth: Gateway["fetchHealth"] = (request) =>
    this.#respondHealth(request, undefined, this.#healthRouter.find);

  readonly reload: Gateway["reload"] = (options) =>
    this.#core.configuration.reload(options);

  readonly get: Gateway["get"] = (name) =>
    this.#core.configuration.snapshot.public.get(name);

  readonly getPrivate: Gateway["getPrivate"] = (name) => {
    const { sensitive, serverValue } = this.#core.configuration.snapshot;
    return sensitive.get(name) ?? serverValue(name);
  };

  readonly onChange: Gateway["onChange"] = (name, listener) =>
    this.#core.configuration.listeners.add(name, listener);

  readonly beginShutdown: Gateway["beginShutdown"] = () => {
    this.#isStopping = true;
    this.#core.changes?.leave();
  };

  readonly finishUploads: Gateway["finishUploads"] = async (ms) => {
    const content = this.#content;
    if (content?.drainIncoming === undefined) return;
    await waitAtMost(ms, content.drainIncoming(), this.#options.clock);
    this.#logCutOff(content.countRequests().uploads);
  };

  readonly close: Gateway["close"] = (options = {}) =>
    this.#closing ??= this.#close(options);

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close({ drainMs = 0, stopListening }: CloseOptions): Promise<void> {
    this.beginShutdown();
    const requests = this.#finishRequests(stopListening);
    await Promise.all([
      this.#core.changes?.hub.close(drainMs),
      waitAtMost(drainMs, requests, this.#options.clock),
    ]);
    this.#logCutOff(this.#content?.countRequests().all ?? 0);
    this.#content?.close(); // ends the WebSockets that are left, so that the ports are closed
    await this.#core.close();
    this.#sessionKey.close();
  }

  async #finishRequests(
    stopListening = () => Promise.resolve(),
  ): Promise<void> {
    await this.#content?.drainIncoming?.();
    await Promise.all([stopListening(), this.#content?.drain?.()]);
  }

  #logCutOff(requests: number): void {
    if (requests > 0) {
      this.#options.log.warn("rep.requests.cut_off", { requests });
    }
  }

  #portTable(
    { separateHealth, allowedOrigins }: ResolvedOptions,
  ): RouteTable {
    const { changes } = this.#core;
    return {
      // Load balancers and orchestrators request health by address, so that it is served for any host.
      [HEALTH_PATH]: {
        ...(separateHealth ? { handler: notFound } : this.#healthEndpoint()),
        isForAnyHost: true,
      },
      "/rep/session-key": {
        methods: CORS_METHODS,
        handler: (request, context) =>
          this.#sessionKey.respond(
            request,
            context,
            this.#core.configuration.snapshot.sensitive.size,
          ),
        headersOf405: (request, context) =>
          this.#sessionKey.headersOf405(request, context),
      },
      "/rep/changes": createChangesEndpoint(changes, allowedOrigins),
      "/rep/client.js": {
        methods: READ_METHODS,
        handler: async (request) => {
          const { handleClientScript } = await import(
            "./endpoints/client_script.ts"
          );
          return await handleClientScript(request);
        },
      },
    };
  }

  #healthPortTable({ registry }: ResolvedOptions): RouteTable {
    return {
      [HEALTH_PATH]: this.#healthEndpoint(),
      [LIVE_PATH]: { methods: READ_METHODS, handler: handleLive },
      [READY_PATH]: {
        methods: READ_METHODS,
        handler: (request) => handleReady(request, this.#status),
      },
      "/status": { methods: READ_METHODS, handler: this.#respondWithStatus },
      [METRICS_PATH]: {
        methods: READ_METHODS,
        handler: (request) => handleMetrics(request, registry),
      },
    };
  }

  #healthEndpoint(): Endpoint {
    return {
      methods: READ_METHODS,
      handler: (request) => this.#respondWithHealth(request),
    };
  }

  /** An upstream decides about methods itself. */
  #contentEndpoint(content: Content): Endpoint {
    const handler: Handler = (request, context) =>
      content.respond(request, context, this.#configScript);
    return this.#options.staticDir === undefined
      ? { handler }
      : { handler, methods: READ_METHODS };
  }

  readonly #configScript: GetConfigScript = () => {
    this.#options.metrics.count("rep.pages.served", 1);
    return this.#configScripts?.get() ?? this.#firstConfigScript();
  };

  /** A gateway without pages does not load what they need. */
  async #firstConfigScript(): Promise<ConfigScript> {
    const { ConfigScriptCache } = await import(
      "./pages/config_script_cache.ts"
    );
    const { epochs } = this.#core;
    const parts = {
      ...this.#options,
      activeConfiguration: () => this.#core.active,
      epochs,
    };
    return await (this.#configScripts ??= new ConfigScriptCache(parts)).get();
  }

  #respondWithHealth(request: Request): Response {
    return this.#health.respond(request, this.#healthState);
  }

  readonly #respondWithStatus: Handler = async (request, context) => {
    const { respondWithStatus } = await import(
      "./endpoints/status/respond_with_status.ts"
    );
    const report = this.#health.report(this.#healthState);
    return await respondWithStatus(request, context, {
      ...this.#options,
      ...this.#core,
      report,
    });
  };

  get #healthState() {
    const { snapshot, blocked } = this.#core.configuration;
    return {
      status: this.#status,
      snapshot,
      blocked,
      problems: problemsOf(this.#core),
    };
  }

  get #status(): HealthStatus {
    if (this.#isStopping) return "stopping";
    return problemsOf(this.#core).length > 0 ? "degraded" : "healthy";
  }
}
