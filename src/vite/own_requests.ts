import { internalHostRule } from "../http/allowed_hosts.ts";
import type {
  NodeHandler,
  NodeRequest,
  NodeResponse,
} from "../http/node_handler.ts";

/** `allowedHosts` of Vite: a leading dot stands for a domain with its subdomains; `true` allows any host. */
export type ViteHosts = readonly string[] | true | undefined;

/**
 * Returns a handler that answers requests for the gateway's own paths as Vite answers those for its own: to the hosts
 * that Vite allows. Vite permits other origins on this computer to read what it serves; the gateway does not.
 *
 * @param handle The gateway.
 * @param basePath What precedes `/rep/`.
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

/** Returns Vite's own rule for the `Host` header, which Vite applies only after its plugins: also any IP address. */
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

function forbidOtherOrigins(
  response: NodeResponse & { removeHeader?(name: string): void },
): void {
  response.removeHeader?.("access-control-allow-origin");
  response.removeHeader?.("vary");
}

function hostOf({ headers }: NodeRequest): string {
  return String(headers[":authority"] ?? headers["host"] ?? "");
}
