import { eTag } from "@std/http/etag";
import { CLIENT_BR, CLIENT_GZIP, CLIENT_JS } from "../../client/bundle.ts";
import { Representations } from "../../content/coding/representations.ts";
import { send } from "../../core/http/send.ts";

/**
 * Handles `GET /rep/client.js`: the browser module `@rep/gateway/client` as one script, for pages without a bundler,
 * compressed if the client accepts that.
 * The spec permits endpoints of our own.
 */
export async function respondWithClientScript(
  request: Request,
): Promise<Response> {
  const headers = {
    "cache-control": "no-cache",
    "content-type": "text/javascript; charset=utf-8",
  };
  const etag = await eTag(CLIENT_JS);
  const script = new Representations(
    { isHtml: false, headers, compressor: undefined },
    { coding: "identity", body: CLIENT_JS, etag },
    [
      { coding: "br", body: CLIENT_BR, etag },
      { coding: "gzip", body: CLIENT_GZIP, etag },
    ],
  );
  return await send(request, script.select(request.headers));
}
