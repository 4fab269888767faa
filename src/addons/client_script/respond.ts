import { eTag } from "@std/http/etag";
import { CLIENT_BR, CLIENT_GZIP, CLIENT_JS } from "../../client/bundle.ts";
import {
  codedEtag,
  preferredCoding,
} from "../../content/coding/representations.ts";
import { ifNoneMatchFails } from "../../core/http/send.ts";

const BODIES = { identity: CLIENT_JS, br: CLIENT_BR, gzip: CLIENT_GZIP };

/**
 * Handles `GET /rep/client.js`: the browser module `@rep/gateway/client` as one script, for pages without a bundler,
 * compressed if the client accepts that.
 * The spec permits endpoints of our own.
 */
export async function respondWithClientScript(
  request: Request,
): Promise<Response> {
  const coding =
    preferredCoding(request.headers.get("accept-encoding"), ["br", "gzip"]) ??
      "identity";
  const etag = codedEtag(await eTag(CLIENT_JS), coding) ?? "";
  const headers = {
    "cache-control": "no-cache",
    "content-type": "text/javascript; charset=utf-8",
    ...(coding === "identity" ? {} : { "content-encoding": coding }),
    etag,
    "vary": "accept-encoding",
  };
  if (ifNoneMatchFails(request.headers, etag)) {
    return new Response(null, { status: 304, headers });
  }
  return new Response(request.method === "HEAD" ? null : BODIES[coding], {
    headers,
  });
}
