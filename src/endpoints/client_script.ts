import { eTag } from "@std/http/etag";
import { CLIENT_JS } from "../client/bundle.ts";
import { ifNoneMatchFails } from "../http/preconditions.ts";
import { methodNotAllowed } from "../http/problem.ts";

const METHODS = ["GET", "HEAD"];

/**
 * Handles `GET /rep/client.js`: the browser module `@rep/gateway/client` as one script, for pages without a bundler.
 * The spec permits endpoints of our own.
 *
 * @throws {Problem} 405 for methods other than GET and HEAD.
 */
export async function handleClientScript(request: Request): Promise<Response> {
  if (!METHODS.includes(request.method)) throw methodNotAllowed(request.method, METHODS);
  const etag = await eTag(CLIENT_JS) ?? "";
  const headers = { "cache-control": "no-cache", "content-type": "text/javascript; charset=utf-8", etag };
  if (ifNoneMatchFails(request.headers, etag)) return new Response(null, { status: 304, headers });
  return new Response(request.method === "HEAD" ? null : CLIENT_JS, { headers });
}
