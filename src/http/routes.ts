import type { Client } from "./client_address.ts";
import { Problem } from "./problem.ts";

/** The second argument of a {@linkcode Handler}. */
export interface RouteContext {
  readonly client: Client;
}

/** Responds to a request, or throws a {@linkcode Problem}. */
export type Handler = (request: Request, context: RouteContext) => Response | Promise<Response>;

/** Handlers by path. */
export type Routes = Readonly<Record<string, Handler>>;

/** What a path leads to. */
export interface Route {
  readonly handler: Handler;
  /** The pattern of the paths that the handler responds to, for spans: `/rep/health`, `/*`. */
  readonly pattern: string;
}

/** The handlers of a gateway. */
export interface RouteTable {
  /** The handlers of the gateway's own paths, without the base path. */
  readonly routes: Routes;
  /** Handles all other paths. */
  readonly fallback: Handler;
  /** The path under which everything is served: empty, or such as `/app`. @default {""} */
  readonly basePath?: string;
}

/** The prefix of the gateway's own paths; no request below it reaches the app behind the gateway. */
const OWN_PREFIX = "/rep/";

/** Whether a request's path is one of the gateway's own. */
export function isOwnPath({ url }: Request, basePath = ""): boolean {
  return URL.canParse(url) && new URL(url).pathname.startsWith(basePath + OWN_PREFIX);
}

/** Returns the route of a path. Outside of the base path nothing is found. */
export function findRoute(path: string, { routes, fallback, basePath = "" }: RouteTable): Route {
  if (basePath !== "" && path === basePath) return { handler: redirectToDirectory, pattern: path };
  if (basePath !== "" && !path.startsWith(`${basePath}/`)) return { handler: notFound, pattern: "/*" };
  const ownPath = path.slice(basePath.length);
  const handler = findHandler(routes, ownPath);
  if (handler === undefined) return { handler: fallback, pattern: `${basePath}/*` };
  return { handler, pattern: basePath + (handler === notFound ? `${OWN_PREFIX}*` : ownPath) };
}

/** Redirects the base path to the page in it. With 308, the method stays the same. */
function redirectToDirectory({ url }: Request): Response {
  const { pathname, search } = new URL(url);
  const headers = { location: `${pathname}/${search}`, "cache-control": "no-cache" };
  return new Response(null, { status: 308, headers });
}

/** Returns the handler for a path; `undefined` if the path does not belong to the gateway. */
export function findHandler(routes: Routes, path: string): Handler | undefined {
  if (Object.hasOwn(routes, path)) return routes[path];
  return path.startsWith(OWN_PREFIX) ? notFound : undefined;
}

/**
 * Rejects a request for an unknown path.
 *
 * @throws {Problem} 404.
 */
export function notFound(): never {
  throw new Problem(404, { detail: "Nothing found at this path" });
}
