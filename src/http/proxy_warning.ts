import type { Log } from "../observe/log.ts";
import type { TrustRule } from "./client_address.ts";

/** Looks at a request from a peer. */
export type ProxyWarning = (request: Request, peer: string) => void;

/**
 * Creates a function that logs a warning for the first request with `X-Forwarded-For` from a peer that is not a trusted
 * proxy. Its clients all share one rate limit, unlike with REP's Go gateway, which trusts any such header. It warns
 * once only, since any client can send the header.
 */
export function createProxyWarning(
  { isTrusted, log }: { isTrusted: TrustRule; log: Log },
): ProxyWarning {
  let hasWarned = false;
  return ({ headers }, peer) => {
    if (hasWarned || !headers.has("x-forwarded-for")) return;
    if (isTrusted(peer)) return;
    hasWarned = true;
    const detail =
      "X-Forwarded-For is ignored, and all clients of this peer share one rate limit; " +
      "if it is your proxy, add it to the trusted proxies";
    log.warn("rep.proxy.untrusted", { peer, detail });
  };
}
