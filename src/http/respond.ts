import { clientOf, peerAddress, type TrustRule } from "./client_address.ts";
import { Problem, problemResponse } from "./problem.ts";
import { describeError, type Log } from "../log.ts";
import type { Handler } from "./routes.ts";

/** What `Deno.serve` tells of a connection, as far as it matters. */
export interface ConnectionInfo {
  /** The peer of the connection's socket. */
  readonly remoteAddr: Deno.Addr;
}

/** What {@linkcode createResponder} needs. */
export interface ResponderOptions {
  isTrusted: TrustRule;
  log: Log;
}

/** Answers a request by whatever handler its path has. It never rejects. */
export type Responder = (
  request: Request,
  info: ConnectionInfo | undefined,
  handlerFor: (path: string) => Handler,
) => Promise<Response>;

/** Makes the one place where errors become responses. */
export function createResponder({ isTrusted, log }: ResponderOptions): Responder {
  return async (request, info, handlerFor) => {
    try {
      const handler = handlerFor(pathOf(request));
      const peer = info ? peerAddress(info.remoteAddr) : "unknown";
      return await handler(request, { client: clientOf(request, peer, isTrusted) });
    } catch (error) {
      return problemResponse(error instanceof Problem ? error : unexpected(error, log));
    }
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
  log.error("rep.request.failed", { detail: describeError(error) });
  return new Problem(500, { detail: "Something went wrong; the log says what", headers: CAUTIOUS });
}
