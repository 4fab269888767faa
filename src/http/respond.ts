import { logAccess } from "../observe/access_log.ts";
import { describeError, type Log, messageOf } from "../observe/log.ts";
import type { Metrics, Telemetry } from "../observe/metrics.ts";
import { RejectionLog } from "../observe/rejection_log.ts";
import type { Clock } from "../values/clock.ts";
import { type HostRule, requireAllowedHost } from "./allowed_hosts.ts";
import {
  type Client,
  type PeerAddress,
  peerAddress,
  resolveClient,
  type TrustRule,
} from "./client_address.ts";
import { headResponse } from "./head_response.ts";
import type { OriginContext } from "./origin.ts";
import { Problem, problemResponse } from "./problem.ts";
import type { RequestUrl, RequestUrls } from "./request_urls.ts";
import {
  createRoute,
  notFound,
  type Route,
  type RouteContext,
} from "./routes.ts";

/** The part of `Deno.ServeHandlerInfo` that the gateway uses. */
export interface ConnectionInfo {
  /** The address of the peer. */
  readonly remoteAddr: PeerAddress;
}

/** Options of {@linkcode createResponder}. */
interface ResponderOptions {
  urls: RequestUrls;
  isTrusted: TrustRule;
  allowedOrigins: readonly string[];
  log: Log;
  /** The hosts that requests are served for, if not any; a {@linkcode Route} may be for any host. */
  isAllowedHost: HostRule | undefined;
  /** Called with every request, except those for any host. */
  onRequest:
    | ((request: Request, connection: { readonly peer: string }) => void)
    | undefined;
  /** Whether to log every request. */
  accessLog: boolean;
  telemetry: Telemetry;
  /** Counts the requests. */
  metrics: Metrics;
  clock: Clock;
}

/**
 * Responds to a request with the handler of its route. It never throws or rejects. The response is a promise only if
 * the handler's is, since `Deno.serve` responds sooner without one.
 */
export type Responder = (
  request: Request,
  info: ConnectionInfo | undefined,
  routeFor: (path: string) => Route,
) => Response | Promise<Response>;

/** Creates a responder, the one place where errors become responses. */
export function createResponder(options: ResponderOptions): Responder {
  const {
    urls,
    log,
    isAllowedHost,
    onRequest,
    accessLog,
    telemetry,
    metrics,
    clock,
  } = options;
  const exhaustion = new RejectionLog({
    log,
    clock,
    summaryEvent: NO_DESCRIPTORS,
    summaryFields: () => ({}),
  });
  const fail = (error: unknown) =>
    problemResponse(toProblem(error, log, exhaustion));

  function handle(
    request: Request,
    context: LazyContext,
    routeFor: (path: string) => Route,
  ) {
    const url = urls.read(request.url);
    if (url === undefined) throw invalidHost();
    const { handler, pattern, series, isForAnyHost } = routeFor(url.path);
    context.series = series;
    telemetry.nameSpan(request.method, pattern);
    // To read a header takes time that health does not have, and nothing there depends on the host. So `GET /health` with
    // `Host: x/rep` may be a request for health, too.
    if (isForAnyHost !== true || !url.isPlain) requireValidHost(request);
    context.url = url;
    if (isForAnyHost !== true) requireHost(request, context);
    return handler(request, context);
  }

  function requireHost(request: Request, context: LazyContext): void {
    onRequest?.(request, context);
    if (isAllowedHost !== undefined) {
      requireAllowedHost(context.client.origin, isAllowedHost);
    }
  }

  function count(response: Response, { series }: LazyContext): Response {
    metrics.count("rep.requests", 1, series[Math.trunc(response.status / 100)]);
    return response;
  }

  function respond(
    request: Request,
    context: LazyContext,
    routeFor: (path: string) => Route,
  ) {
    try {
      const response = handle(request, context, routeFor);
      const isHead = request.method === "HEAD";
      if (!(response instanceof Promise)) {
        return count(isHead ? headResponse(response) : response, context);
      }
      const pending = isHead ? response.then(headResponse) : response;
      return pending.then(
        (response) => count(response, context),
        (error) => count(fail(error), context),
      );
    } catch (error) {
      return count(fail(error), context);
    }
  }

  async function respondAndLog(
    request: Request,
    context: LazyContext,
    routeFor: (path: string) => Route,
  ) {
    const startedAt = clock.monotonic();
    const pending = respond(request, context, routeFor);
    const { url, address } = context; // at once: Deno forgets them when the client has left
    const path = url === NO_URL ? undefined : url.path;
    const response = await pending;
    logAccess({ method: request.method, path, address, startedAt }, response, {
      log,
      clock,
    });
    return response;
  }

  const respondOnce = accessLog ? respondAndLog : respond;
  return (request, info, routeFor) =>
    respondOnce(request, new LazyContext(request, info, options), routeFor);
}

/** The URL of a request before it is known to be valid. */
const NO_URL: RequestUrl = { origin: "", path: "", search: "", isPlain: false };

const NO_ROUTE = createRoute({ handler: notFound }, "");

/** What is known about a request. Looking up the peer and the client takes time, so it is done once somebody asks. */
class LazyContext implements RouteContext {
  readonly #request: Request;
  readonly #info: ConnectionInfo | undefined;
  readonly #options: ResponderOptions;
  #peer: string | undefined;
  #client: Client | undefined;
  #originContext: OriginContext | undefined;
  /** Set as soon as it is known to be valid. */
  url = NO_URL;
  /** Those of the route, once it is found. */
  series: Route["series"] = NO_ROUTE.series;

  constructor(
    request: Request,
    info: ConnectionInfo | undefined,
    options: ResponderOptions,
  ) {
    this.#request = request;
    this.#info = info;
    this.#options = options;
  }

  get peer(): string {
    return this.#peer ??= this.#info
      ? peerAddress(this.#info.remoteAddr)
      : "unknown";
  }

  get client(): Client {
    return this.#client ??= this.#resolveClient();
  }

  get originContext(): OriginContext {
    return this.#originContext ??= this.#readOrigin();
  }

  /** The address for the log: that of the peer if the URL is invalid. */
  get address(): string {
    return this.url === NO_URL ? this.peer : this.client.address;
  }

  #resolveClient(): Client {
    const { isTrusted } = this.#options;
    return resolveClient(this.#request, {
      origin: this.url.origin,
      peer: this.peer,
      isTrusted,
    });
  }

  #readOrigin(): OriginContext {
    const { headers } = this.#request;
    const { allowedOrigins: allowed } = this.#options;
    const own = this.client.origin;
    return {
      origin: headers.get("origin"),
      secFetchSite: headers.get("sec-fetch-site"),
      own,
      allowed,
    };
  }
}

/** A `Host` header with a delimiter yields a URL with another path (RFC 9112 §3.2). */
function requireValidHost({ headers }: Request): void {
  if (/[/?#@\\]/.test(headers.get("host") ?? "")) throw invalidHost();
}

/** A URL that cannot be parsed has an invalid host: 400 (RFC 9112 §3.2). */
function invalidHost(): Problem {
  return new Problem(400, {
    detail: "Cannot read the URL of the request: expected a valid Host header",
  });
}

/** An error may occur in any endpoint, so the headers are those of the strictest one. */
const ERROR_HEADERS = {
  "vary": "Origin",
  "cache-control": "no-store, no-cache, must-revalidate",
};

/** Logged if the process, or the system, has no file descriptor left for a request. */
const NO_DESCRIPTORS = "rep.descriptors.exhausted";

/** The errors of POSIX in the messages of Deno, which have their numbers, and of Node.js. */
const NO_DESCRIPTORS_MESSAGE = /\bE[MN]FILE\b|\(os error 2[34]\)/;

/** Logs an unexpected error in full and tells the client nothing about it. */
function toProblem(
  error: unknown,
  log: Log,
  exhaustion: RejectionLog,
): Problem {
  if (error instanceof Problem) return error;
  const detail = messageOf(error);
  if (NO_DESCRIPTORS_MESSAGE.test(detail)) { // every request may fail then
    exhaustion.report({
      key: "",
      reason: "requests",
      event: NO_DESCRIPTORS,
      fields: { detail },
    });
    return new Problem(503, {
      detail: "Too many open files",
      headers: { ...ERROR_HEADERS, "retry-after": "1" },
    });
  }
  log.error("rep.request.failed", { detail: describeError(error) });
  return new Problem(500, {
    detail: "Internal error; see the log of the gateway",
    headers: ERROR_HEADERS,
  });
}
