import type { Clock } from "./clock.ts";
import type { Client } from "./http/client_address.ts";
import type { Log } from "./log.ts";
import { type Metrics, noMetrics } from "./metrics/metrics.ts";
import { headersToOmit, isPage } from "./pages/page_response.ts";
import { ReverseProxy } from "./proxy/reverse_proxy.ts";
import { StaticFiles } from "./static/static_files.ts";

/** The source of every response that is not the gateway's own: a directory, or an upstream. */
export interface Content {
  respond(request: Request, client: Client): Promise<Response>;
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
  const { staticDir, upstream, upstreamTimeoutMs: timeoutMs, clock, log, metrics = noMetrics } = options;
  const { basePath = "", preserveHost = false } = options;
  if (staticDir !== undefined && upstream !== undefined) {
    throw new TypeError("Cannot serve a directory and an upstream at once: expected one of them");
  }
  if (staticDir !== undefined) return fileContent(await StaticFiles.open({ directory: staticDir, clock, basePath }));
  return upstream &&
    proxiedContent(new ReverseProxy({ upstream, timeoutMs, clock, log, metrics, basePath, preserveHost }));
}

const resolved = () => Promise.resolve();

function fileContent(files: StaticFiles): Content {
  return { respond: (request) => files.respond(request), drain: resolved, drainWebSockets: resolved, close() {} };
}

function proxiedContent(proxy: ReverseProxy): Content {
  return {
    respond: (request, client) =>
      proxy.respond(request, client, { shouldDecode: isPage, omitHeaders: headersToOmit(request) }),
    drain: () => proxy.drain(),
    drainWebSockets: () => proxy.drainWebSockets(),
    close: () => proxy.close(),
  };
}
