import type { Client } from "./client_address.ts";
import { Problem } from "./problem.ts";

/** The parts of a request's URL. Origin and path are normalized by the URL standard. */
export interface RequestUrl {
  /** Scheme and host, such as `http://127.0.0.1:8080`. */
  readonly origin: string;
  readonly path: string;
  /**
   * The query with its `?`, empty if there is none: as it was sent, or normalized if it has characters that are not
   * allowed in a request line.
   */
  readonly search: string;
}

/** What is known about a request besides its method, its headers and its body. */
export interface RouteContext {
  /** The URL of the request. */
  readonly url: RequestUrl;
  /** Whose request it is. */
  readonly client: Client;
}

/** Responds to a request, or throws a {@linkcode Problem}. */
export type Handler = (
  request: Request,
  context: RouteContext,
) => Response | Promise<Response>;

/** How requests for a path are handled. */
export interface Endpoint {
  readonly handler: Handler;
  /** The response to other methods is 405. @default {any method} */
  readonly methods?: readonly string[];
  /** Returns further headers of the 405. @default {none} */
  readonly headersOf405?: (
    request: Request,
    context: RouteContext,
  ) => Headers | Record<string, string>;
  /** Whether the handler responds for any host. @default {false} */
  readonly isForAnyHost?: boolean;
  /**
   * Responds to a GET instead of the handler, unless requests are logged: at once, for whichever client. Only for
   * what is asked for all the time, and is ready. It is not used unless {@linkcode isForAnyHost}, since the host is that
   * of the client. @default {none}
   */
  readonly respondAtOnce?: (request: Request) => Response;
}

/** The methods of an endpoint that is only read. */
export const READ_METHODS: readonly string[] = ["GET", "HEAD"];
/** The methods of an endpoint that responds to the preflights of other origins. */
export const CORS_METHODS: readonly string[] = ["GET", "OPTIONS"];

/** Endpoints by path, without the base path. One whose path ends with `/*` is for all paths below that have no other. */
export type RouteTable = Readonly<Record<string, Endpoint>>;

/** What a path leads to. */
export interface Route extends Endpoint {
  /** The pattern of the paths that it is for, as spans and metrics name them: `/rep/health`, `/*`. */
  readonly pattern: string;
}

/** Options of {@linkcode Router}. */
interface RouterOptions {
  /** The gateway's own endpoints. */
  readonly table: RouteTable;
  /** Handles all other paths. */
  readonly fallback: Endpoint;
  /** The path under which everything is served: empty, or such as `/app`. */
  readonly basePath: string;
}

/** No request below this path reaches the app behind the gateway. */
const OWN_PATHS: RouteTable = { "/rep/*": { handler: notFound } };

/** Finds the handler for a path. All routes are created once, not for each request. */
export class Router {
  readonly #routes: Routes;
  /** Those whose pattern ends with `/*`, the first one that a path is below is its route. */
  readonly #below: readonly RouteBelow[];
  readonly #basePath: string;
  readonly #fallback: Route;

  constructor({ table, fallback, basePath }: RouterOptions) {
    this.#basePath = basePath;
    const directory: RouteTable = basePath === ""
      ? {}
      : { "": { handler: redirectToBasePath } };
    const all = { ...table, ...directory, ...OWN_PATHS };
    this.#routes = createRoutes(all, basePath);
    this.#below = routesBelow(this.#routes);
    this.#fallback = createRoute(fallback, `${basePath}/*`);
  }

  /** Returns the route of a path. Outside of the base path nothing is found. */
  readonly find = (path: string): Route => {
    const route = this.#routes.get(path);
    if (route !== undefined) return route;
    const own = this.#below.find(({ prefix }) => path.startsWith(prefix));
    if (own !== undefined) return own.route;
    const isInside = path.startsWith(`${this.#basePath}/`) ||
      this.#basePath === "";
    return isInside ? this.#fallback : NO_ROUTE;
  };

  /** Whether a path is one of the gateway's own. */
  owns(path: string): boolean {
    return this.#below.some(({ prefix }) => path.startsWith(prefix));
  }
}

/** A route of all paths with a prefix. */
interface RouteBelow {
  readonly prefix: string;
  readonly route: Route;
}

function routesBelow(routes: Routes): RouteBelow[] {
  const below = [...routes.values()].filter(({ pattern }) =>
    pattern.endsWith("/*")
  );
  return below.map((route) => ({ prefix: route.pattern.slice(0, -1), route }));
}

/** Routes by path. */
export type Routes = ReadonlyMap<string, Route>;

/** Returns the routes of a table below a base path. */
export function createRoutes(table: RouteTable, basePath: string): Routes {
  const routes = new Map<string, Route>();
  for (const [path, endpoint] of Object.entries(table)) {
    const pattern = basePath + path;
    routes.set(pattern, createRoute(endpoint, pattern));
  }
  return routes;
}

/** Creates the route of an endpoint. */
export function createRoute(endpoint: Endpoint, pattern: string): Route {
  return { ...endpoint, pattern };
}

/** Redirects the base path to the page in it. With 308, the method stays the same. */
function redirectToBasePath(
  _request: Request,
  { url: { path, search } }: RouteContext,
): Response {
  const headers = {
    location: `${path}/${search}`,
    "cache-control": "no-cache",
  };
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

/** The route of paths outside of the base path, and of requests whose URL is invalid. */
export const NO_ROUTE: Route = createRoute({ handler: notFound }, "/*");

/** A query without characters that are not allowed in a request line. */
const QUERY = /^[^?#]*(\?[!"$-~]*)?(?:#|$)/;

/** Reads the URL of a request. Returns `undefined` if it is invalid: its host is what the client sent. */
export function readUrl(text: string): RequestUrl | undefined {
  const url = URL.parse(text);
  if (url === null) return undefined;
  const { protocol, host, pathname: path } = url;
  const [, search = ""] = QUERY.exec(text) ?? ["", url.search];
  // `url.origin` is "null" for the scheme of a Unix socket.
  return { origin: `${protocol}//${host}`, path, search };
}
