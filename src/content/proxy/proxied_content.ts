import type { RouteContext } from "../../http/routes.ts";
import type { Log } from "../../observe/log.ts";
import type { GetConfigScript } from "../../pages/config_script.ts";
import { isFragmentRequest, mayExpectPage } from "../../pages/page_caching.ts";
import { headersToOmit, injectPage } from "../../pages/page_response.ts";
import { Transfers } from "../transfers.ts";
import { ReverseProxy, type ReverseProxyOptions } from "./reverse_proxy.ts";

/** Makes an upstream the content of a gateway. */
export function createProxiedContent(
  options: Omit<ReverseProxyOptions, "transfers"> & { maxTransfers: number },
) {
  const transfers = new Transfers(options);
  const proxy = new ReverseProxy({ ...options, transfers });
  const { log } = options;
  return {
    respond: (
      request: Request,
      context: RouteContext,
      getConfigScript: GetConfigScript,
    ) => proxyPage(proxy, { request, context, getConfigScript, log }),
    drain: () => transfers.idle(),
    drainIncoming: () => proxy.drainIncoming(),
    countRequests: () => proxy.countRequests(),
    close() {
      proxy.close();
      transfers.close();
    },
  };
}

interface ProxiedRequest {
  readonly request: Request;
  readonly context: RouteContext;
  readonly getConfigScript: GetConfigScript;
  readonly log: Log;
}

/**
 * Forwards a request, and injects the configuration into the response if it is a page. A page that the upstream
 * compressed is compressed again. One that it sent plain stays plain: only the upstream knows whether the page contains
 * both a secret and text of an attacker (BREACH).
 */
async function proxyPage(
  proxy: ReverseProxy,
  { request, context, getConfigScript, log }: ProxiedRequest,
) {
  const { method, headers } = request; // now: a request that Deno.serve has responded to cannot be read
  const options = {
    mayDecode: mayExpectPage(headers),
    omitHeaders: headersToOmit(request),
  };
  const response = await proxy.forward(request, context, options);
  const coding = response.headers.get("content-encoding");
  const page = await injectPage(response, request, getConfigScript, log);
  const wasDecoded = coding !== null && !page.headers.has("content-encoding") &&
    !isFragmentRequest(headers);
  if (!wasDecoded) return page;
  const { encodeContent } = await import("../../coding/encode_content.ts"); // only if it is needed: `node:zlib` is large
  return encodeContent(page, { method, headers }, coding);
}
