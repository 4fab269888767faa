import type { Client } from "./client_address.ts";
import type { OriginContext } from "./origin.ts";
import { methodNotAllowed, Problem } from "./problem.ts";
import type { RequestUrl } from "./request_urls.ts";

/** What is known about a request besides its method, its headers and its body. */
export interface RequestContext {
  /** The URL of the request, which is read once. */
  readonly url: RequestUrl;
  /** Looked up when a handler asks for it. */
  readonly client: Client;
}

/** The second argument of a {@linkcode Handler}. */
export interface RouteContext extends RequestContext {
  /** Read when a handler asks for it. */
  readonly originContext: OriginContext;
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
  readonly headersOf405?: (context: RouteContext) => Headers;
  /** Whether the handler responds for any host, and without a look at the headers. @default {false} */
  readonly isForAnyHost?: boolean;
}

/** The methods of an endpoint that is only read. */
export const READ_METHODS: readonly string[] = ["GET", "HEAD"];
/** The methods of an endpoint that responds to the preflights of other origins. */
export const CORS_METHODS: readonly string[] = ["GET", "OPTIONS"];

/** Endpoints by path, without the base path. */
export type RouteTable = Readonly<Record<string, Endpoint>>;

/** What a path leads to. */
export interface Route extends Pick<Endpoint, "handler" | "isForAnyHost"> {
  /** The pattern of the paths that the handler responds to, for spans: `/rep/health`, `/*`. */
  readonly pattern: string;
  /** The labels of `rep.requests`, by class of status: put together once, and not for each request. */
  readonly series: readonly string[];
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

/** The prefix of the gateway's own paths; no request below it reaches the app behind the gateway. */
const OWN_PREFIX = "/rep/";

/** Finds the handler for a path. All routes are created once, not for each request. */
export class Router {
  readonly #routes: Routes;
  readonly #basePath: string;
  readonly #fallback: Route;
  readonly #unknown: Route;

  constructor({ table, fallback, basePath }: RouterOptions) {
    this.#basePath = basePath;
    const directory: RouteTable = basePath === ""
      ? {}
      : { "": { handler: redirectToBasePath } };
    this.#routes = createRoutes({ ...table, ...directory }, basePath);
    this.#fallback = createRoute(fallback, `${basePath}/*`);
    this.#unknown = createRoute(
      { handler: notFound },
      `${basePath}${OWN_PREFIX}*`,
    );
  }

  /** Returns the route of a path. Outside of the base path nothing is found. */
  readonly find = (path: string): Route => {
    const route = this.#routes.get(path);
    if (route !== undefined) return route;
    if (this.owns(path)) return this.#unknown;
    return path.startsWith(`${this.#basePath}/`) || this.#basePath === ""
      ? this.#fallback
      : OUTSIDE;
  };

  /** Whether a path is one of the gateway's own. */
  owns(path: string): boolean {
    return path.startsWith(this.#basePath + OWN_PREFIX);
  }
}

/** Routes by path. */
export type Routes = ReadonlyMap<string, Route>;

/** Returns the routes of a table below a base path. */
export function createRoutes(table: RouteTable, basePath: string): Routes {
  const paths = Object.entries(table).map(([path, endpoint]) =>
    [basePath + path, endpoint] as const
  );
  return new Map(
    paths.map(([path, endpoint]) => [path, createRoute(endpoint, path)]),
  );
}

/** Creates the route of an endpoint. */
export function createRoute(endpoint: Endpoint, pattern: string): Route {
  const series = Array.from(
    { length: 6 },
    (_, hundreds) => `${pattern} ${hundreds}xx`,
  );
  return {
    handler: checkingMethod(endpoint),
    pattern,
    series,
    isForAnyHost: endpoint.isForAnyHost ?? false,
  };
}

/** Returns a handler that rejects other methods than those of the endpoint, before it looks at anything else. */
function checkingMethod({ handler, methods, headersOf405 }: Endpoint): Handler {
  if (methods === undefined) return handler;
  return (request, context) => {
    if (methods.includes(request.method)) return handler(request, context);
    throw methodNotAllowed(request.method, methods, headersOf405?.(context));
  };
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

/** The one problem of all unknown paths: to create an error takes longer than everything else that a 404 needs. */
const NOT_FOUND = new Problem(404, { detail: "Nothing found at this path" });

/**
 * Rejects a request for an unknown path.
 *
 * @throws {Problem} 404.
 */
export function notFound(): never {
  throw NOT_FOUND;
}

const OUTSIDE: Route = createRoute({ handler: notFound }, "/*");
