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

/** What a handler needs to know about a request in addition to its method, headers and body. */
export interface RouteContext {
  readonly url: RequestUrl;
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
  /** Whether the handler also responds before the gateway is ready, instead of 503. @default {false} */
  readonly isServedAtStart?: boolean;
  /**
   * Responds to GET synchronously instead of the handler, unless every request is logged. It saves frequent requests a
   * fifth of their CPU time. The response must be the same for every client, and {@linkcode isForAnyHost} must be set,
   * since the client and its host are not determined. @default {none}
   */
  readonly respondAtOnce?: (request: Request) => Response;
}

/** The methods of an endpoint that changes nothing. */
export const READ_METHODS: readonly string[] = ["GET", "HEAD"];
/** The methods of an endpoint that pages of other origins may request. */
export const CORS_METHODS: readonly string[] = ["GET", "OPTIONS"];

/**
 * Endpoints by path, without the base path. A path that ends with `/*` stands for all paths below it that have no
 * endpoint of their own.
 */
export type RouteTable = Readonly<Record<string, Endpoint>>;

/** An endpoint and its place. */
export interface Route extends Endpoint {
  /** The pattern of its paths, as in spans and metrics: `/rep/health`, `/*`. */
  readonly pattern: string;
  /** The labels of its series in the metrics, by status, for GET. */
  readonly labelsOfGet: Map<number, string>;
}

interface RouterOptions {
  /** The gateway's own endpoints. */
  readonly table: RouteTable;
  /** Handles all other paths. */
  readonly fallback: Endpoint;
  /** The path under which everything is served: empty, or for example `/app`. */
  readonly basePath: string;
}

/** Keeps requests below this path from the app behind the gateway. */
const OWN_PATHS: RouteTable = { "/rep/*": { handler: notFound } };

/** Finds the route for a path. */
export class Router {
  readonly #routes: Routes;
  /** The routes whose pattern ends with `/*`. */
  readonly #below: readonly Route[];
  readonly #basePath: string;
  readonly #fallback: Route;

  constructor({ table, fallback, basePath }: RouterOptions) {
    this.#basePath = basePath;
    const directory: RouteTable = basePath === ""
      ? {}
      : { "": { handler: redirectToBasePath } };
    const all = { ...table, ...directory, ...OWN_PATHS };
    this.#routes = createRoutes(all, basePath);
    this.#below = [...this.#routes.values()].filter(({ pattern }) =>
      pattern.endsWith("/*")
    );
    this.#fallback = createRoute(fallback, `${basePath}/*`);
  }

  /** Returns the route of a path: `NO_ROUTE` outside of the base path. */
  readonly find = (path: string): Route => {
    const own = this.#routes.get(path) ?? this.#routeAbove(path);
    if (own !== undefined) return own;
    const isInside = path.startsWith(`${this.#basePath}/`) ||
      this.#basePath === "";
    return isInside ? this.#fallback : NO_ROUTE;
  };

  /** Returns whether a path is one of the gateway's own. All exact ones are below one with `/*`, so only these are searched. */
  owns(path: string): boolean {
    return this.#routeAbove(path) !== undefined;
  }

  /** Returns the first route with `/*` that stands for a path. */
  #routeAbove(path: string): Route | undefined {
    return this.#below.find(({ pattern }) =>
      path.startsWith(pattern.slice(0, -1))
    );
  }
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
  return { ...endpoint, pattern, labelsOfGet: new Map() };
}

/** Redirects `/app` to `/app/`. With 308, clients keep the method. */
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
  throw NOTHING_FOUND;
}

/** Shared, since these are frequent, and creating an error takes several microseconds. */
const NOTHING_FOUND = new Problem(404, {
  detail: "Nothing found at this path",
});

/** The route of paths outside of the base path, and of requests whose URL is invalid. */
export const NO_ROUTE: Route = createRoute({ handler: notFound }, "/*");

/** A query without characters that are not allowed in a request line. */
const QUERY = /^[^?#]*(\?[!"$-~]*)?(?:#|$)/;

/**
 * Reads the URL of a request; `undefined` if it is invalid, since the client chooses its host.
 *
 * @param scheme The scheme of the connection, if it is known. A target in absolute form names one of its own, which the
 * client chooses as well (RFC 9112 §3.2.2).
 */
export function readUrl(
  text: string,
  scheme?: "http" | "https",
): RequestUrl | undefined {
  const url = URL.parse(text);
  if (url === null) return undefined;
  const { host, pathname: path } = url;
  const protocol = scheme === undefined ? url.protocol : `${scheme}:`;
  const [, search = ""] = QUERY.exec(text) ?? ["", url.search];
  // Not `url.origin`, which is "null" for the scheme of a Unix socket.
  return { origin: `${protocol}//${host}`, path, search };
}
