import { type HostRule, internalHostRule } from "../core/http/allowed_hosts.ts";
import {
  type NodeHandler,
  type NodeResponse,
  toRequest,
} from "../adapters/node_handler.ts";
import type { ViteConfig } from "./vite.ts";

type ViteHosts = ViteConfig["server"]["allowedHosts"];

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
    const url = toRequest(request)?.url;
    if (url !== undefined && isAllowedHost(new URL(url).origin)) {
      return handle(request, response, next);
    }
    response.writeHead(421, {});
    response.end();
  };
}

/** Returns Vite's rule for hosts, which also allows any IP address. Vite 6 applies it only after the handlers of plugins. */
function viteHostRule(allowedHosts: ViteHosts = []): HostRule {
  if (allowedHosts === true) return () => true;
  const patterns = allowedHosts.flatMap((host) =>
    host.startsWith(".") ? [host.slice(1), `*${host}`] : [host]
  );
  return internalHostRule(["*.localhost", ...patterns]);
}

/** Removes the headers with which Vite permits other origins to read a response. */
function forbidOtherOrigins(
  response: NodeResponse & { removeHeader?(name: string): void },
): void {
  response.removeHeader?.("access-control-allow-origin");
  response.removeHeader?.("vary");
}
