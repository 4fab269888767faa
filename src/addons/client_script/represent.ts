import { eTag } from "@std/http/etag";
import { CLIENT_BR, CLIENT_GZIP, CLIENT_JS } from "../../client/bundle.ts";
import { Representations } from "../../content/coding/representations.ts";
import { toUtf8 } from "../../core/values/utf8.ts";

/**
 * Returns the browser module `@rep/gateway/client` as one script, for pages without a bundler, and its compressed
 * variants.
 */
export async function representClientScript(
  sharesBytes: boolean,
): Promise<Representations> {
  const headers = {
    "cache-control": "no-cache",
    "content-type": "text/javascript; charset=utf-8",
  };
  const etag = await eTag(CLIENT_JS);
  return new Representations(
    { isHtml: false, headers, sharesBytes, compressor: undefined },
    { coding: "identity", body: toUtf8(CLIENT_JS), etag },
    [
      { coding: "br", body: CLIENT_BR, etag },
      { coding: "gzip", body: CLIENT_GZIP, etag },
    ],
  );
}
