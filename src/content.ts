import type { Clock } from "./clock.ts";
import type { Client } from "./http/client_address.ts";
import type { Log } from "./log.ts";
import { type Metrics, noMetrics } from "./metrics/metrics.ts";
import { Compressor } from "./http/compressor.ts";
import type { ConfigScript } from "./pages/config_script.ts";
import { FinishedPages } from "./pages/finished_pages.ts";
import { isFragmentRequest } from "./pages/page_caching.ts";
import { headersToOmit, injectPage, isPage } from "./pages/page_response.ts";
import type { ReverseProxy } from "./proxy/reverse_proxy.ts";
import type { StaticResult } from "./static/static_files.ts";

/** Returns the config script for a page. */
type GetConfigScript = () => ConfigScript | Promise<ConfigScript>;

/** The source of every response that is not the gateway's own: a directory, or an upstream. */
export interface Content {
  /** Responds to a request. The configuration is inserted into pages. */
  respond(
    request: Request,
    context: { readonly client: Client },
    getConfigScript: GetConfigScript,
  ): Response | Promise<Response>;
  /** Resolves when no proxied request, including its body, and no WebSocket is in flight. */
  drain(): Promise<void>;
  /** Resolves when no proxied WebSocket is open. */
  drainWebSockets(): Promise<void>;
  /** Closes the WebSockets and the connections to the upstream that are left. */
  close(): void;
}

/** Options of {@linkcode openContent}. */
export interface ContentOptions {
  staticDir?: string | undefined;
  /** How many bytes of files are kept in memory. */
  staticCacheBytes: number;
  upstream?: URL | undefined;
  /** Removed from the path of each request. @default {""} */
  basePath?: string;
  /** Whether the upstream gets the client's `Host` header. @default {false} */
  preserveHost?: boolean;
  upstreamTimeoutMs: number;
  clock: Clock;
  log: Log;
  /** @default {noMetrics} */
  metrics?: Metrics;
}

/**
 * Opens the directory or the upstream to serve. Returns `undefined` if there is neither.
 *
 * @throws {TypeError} If there are both.
 */
export async function openContent(options: ContentOptions): Promise<Content | undefined> {
  const { staticDir, upstream } = options;
  if (staticDir !== undefined && upstream !== undefined) {
    throw new TypeError("Cannot serve a directory and an upstream at once: expected one of them");
  }
  if (staticDir !== undefined) return await openDirectory(staticDir, options);
  return upstream && proxiedContent(await createProxy(upstream, options), options.log);
}

const resolved = () => Promise.resolve();

/** Neither of the two is loaded for the other, or for a gateway beside a server of its own. */
async function openDirectory(directory: string, options: ContentOptions): Promise<Content> {
  const { staticCacheBytes: cacheBytes, clock, basePath = "", log } = options;
  const { StaticFiles } = await import("./static/static_files.ts");
  const compressor = new Compressor();
  const files = await StaticFiles.open({ directory, cacheBytes, clock, basePath, compressor });
  const pages = new FinishedPages(compressor);
  function finish(result: StaticResult, request: Request, getConfigScript: GetConfigScript) {
    if (result.kind === "response") return result.response;
    if (result.kind === "page") return pages.respond(result.page, request, getConfigScript);
    return injectPage(result.response, request, getConfigScript, log);
  }
  return {
    respond(request, _context, getConfigScript) {
      const result = files.respond(request);
      if (!(result instanceof Promise)) return finish(result, request, getConfigScript);
      return result.then((result) => finish(result, request, getConfigScript));
    },
    drain: resolved,
    drainWebSockets: resolved,
    close: () => compressor.close(),
  };
}

async function createProxy(upstream: URL, options: ContentOptions): Promise<ReverseProxy> {
  const { upstreamTimeoutMs: timeoutMs, clock, log, metrics = noMetrics, basePath = "", preserveHost = false } =
    options;
  const { ReverseProxy } = await import("./proxy/reverse_proxy.ts");
  return new ReverseProxy({ upstream, timeoutMs, clock, log, metrics, basePath, preserveHost });
}

function proxiedContent(proxy: ReverseProxy, log: Log): Content {
  return {
    respond: (request, { client }, getConfigScript) => proxyPage(proxy, { request, client, getConfigScript, log }),
    drain: () => proxy.drain(),
    drainWebSockets: () => proxy.drainWebSockets(),
    close: () => proxy.close(),
  };
}

interface ProxiedRequest {
  readonly request: Request;
  readonly client: Client;
  readonly getConfigScript: GetConfigScript;
  readonly log: Log;
}

/**
 * Forwards a request, and inserts the configuration into the response if it is a page. A page that the upstream
 * compressed is compressed again. One that it sent plain stays plain: only the upstream knows whether the page contains
 * both a secret and text of an attacker (BREACH).
 */
async function proxyPage(proxy: ReverseProxy, { request, client, getConfigScript, log }: ProxiedRequest) {
  let coding: string | null = null;
  const shouldDecode = (response: Response) => {
    if (!isPage(response) || isFragmentRequest(request.headers)) return false;
    coding = response.headers.get("content-encoding");
    return true;
  };
  const { method, headers } = request; // now: a request that Deno.serve has responded to cannot be read
  const response = await proxy.respond(request, client, { shouldDecode, omitHeaders: headersToOmit(request) });
  const page = await injectPage(response, request, getConfigScript, log);
  const wasDecoded = coding !== null && !page.headers.has("content-encoding");
  if (!wasDecoded) return page;
  const { encodeContent } = await import("./http/encode_content.ts"); // only if it is needed: `node:zlib` is large
  return encodeContent(page, { method, headers }, coding ?? "");
}
