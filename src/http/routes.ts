import type { Client } from "./client_address.ts";
import { Problem } from "./problem.ts";

/** The second argument of a {@linkcode Handler}. */
export interface RouteContext {
  /** Looked up when a handler asks for it. */
  readonly client: Client;
  /** The query of the request's URL, with its `?`; empty if there is none. */
  readonly search: string;
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
  /** Whether the handler responds for any host, and without a look at the headers. @default {false} */
  readonly isForAnyHost?: boolean;
}

/** The handlers of a gateway. */
interface RouteTable {
  /** The handlers of the gateway's own paths, without the base path. */
  readonly routes: Routes;
  /** Those of the paths that are for any host. @default {[]} */
  readonly forAnyHost?: readonly string[];
  /** Handles all other paths. */
  readonly fallback: Handler;
  /** The path under which everything is served: empty, or such as `/app`. @default {""} */
  readonly basePath?: string;
}

/** The prefix of the gateway's own paths; no request below it reaches the app behind the gateway. */
const OWN_PREFIX = "/rep/";

/** Finds the handler for a path. All routes are created once, not for each request. */
export class Router {
  readonly #routes: ReadonlyMap<string, Route>;
  readonly #basePath: string;
  readonly #fallback: Route;
  readonly #unknown: Route;

  constructor({ routes, forAnyHost = [], fallback, basePath = "" }: RouteTable) {
    this.#basePath = basePath;
    const known = Object.entries(routes).map(([path, handler]) => {
      const pattern = basePath + path;
      return [pattern, { handler, pattern, isForAnyHost: forAnyHost.includes(path) }] as const;
    });
    const base = { handler: redirectToDirectory, pattern: basePath };
    this.#routes = new Map<string, Route>(basePath === "" ? known : [...known, [basePath, base]]);
    this.#fallback = { handler: fallback, pattern: `${basePath}/*` };
    this.#unknown = { handler: notFound, pattern: `${basePath}${OWN_PREFIX}*` };
  }

  /** Returns the route of a path. Outside of the base path nothing is found. */
  find(path: string): Route {
    const route = this.#routes.get(path);
    if (route !== undefined) return route;
    if (this.owns(path)) return this.#unknown;
    return path.startsWith(`${this.#basePath}/`) || this.#basePath === "" ? this.#fallback : OUTSIDE;
  }

  /** Whether a path is one of the gateway's own. */
  owns(path: string): boolean {
    return path.startsWith(this.#basePath + OWN_PREFIX);
  }
}

/** Redirects the base path to the page in it. With 308, the method stays the same. */
function redirectToDirectory({ url }: Request): Response {
  const { pathname, search } = new URL(url);
  const headers = { location: `${pathname}/${search}`, "cache-control": "no-cache" };
  return new Response(null, { status: 308, headers });
}

/**
 * Rejects a request for an unknown path.
 *
 * @throws {Problem} 404.
 */
export function notFound(): never {
  throw new Problem(404, { detail: "Nothing found at this path" });
}

const OUTSIDE: Route = { handler: notFound, pattern: "/*" };
