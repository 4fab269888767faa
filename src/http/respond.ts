import { type Clock, systemClock } from "../clock.ts";
import { type AccessEntry, logAccess } from "./access_log.ts";
import { peerAddress, resolveClient, type TrustRule } from "./client_address.ts";
import { headResponse } from "./head_response.ts";
import { Problem, problemResponse } from "./problem.ts";
import { describeError, type Log } from "../log.ts";
import { noTelemetry, type Telemetry } from "../metrics/metrics.ts";
import type { Route } from "./routes.ts";

/** The part of `Deno.ServeHandlerInfo` that the gateway uses. */
export interface ConnectionInfo {
  /** The address of the peer. */
  readonly remoteAddr: Deno.Addr;
}

/** Options of {@linkcode createResponder}. */
interface ResponderOptions {
  isTrusted: TrustRule;
  log: Log;
  /** Called with every request and the address of its peer. @default {does nothing} */
  onRequest?: (request: Request, peer: string) => void;
  /** Whether to log every request. @default {false} */
  accessLog?: boolean;
  /** @default {noTelemetry} */
  telemetry?: Telemetry;
  /** @default {systemClock} */
  clock?: Clock;
}

/** Responds to a request with the handler of its route. It never rejects. */
export type Responder = (
  request: Request,
  info: ConnectionInfo | undefined,
  routeFor: (path: string) => Route,
) => Promise<Response>;

/** Creates a responder, the one place where errors become responses. */
export function createResponder(options: ResponderOptions): Responder {
  const { isTrusted, log, accessLog = false, telemetry = noTelemetry, clock = systemClock } = options;
  const { onRequest = () => {} } = options;
  async function respond(request: Request, entry: AccessEntry, routeFor: (path: string) => Route): Promise<Response> {
    try {
      entry.path = readPath(request);
      const { handler, pattern } = routeFor(entry.path);
      telemetry.nameSpan(entry.method, pattern);
      onRequest(request, entry.address);
      const client = resolveClient(request, entry.address, isTrusted);
      entry.address = client.address;
      const response = await handler(request, { client });
      return request.method === "HEAD" ? headResponse(response) : response;
    } catch (error) {
      return problemResponse(error instanceof Problem ? error : internalError(error, log));
    }
  }
  return async (request, info, routeFor) => {
    const address = info ? peerAddress(info.remoteAddr) : "unknown";
    const entry: AccessEntry = { method: request.method, path: undefined, address, startedAt: clock.now() };
    const response = await respond(request, entry, routeFor);
    if (accessLog) logAccess(entry, response, { log, clock });
    return response;
  };
}

/** An invalid `Host` header yields a URL that cannot be parsed, or one with another path: 400 (RFC 9112 §3.2). */
function readPath({ url, headers }: Request): string {
  const isHost = !/[/?#@\\]/.test(headers.get("host") ?? "");
  if (isHost && URL.canParse(url)) return new URL(url).pathname;
  throw new Problem(400, { detail: "Cannot read the URL of the request: expected a valid Host header" });
}

/** An error may occur in any endpoint, so the headers are those of the strictest one. */
const ERROR_HEADERS = { "vary": "Origin", "cache-control": "no-store, no-cache, must-revalidate" };

/** Logs an unexpected error in full and tells the client nothing about it. */
function internalError(error: unknown, log: Log): Problem {
  log.error("rep.request.failed", { detail: describeError(error) });
  return new Problem(500, { detail: "Internal error; see the log of the gateway", headers: ERROR_HEADERS });
}
