import config from "../deno.json" with { type: "json" };
import { handleChanges } from "./changes.ts";
import { type Clock, every, systemClock } from "./clock.ts";
import { Configuration } from "./configuration.ts";
import { createEpochs } from "./crypto/epochs.ts";
import { MASTER_KEY_BYTES, sharedMasterKey } from "./crypto/master_key.ts";
import { Hub } from "./events/hub.ts";
import { createEventLog } from "./events/log.ts";
import { publish } from "./events/publisher.ts";
import { Tail } from "./events/tail.ts";
import { handleHealth, type HealthReport, type HealthStatus } from "./health.ts";
import { clientOf, peerAddress, trustRule } from "./http/client_address.ts";
import { isOrigin, type OriginQuestion } from "./http/origin.ts";
import { Problem, problemResponse } from "./http/problem.ts";
import { type Log, silentLog } from "./log.ts";
import { createRateLimit } from "./rate_limit.ts";
import { findHandler, notFound, type RouteContext, type Routes } from "./routes.ts";
import { handleSessionKey } from "./session_key.ts";
import { guardStore } from "./store/guard.ts";
import { memoryStore } from "./store/memory.ts";
import type { Store } from "./store/store.ts";
import { readEnvironment } from "./variables/environment.ts";
import type { Environment } from "./variables/classify.ts";
import { countVariables, type Snapshot } from "./variables/snapshot.ts";

/** Something, or a function that gives it: asked at the start and at every reload. */
export type Source<T> = T | (() => T | Promise<T>);

/** What {@linkcode createGateway} can be given. Durations are in milliseconds. */
export interface GatewayOptions {
  /**
   * Names, with their `REP_PUBLIC_`, `REP_SENSITIVE_` or `REP_SERVER_` prefix, and values.
   *
   * @default {the process's environment}
   */
  variables?: Source<Environment>;
  /** The text of a `.rep.yaml`, of which only `variables` count here. */
  manifest?: Source<string> | undefined;
  /** Whether PUBLIC values that look like secrets are refused. @default {false} */
  strict?: boolean;
  /** Whether there is a `GET /rep/changes`. @default {false} */
  hotReload?: boolean;
  /** Origins whose pages may have a session key. @default {[] (only the gateway's own)} */
  allowedOrigins?: readonly string[];
  /** Addresses and CIDR blocks of proxies whose `X-Forwarded-*` headers are believed. @default {[]} */
  trustedProxies?: readonly string[];
  /** How long a session key may be used, at most 30 s. @default {30_000} */
  sessionKeyTtlMs?: number;
  /** Session keys for one client address in any 60 s. @default {10} */
  sessionKeyMaxRate?: number;
  /** How often pages get a new key, in whole seconds. @default {600_000} */
  keyRotationMs?: number;
  /** How long a page's key can be asked for. @default {86_400_000} */
  keyRetentionMs?: number;
  /** Streams that may be open at once. @default {5_000} */
  maxStreams?: number;
  /** When a stream ends. @default {1_800_000} */
  maxStreamAgeMs?: number;
  /** Whether `GET /rep/health` is left to {@linkcode Gateway.fetchHealth}. @default {false} */
  separateHealth?: boolean;
  /** 32 bytes from which all keys are derived. @default {made once, and kept in the store} */
  masterKey?: Uint8Array<ArrayBuffer> | undefined;
  /** Where ids, limits and keys are kept; the caller closes it. @default {memoryStore()} */
  store?: Store;
  /** Where it is written what happens. @default {a log that writes nothing} */
  log?: Log;
  /** The time. @default {the real one} */
  clock?: Clock;
  /** From 0 to below 1, for pauses and phases; no secret comes from it. @default {Math.random} */
  random?: () => number;
}

/** What `Deno.serve` tells of a connection, as far as it matters. */
export interface ConnectionInfo {
  /** The peer of the connection's socket. */
  readonly remoteAddr: Deno.Addr;
}

/** A running gateway. */
export interface Gateway extends AsyncDisposable {
  /** Answers a request; what `Deno.serve` takes. Without `info`, all clients count as one. */
  fetch(request: Request, info?: ConnectionInfo): Promise<Response>;
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

/** Spec, Limits. */
const MAX_SESSION_KEY_TTL_MS = 30_000;

/**
 * Makes a gateway: the one place where its pieces are put together.
 *
 * @throws {ConfigurationError} If there is anything wrong with the variables; all faults are in the error.
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
  const { clock = systemClock, random = Math.random, log = silentLog } = options;
  const { hotReload = false, allowedOrigins = [], separateHealth = false } = options;
  const ttlMs = checked(
    "sessionKeyTtlMs",
    options.sessionKeyTtlMs ?? MAX_SESSION_KEY_TTL_MS,
    1_000,
    MAX_SESSION_KEY_TTL_MS,
  );
  const rotationMs = checked("keyRotationMs", options.keyRotationMs ?? 600_000, 1_000, Infinity, 1_000);
  const retentionMs = checked("keyRetentionMs", options.keyRetentionMs ?? 86_400_000, 0, Infinity);
  const rateLimitSize = checked("sessionKeyMaxRate", options.sessionKeyMaxRate ?? 10, 1, 10_000);
  const maxStreams = checked("maxStreams", options.maxStreams ?? 5_000, 1, Infinity);
  const maxStreamAgeMs = checked("maxStreamAgeMs", options.maxStreamAgeMs ?? 1_800_000, 1, Infinity);
  const masterKey = options.masterKey;
  if (masterKey) checked("masterKey, by its length in bytes", masterKey.length, MASTER_KEY_BYTES, MASTER_KEY_BYTES);
  checkOrigins(allowedOrigins);
  const isTrusted = trustRule(options.trustedProxies ?? []);
  const startedAt = clock.now();
  let isStopping = false;

  const store = guardStore(options.store ?? memoryStore(), { clock, onChange: (failure) => tellStore(log, failure) });
  const eventLog = createEventLog(store, { clock });
  const tail: Tail = new Tail(eventLog, (frames) => hub.deliver(frames));
  const hub = new Hub(tail, { clock, random, maxStreams, maxStreamAgeMs });
  const rateLimit = createRateLimit({ store, clock, random, limit: rateLimitSize });
  const epochs = createEpochs({
    clock,
    rotationMs,
    retentionMs,
    masterKey: masterKey ? () => Promise.resolve(masterKey) : () => sharedMasterKey(store, { clock, random }),
  });
  const publishing = hotReload ? publishAndTell : () => Promise.resolve([]);
  const configuration = await Configuration.load({ read: () => readSources(options), publish: publishing, clock, log })
    .catch(async (error) => {
      await hub.close(0);
      await tail.close();
      throw error;
    });

  async function publishAndTell(snapshot: Snapshot) {
    const events = await publish(snapshot, eventLog, { clock, random });
    await followLog();
    return events;
  }

  async function followLog(): Promise<void> {
    await (tail.isLoaded ? tail.refresh() : tail.load());
  }

  const follow = () => void followLog().catch(() => {}); // the store does not answer, as it has been told
  const sweep = () => void rateLimit.sweep().catch(() => {}); // likewise
  const stops = [every(SWEEP_MS, sweep, clock)];
  if (hotReload) stops.push(every(POLL_MS, follow, clock), eventLog.watch(follow));

  function status(): HealthStatus {
    if (isStopping) return "stopping";
    return configuration.isRefused || !store.isWorking ? "degraded" : "healthy";
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
    const caller = { client, question: questionOf(request, client.origin) };
    return handleSessionKey(request, caller, { sensitiveCount, epochs, rateLimit, clock, log, ttlMs });
  }

  function changes(request: Request, { client }: RouteContext): Promise<Response> {
    return handleChanges(request, questionOf(request, client.origin), { hotReload, hub, tail });
  }

  function questionOf({ headers }: Request, own: string): OriginQuestion {
    return { origin: headers.get("origin"), secFetchSite: headers.get("sec-fetch-site"), own, allowed: allowedOrigins };
  }

  const health = (request: Request) => handleHealth(request, healthReport());
  const healthRoutes: Routes = { "/rep/health": health };
  const routes: Routes = {
    "/rep/session-key": sessionKey,
    "/rep/changes": changes,
    ...(separateHealth ? {} : healthRoutes),
  };

  async function answer(request: Request, info: ConnectionInfo | undefined, table: Routes): Promise<Response> {
    try {
      const handler = findHandler(table, pathOf(request)) ?? notFound;
      const peer = info ? peerAddress(info.remoteAddr) : "unknown";
      return await handler(request, { client: clientOf(request, peer, isTrusted) });
    } catch (error) {
      return problemResponse(error instanceof Problem ? error : unexpected(error, log));
    }
  }

  let closing: Promise<void> | undefined;
  const close: Gateway["close"] = ({ drainMs = 0 } = {}) => closing ??= closeOnce(drainMs);

  async function closeOnce(drainMs: number): Promise<void> {
    isStopping = true;
    await hub.close(drainMs);
    for (const stop of stops) stop();
    await configuration.close();
    await tail.close();
  }

  return {
    fetch: (request, info) => answer(request, info, routes),
    fetchHealth: (request) => answer(request, undefined, healthRoutes),
    reload: () => configuration.reload(),
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}

/** A hostile `Host` header makes a URL that nobody can read, or one with another path (RFC 9112 §3.2: then it is 400). */
function pathOf({ url, headers }: Request): string {
  const isHost = !/[/?#@\\]/.test(headers.get("host") ?? "");
  if (isHost && URL.canParse(url)) return new URL(url).pathname;
  throw new Problem(400, { detail: "Cannot read the request's URL: expected a Host header that names a host" });
}

/** It may be the answer of any endpoint, and so says what the strictest of them says of caching. */
const CAUTIOUS = { "vary": "Origin", "cache-control": "no-store, no-cache, must-revalidate" };

/** What was not foreseen is logged in full, and nothing of it is told. */
function unexpected(error: unknown, log: Log): Problem {
  const detail = error instanceof Error ? error.stack ?? error.message : String(error);
  log.error("rep.request.failed", { detail });
  return new Problem(500, { detail: "Something went wrong; the log says what", headers: CAUTIOUS });
}

function tellStore(log: Log, failure: Error | undefined): void {
  if (failure === undefined) log.info("rep.store.up", { detail: "the store answers again" });
  else log.error("rep.store.down", { detail: `limits go on in memory, changes wait: ${failure.message}` });
}

async function readSources({ variables = readEnvironment, manifest, strict = false }: GatewayOptions) {
  return { environment: await given(variables), manifest: await given(manifest), strict };
}

async function given<T>(source: Source<T>): Promise<T> {
  return source instanceof Function ? await source() : source;
}

function checkOrigins(origins: readonly string[]): void {
  const wrong = origins.find((origin) => !isOrigin(origin));
  if (wrong === undefined) return;
  throw new RangeError(`Cannot use allowedOrigins: expected origins such as https://app.example.com, got "${wrong}"`);
}

function checked(name: string, value: number, least: number, most: number, step = 1): number {
  if (value >= least && value <= most && value % step === 0) return value;
  const steps = step === 1 ? "" : ` in steps of ${step}`;
  const range = least === most ? least : `${least} to ${most}`;
  throw new RangeError(`Cannot use ${name}: expected ${range}${steps}, got ${value}`);
}
