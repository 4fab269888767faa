import { internalHostRule } from "../core/http/allowed_hosts.ts";
import type {
  NodeHandler,
  NodeRequest,
  NodeResponse,
} from "../adapters/node_handler.ts";

/** Vite's option `allowedHosts`: a leading dot stands for a domain and its subdomains; `true` allows any host. */
export type ViteHosts = readonly string[] | true | undefined;

/**
 * Returns a handler that answers requests for the gateway's own paths, for the hosts that Vite allows. Other origins on
 * this computer may read what Vite serves, but not what the gateway serves.
 *
 * @param handle The gateway's handler.
 * @param basePath The part of the path before `/rep/`.
 */
export function ownRequests(
  handle: NodeHandler,
  basePath: string,
  allowedHosts: ViteHosts,
): NodeHandler {
  const isAllowedHost = viteHostRule(allowedHosts);
  return (request, response, next) => {
    if (!request.url?.startsWith(`${basePath}/rep/`)) return next?.();
    forbidOtherOrigins(response);
    if (isAllowedHost(hostOf(request))) return handle(request, response, next);
    response.writeHead(421, {});
    response.end();
  };
}

/**
 * Returns a function that applies Vite's rule for the `Host` header, which also allows any IP address. Vite itself
 * applies the rule only after the handlers of plugins.
 */
function viteHostRule(allowedHosts: ViteHosts = []): (host: string) => boolean {
  if (allowedHosts === true) return () => true;
  const patterns = ["*.localhost"];
  for (const host of allowedHosts) {
    if (host.startsWith(".")) patterns.push(host.slice(1), `*${host}`);
    else patterns.push(host);
  }
  const isAllowed = internalHostRule(patterns);
  return (host) => {
    const origin = `http://${host}`;
    return URL.canParse(origin) && isAllowed(origin);
  };
}

/** Removes the headers with which Vite permits other origins to read a response. */
function forbidOtherOrigins(
  response: NodeResponse & { removeHeader?(name: string): void },
): void {
  response.removeHeader?.("access-control-allow-origin");
  response.removeHeader?.("vary");
}

function hostOf({ headers }: NodeRequest): string {
  return String(headers[":authority"] ?? headers["host"] ?? "");
}
