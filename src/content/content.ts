import type { RouteContext } from "../http/routes.ts";
import type { GetConfigScript } from "../pages/config_script.ts";
import type { ContentOptions } from "./content_options.ts";

/** Requests that are in flight. WebSockets are not counted. */
export interface RequestCounts {
  /** Requests whose body is being received. */
  readonly uploads: number;
  /** Those, and requests whose response is being waited for or sent. */
  readonly all: number;
}

/** The source of every response that is not the gateway's own: a directory, or an upstream. */
export interface Content {
  /** Responds to a request. The configuration is injected into pages. */
  respond(
    request: Request,
    context: RouteContext,
    getConfigScript: GetConfigScript,
  ): Promise<Response>;
  /** Resolves when no proxied request, including its body, and no WebSocket is in flight. @default {there are none} */
  drain?(): Promise<void>;
  /**
   * Resolves when no body of a proxied request is being received and no proxied WebSocket is open:
   * `Deno.HttpServer.shutdown()` breaks both. @default {there are none}
   */
  drainIncoming?(): Promise<void>;
  /** How many requests are in flight now. */
  countRequests(): RequestCounts;
  /** Closes the WebSockets and the connections to the upstream that are left. */
  close(): void;
}

/**
 * Opens the directory or the upstream to serve. Returns `undefined` if there is neither.
 *
 * @throws {TypeError} If there are both, or if the runtime is not Deno.
 */
export async function openContent(
  options: ContentOptions,
): Promise<Content | undefined> {
  const { staticDir, upstream } = options;
  if (staticDir !== undefined && upstream !== undefined) {
    throw new TypeError(
      "Cannot serve a directory and an upstream at once: expected one of them",
    );
  }
  if (globalThis.Deno === undefined && (staticDir ?? upstream) !== undefined) {
    throw new TypeError(
      "Cannot serve a directory or an upstream: expected Deno; elsewhere, pass pages to inject()",
    );
  }
  if (staticDir !== undefined) return await openDirectory(staticDir, options);
  return upstream && await openUpstream(upstream, options);
}

/** Neither of the two is loaded for the other, or for a gateway beside a server of its own. */
async function openDirectory(
  directory: string,
  options: ContentOptions,
): Promise<Content> {
  const { openStaticContent } = await import("./static/static_content.ts");
  const { Compressor } = await import("../coding/compressor.ts");
  return await openStaticContent({
    directory,
    basePath: options.basePath,
    cacheBytes: options.staticCacheBytes,
    immutable: options.immutable,
    neverServed: options.neverServed,
    maxTransfers: options.maxTransfers,
    compressor: new Compressor(),
    clock: options.clock,
    log: options.log,
  });
}

async function openUpstream(
  upstream: URL,
  options: ContentOptions,
): Promise<Content> {
  const { upstreamTimeoutMs: timeoutMs, ...others } = options;
  const { createProxiedContent } = await import("./proxy/proxied_content.ts");
  return createProxiedContent({ ...others, upstream, timeoutMs });
}
