import { eTag } from "@std/http/etag";
import { CLIENT_JS } from "../client/bundle.ts";
import { methodNotAllowed } from "../http/problem.ts";

const METHODS = ["GET", "HEAD"];

/**
 * `GET /rep/client.js`: the browser module `@rep/gateway/client` as one script, for pages that have no bundler. The spec leaves
 * other endpoints open.
 */
export async function handleClientScript(request: Request): Promise<Response> {
  if (!METHODS.includes(request.method)) throw methodNotAllowed(request.method, METHODS);
  const etag = await eTag(CLIENT_JS) ?? "";
  const headers = { "cache-control": "no-cache", "content-type": "text/javascript; charset=utf-8", etag };
  if (request.headers.get("if-none-match") === etag) return new Response(null, { status: 304, headers });
  return new Response(request.method === "HEAD" ? null : CLIENT_JS, { headers });
}
