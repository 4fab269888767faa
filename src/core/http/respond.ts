import { logAccess } from "../observe/access_log.ts";
import { describeError, type Log, messageOf } from "../observe/log.ts";
import { type Metrics, secondsSince } from "../observe/metrics.ts";
import { RejectionLog } from "../observe/rejection_log.ts";
import { methodAttribute, type Telemetry } from "../observe/telemetry.ts";
import type { Clock } from "../values/clock.ts";
import { type HostRule, requireAllowedHost } from "./allowed_hosts.ts";
import {
  type PeerAddress,
  peerAddress,
  type ProxyWarning,
  resolveClient,
  type TrustRule,
} from "./client_address.ts";
import { headResponse } from "./send.ts";
import { methodNotAllowed, Problem, problemResponse } from "./problem.ts";
import {
  NO_ROUTE,
  readUrl,
  type RequestUrl,
  type Route,
  type RouteContext,
} from "./routes.ts";

/** The part of `Deno.ServeHandlerInfo` that the gateway uses. */
export interface ConnectionInfo {
  /** The address of the peer. */
  readonly remoteAddr: PeerAddress;
}

interface ResponderOptions {
  /** The scheme of the connections; `undefined` if only the URLs of the requests tell it. */
  readonly scheme: "http" | "https" | undefined;
  readonly isTrusted: TrustRule;
  /** The hosts for which requests are served; `undefined` for any. Routes with `isForAnyHost` ignore it. */
  readonly isAllowedHost: HostRule | undefined;
  /** Called with every request, except those of routes with `isForAnyHost`. */
  readonly warnOfProxy: ProxyWarning | undefined;
  /** Whether to log every request. */
  readonly accessLog: boolean;
  readonly log: Log;
  readonly telemetry: Telemetry;
  /** Records how long responses take. */
  readonly metrics: Metrics;
  readonly clock: Clock;
}

/** Responds to a request with the handler of its route. It never rejects. */
export type Responder = (
  request: Request,
  info: ConnectionInfo | undefined,
  routeFor: (path: string) => Route,
) => Response | Promise<Response>;

/** A request and its route. */
interface Routed {
  readonly request: Request;
  /** `undefined` if it is invalid. */
  readonly url: RequestUrl | undefined;
  readonly route: Route;
}

/** Creates a responder. It is the only place that turns errors into responses. */
export function createResponder(options: ResponderOptions): Responder {
  const { scheme, isTrusted, isAllowedHost, warnOfProxy } = options;
  const { accessLog, log, telemetry, metrics, clock } = options;
  const exhaustion = new RejectionLog({
    log,
    clock,
    summaryEvent: NO_DESCRIPTORS,
    summaryFields: () => ({}),
  });

  let lastText = "";
  let lastUrl: RequestUrl | undefined;

  /** Reads a URL once for as long as it is requested again and again, as by probes: it takes a tenth of their time. */
  function urlOf({ url: text }: Request): RequestUrl | undefined {
    if (text !== lastText) {
      lastUrl = readUrl(text, scheme);
      lastText = text;
    }
    return lastUrl;
  }

  function respondToError(error: unknown): Response {
    return problemResponse(toProblem(error, log, exhaustion));
  }

  /**
   * The one way out. Every response of a port passes here, with errors and those before the gateway is ready (these
   * twice). Only what a server says without the gateway does not: Deno's 500 for a broken body, and that of the adapter
   * for what is no request. A header on everything is one line here: set it in place, since a new `Response` with the
   * body of another one sends a stream. The time that is recorded ends with the headers, since a body may take any time.
   */
  function leave(
    response: Response,
    { request, route }: Routed,
    startedAt: number,
  ): Response {
    const label = seriesLabel(route, request.method, response.status);
    const seconds = secondsSince(startedAt, clock);
    metrics.record("http.server.request.duration", seconds, label);
    return response;
  }

  /** The whole way of a request. */
  async function respondTo(
    routed: Routed,
    info: ConnectionInfo | undefined,
  ): Promise<Response> {
    const startedAt = clock.monotonic();
    const { request, url, route } = routed;
    const { method } = request;
    const peer = info ? peerAddress(info.remoteAddr) : "unknown";
    let context: RouteContext | undefined;
    let response: Response;
    try {
      telemetry.nameSpan(method, route.pattern);
      if (url === undefined || !hasValidHost(request)) throw invalidHost();
      const { origin } = url;
      const client = resolveClient(request, { origin, peer, isTrusted });
      context = { url, client };
      if (!route.isForAnyHost) {
        warnOfProxy?.(request, peer);
        if (isAllowedHost) requireAllowedHost(client.origin, isAllowedHost);
      }
      requireMethod(request, route, context);
      response = await route.handler(request, context);
    } catch (error) {
      response = respondToError(error);
    }
    if (method === "HEAD") response = headResponse(response);
    if (hasIgnoredContent(request)) response = await endConnection(response);
    if (accessLog) {
      const address = context?.client.address ?? peer;
      const entry = { method, path: context?.url.path, address, startedAt };
      logAccess(entry, response, { log, clock });
    }
    return leave(response, routed, startedAt);
  }

  /** The way of a request whose route has an answer at once. */
  function respondNow(
    handler: (request: Request) => Response,
    routed: Routed,
  ): Response {
    const startedAt = clock.monotonic();
    const { request, route } = routed;
    let response: Response;
    try {
      telemetry.nameSpan(request.method, route.pattern);
      response = handler(request);
    } catch (error) {
      response = respondToError(error);
    }
    return leave(response, routed, startedAt);
  }

  return function respond(request, info, routeFor) {
    const url = urlOf(request);
    const route = url === undefined ? NO_ROUTE : routeFor(url.path);
    const routed = { request, url, route };
    const { respondAtOnce, isForAnyHost } = route;
    const isPossible = isForAnyHost && request.method === "GET" && !accessLog;
    if (url === undefined || respondAtOnce === undefined || !isPossible) {
      return respondTo(routed, info);
    }
    // Such a URL says enough about the host. In Deno, a request whose headers are looked at takes a seventh more time. So
    // `GET /health` with `Host: x/rep` may be a request for health, too.
    const isPlain = request.url === url.origin + url.path;
    return isPlain
      ? respondNow(respondAtOnce, routed)
      : respondTo(routed, info);
  };
}

/** Returns the label of a request's series. That of a GET is made once, since each new text has to be hashed. */
function seriesLabel(
  { pattern, labelsOfGet }: Route,
  method: string,
  status: number,
): string {
  if (method !== "GET") {
    return `${pattern} ${methodAttribute(method)} ${status}`;
  }
  let label = labelsOfGet.get(status);
  if (label === undefined) {
    label = `${pattern} GET ${status}`;
    labelsOfGet.set(status, label);
  }
  return label;
}

/** Rejects methods that the route does not support. */
function requireMethod(
  request: Request,
  { methods, headersOf405 }: Route,
  context: RouteContext,
): void {
  if (methods === undefined || methods.includes(request.method)) return;
  const headers = headersOf405?.(request, context);
  throw methodNotAllowed(request.method, methods, headers);
}

/** A delimiter in the `Host` header would change the path of the URL (RFC 9112 §3.2). */
function hasValidHost({ headers }: Request): boolean {
  return !/[/?#@\\]/.test(headers.get("host") ?? "");
}

/** If a URL cannot be parsed, its host is invalid: 400 (RFC 9112 §3.2). */
function invalidHost(): Problem {
  return new Problem(400, {
    detail: "Cannot read the URL of the request: expected a valid Host header",
  });
}

/**
 * Returns whether `Deno.serve` would read the content of a request as the next request. A proxy in front of the gateway
 * takes it for content, so that its rules do not apply to it (request smuggling, RFC 9112 §11.2).
 */
function hasIgnoredContent({ method, headers }: Request): boolean {
  return method === "CONNECT" && headers.has("content-length");
}

/**
 * Returns a response after which the connection is closed. `Deno.serve` ignores `Connection: close`, but closes the
 * connection if a streamed body is shorter than announced.
 */
async function endConnection(response: Response): Promise<Response> {
  const { status } = response;
  const headers = new Headers(response.headers);
  const body = new Uint8Array(await response.arrayBuffer());
  headers.set("content-length", String(body.length + 1));
  return new Response(ReadableStream.from([body]), { status, headers });
}

/** Since any endpoint may fail, these are the headers of the strictest one. */
const ERROR_HEADERS = {
  "vary": "Origin",
  "cache-control": "no-store, no-cache, must-revalidate",
};

/** The event of the log if the process or the system ran out of file descriptors. */
const NO_DESCRIPTORS = "rep.descriptors.exhausted";

/** Matches the POSIX errors in messages of Node.js, and of Deno, which contain their numbers. */
const NO_DESCRIPTORS_MESSAGE = /\bE[MN]FILE\b|\(os error 2[34]\)/;

/** Logs an unexpected error in full and tells the client nothing about it. */
function toProblem(
  error: unknown,
  log: Log,
  exhaustion: RejectionLog,
): Problem {
  if (error instanceof Problem) return error;
  const detail = messageOf(error);
  if (NO_DESCRIPTORS_MESSAGE.test(detail)) { // logged once a minute, since every request may fail
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
