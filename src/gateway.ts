import config from "../deno.json" with { type: "json" };
import { handleChanges } from "./endpoints/changes.ts";
import { handleClientScript } from "./endpoints/client_script.ts";
import { every, waitAtMost } from "./clock.ts";
import { Configuration } from "./configuration.ts";
import { createEpochs } from "./crypto/epochs.ts";
import { sharedMasterKey } from "./crypto/master_key.ts";
import { openContent } from "./content.ts";
import { injectPage, type PageRequest } from "./pages/page_response.ts";
import { ConfigScriptCache } from "./pages/config_script_cache.ts";
import { Hub } from "./events/hub.ts";
import { createEventLog } from "./events/event_log.ts";
import { Tail } from "./events/tail.ts";
import { checkOptions, type GatewayOptions } from "./gateway_options.ts";
import { handleHealth, type HealthReport, type HealthStatus } from "./endpoints/health.ts";
import type { OriginContext } from "./http/origin.ts";
import type { Log } from "./log.ts";
import { createRateLimit } from "./http/rate_limit.ts";
import { type ConnectionInfo, createResponder } from "./http/respond.ts";
import { createReplica } from "./rollout/replica.ts";
import { findHandler, notFound, OWN_PATHS, type RouteContext, type Routes } from "./http/routes.ts";
import { handleSessionKey } from "./endpoints/session_key.ts";
import { withCircuitBreaker } from "./store/circuit_breaker.ts";
import { StoreUnavailableError } from "./store/store.ts";
import { storedSource } from "./variables/stored_source.ts";
import { watchVariables } from "./variables/watch_stored.ts";
import { countVariables, type Snapshot } from "./variables/snapshot.ts";

/** A running gateway. */
export interface Gateway extends AsyncDisposable {
  /** Answers every request; what `Deno.serve` takes. Without `info`, all clients count as one. */
  fetch(request: Request, info?: ConnectionInfo): Promise<Response>;
  /** Answers a request if its path is the gateway's own; for servers that have paths of their own. */
  handle(request: Request, info?: ConnectionInfo): Promise<Response | undefined>;
  /**
   * Puts the configuration into a response, if it is an HTML page; any other is given back as it is.
   *
   * @param request What it answers: then a HEAD gets no body, and an `If-None-Match` may make it a 304.
   */
  inject(response: Response, request?: Request): Promise<Response>;
  /** Answers a request on a port for `GET /rep/health` alone. */
  fetchHealth(request: Request): Promise<Response>;
  /**
   * Reads the variables again.
   *
   * @throws {ConfigurationError} If there is anything wrong with them; then everything stays as it was.
   */
  reload(): Promise<void>;
  /**
   * Ends all streams and whatever waits. `GET /rep/health` says so from the first moment on. Closing again does nothing more.
   *
   * @param options `drainMs`: over which time the streams are ended; at once by default.
   */
  close(options?: { drainMs?: number }): Promise<void>;
}

/** How often a process looks for events of others, and for what it may clean up. */
const POLL_MS = 1_000;
const SWEEP_MS = 60_000;
/** What a goodbye to the other replicas may take; without one, they find out by themselves. */
const GOODBYE_MS = 1_000;

/**
 * Makes a gateway: the one place where its pieces are put together.
 *
 * @throws {ConfigurationError} If there is anything wrong with the variables; all issues are in the error.
 * @throws {RangeError} If an option has a value that it cannot have.
 *
 * @example Beside a handler of one's own
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
export async function createGateway(options: GatewayOptions = {}): Promise<Gateway> {
  const settings = checkOptions(options);
  const { clock, random, log, hotReload, allowedOrigins, masterKey } = settings;
  const startedAt = clock.now();
  let isStopping = false;

  const content = await openContent(settings); // first: if that fails, nothing else has to be ended
  let recover = () => {};
  const store = withCircuitBreaker(settings.store, { clock, onChange: storeChanged });
  const eventLog = createEventLog(store, { clock });
  const tail: Tail = new Tail(eventLog, (frames) => hub.deliver(frames));
  const hub = new Hub(tail, settings);
  const rateLimit = createRateLimit({ store, clock, random, limit: settings.sessionKeyMaxRate });
  const epochs = createEpochs({
    clock,
    rotationMs: settings.keyRotationMs,
    retentionMs: settings.keyRetentionMs,
    masterKey: masterKey ? () => Promise.resolve(masterKey) : () => sharedMasterKey(store, settings),
  });
  const stored = storedSource(store);
  const { instanceId } = settings;
  const onReactivated = () => void configuration.publishAgain();
  const replica = createReplica({ store, eventLog, tail, clock, random, log, instanceId, onReactivated });
  const publishing = hotReload ? publishAndTell : () => Promise.resolve({ events: [], head: 0 });
  const configuration = await Configuration.load({ read: readAll, publish: publishing, clock, log })
    .catch(async (error) => {
      content?.close();
      await replica.leave();
      await hub.close(0);
      await tail.close();
      throw error;
    });
  const activeConfiguration = hotReload ? () => replica.activeConfiguration(configuration) : () => configuration;
  const configScripts = new ConfigScriptCache({ activeConfiguration, hotReload, epochs, clock, log });

  /** Precedence: the store, the environment, the env file, the manifest's defaults. */
  async function readAll() {
    const [input, environment] = await Promise.all([settings.read(), stored.read()]);
    return { ...input, environment: { ...input.environment, ...environment } };
  }

  async function publishAndTell(snapshot: Snapshot) {
    if (!stored.isKnown) {
      throw new StoreUnavailableError("Cannot publish: the variables in the store are not known yet");
    }
    return await replica.publish(snapshot);
  }

  const readNew = () => void tail.readNew().catch(() => {}); // the store does not answer, as it has been told
  const sweep = () => void rateLimit.sweep().catch(() => {}); // likewise
  const saveCounts = async () => {
    const clients = await rateLimit.save();
    if (clients > 0) log.info("rep.rate_limit.saved", { clients });
  };
  recover = () => {
    if (hotReload) readNew();
    if (stored.isKnown) configuration.retryNow();
    else void reloadStored().catch(() => {}); // likewise
    void saveCounts().catch(() => {}); // likewise
  };
  const stops = [every(SWEEP_MS, sweep, clock), every(POLL_MS, () => void store.probe(), clock)];
  if (hotReload) stops.push(every(POLL_MS, readNew, clock), eventLog.watch(readNew));

  async function reloadStored(): Promise<void> {
    await stored.refresh();
    await configuration.reload().catch(() => {}); // the log has said what was wrong
  }

  const unwatch = new AbortController();
  const after = stored.isKnown ? 0 : -1; // what could not be read at the start is news, even if it is nothing
  const watched = watchVariables(store, reloadStored, { clock, signal: unwatch.signal, after, isBackground: true });

  function storeChanged(failure: Error | undefined): void {
    tellStore(log, failure);
    if (failure === undefined) recover();
  }

  function status(): HealthStatus {
    if (isStopping) return "stopping";
    return configuration.isRefused || !store.isAvailable ? "degraded" : "healthy";
  }

  function healthReport(): HealthReport {
    return {
      status: status(),
      version: config.version,
      variables: countVariables(configuration.snapshot),
      guardrails: { warnings: configuration.snapshot.warnings.length, blocked: configuration.blocked },
      uptime_seconds: Math.floor((clock.now() - startedAt) / 1_000),
    };
  }

  function sessionKey(request: Request, { client }: RouteContext): Promise<Response> {
    const sensitiveCount = configuration.snapshot.sensitive.size;
    const caller = { client, originContext: originContextOf(request, client.origin) };
    const ttlMs = settings.sessionKeyTtlMs;
    return handleSessionKey(request, caller, { sensitiveCount, epochs, rateLimit, clock, log, ttlMs });
  }

  function changes(request: Request, { client }: RouteContext): Promise<Response> {
    return handleChanges(request, originContextOf(request, client.origin), { hotReload, hub, tail });
  }

  function originContextOf({ headers }: Request, own: string): OriginContext {
    return { origin: headers.get("origin"), secFetchSite: headers.get("sec-fetch-site"), own, allowed: allowedOrigins };
  }

  const inject = (response: Response, request: PageRequest = ANY_REQUEST) =>
    injectPage(response, request, () => configScripts.get());
  const deliver = content && (async (request: Request, { client }: RouteContext) => {
    return await inject(await content.respond(request, client), request);
  });

  const healthRoutes: Routes = { "/rep/health": (request) => handleHealth(request, healthReport()) };
  const routes: Routes = {
    "/rep/session-key": sessionKey,
    "/rep/changes": changes,
    "/rep/client.js": handleClientScript,
    ...(settings.separateHealth ? {} : healthRoutes),
  };
  const respond = createResponder(settings);

  let closing: Promise<void> | undefined;
  const close: Gateway["close"] = ({ drainMs = 0 } = {}) => closing ??= closeOnce(drainMs);

  async function closeOnce(drainMs: number): Promise<void> {
    isStopping = true;
    const goodbye = replica.leave(); // first: the others need not wait for the drain
    await hub.close(drainMs);
    for (const stop of stops) stop();
    unwatch.abort();
    await configuration.close();
    await waitAtMost(GOODBYE_MS, Promise.all([watched, goodbye]), clock); // a silent store must not keep the process
    await tail.close();
    content?.close();
  }

  return {
    fetch: (request, info) => respond(request, info, (path) => findHandler(routes, path) ?? deliver ?? notFound),
    handle: async (request, info) =>
      isOurs(request) ? await respond(request, info, (path) => findHandler(routes, path) ?? notFound) : undefined,
    inject,
    fetchHealth: (request) => respond(request, undefined, (path) => findHandler(healthRoutes, path) ?? notFound),
    reload: () => configuration.reload(),
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}

const ANY_REQUEST: PageRequest = { method: "GET", headers: new Headers() };

function isOurs({ url }: Request): boolean {
  return URL.canParse(url) && new URL(url).pathname.startsWith(OWN_PATHS);
}

function tellStore(log: Log, failure: Error | undefined): void {
  if (failure === undefined) log.info("rep.store.up", { detail: "the store answers again" });
  else log.error("rep.store.down", { detail: `limits go on in memory, changes wait: ${failure.message}` });
}
