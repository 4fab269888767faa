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

/** The prefix of the gateway's own paths; no request below it reaches the app behind the gateway. */
const OWN_PREFIX = "/rep/";

/** Whether a request's path is one of the gateway's own. */
export function isOwnPath({ url }: Request): boolean {
  return URL.canParse(url) && new URL(url).pathname.startsWith(OWN_PREFIX);
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
