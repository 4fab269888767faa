import type { Client } from "./client_address.ts";
import { Problem } from "./problem.ts";

/** What a handler is told beside the request. */
export interface RouteContext {
  readonly client: Client;
}

/** Answers a request, or throws a {@linkcode Problem}. */
export type Handler = (request: Request, context: RouteContext) => Response | Promise<Response>;

/** The handler table: who answers for which path. */
export type Routes = Readonly<Record<string, Handler>>;

/** The prefix of the gateway's own paths; no request below it reaches the app behind the gateway. */
const OWN_PREFIX = "/rep/";

/** Whether a request's path is one of the gateway's own. */
export function isOwnPath({ url }: Request): boolean {
  return URL.canParse(url) && new URL(url).pathname.startsWith(OWN_PREFIX);
}

/** The handler for a path; nothing if the path is not the gateway's. */
export function findHandler(routes: Routes, path: string): Handler | undefined {
  if (Object.hasOwn(routes, path)) return routes[path];
  return path.startsWith(OWN_PREFIX) ? notFound : undefined;
}

/** The answer for what nobody answers for. */
export function notFound(): never {
  throw new Problem(404, { detail: "There is nothing here" });
}
