import type { Clock } from "./clock.ts";
import type { Client } from "./http/client_address.ts";
import type { Log } from "./log.ts";
import { headersToOmit } from "./pages/page_response.ts";
import { createProxy } from "./proxy/proxy.ts";
import { createStaticFiles } from "./static/static_files.ts";

/** Where everything comes from that is not the gateway's own. */
export interface Content {
  respond(request: Request, client: Client): Promise<Response>;
  /** Resolves when no request and no WebSocket is in flight. */
  drain(): Promise<void>;
  close(): void;
}

/** What {@linkcode openContent} needs. */
export interface ContentOptions {
  staticDir?: string | undefined;
  upstream?: URL | undefined;
  upstreamTimeoutMs: number;
  clock: Clock;
  log: Log;
}

/**
 * Opens the directory or the upstream that is to be served; nothing if there is neither.
 *
 * @throws {TypeError} If there are both.
 */
export async function openContent(options: ContentOptions): Promise<Content | undefined> {
  const { staticDir, upstream, upstreamTimeoutMs: timeoutMs, clock, log } = options;
  if (staticDir !== undefined && upstream !== undefined) {
    throw new TypeError("Cannot serve a directory and an upstream at once: expected one of them");
  }
  if (staticDir !== undefined) {
    return {
      respond: await createStaticFiles({ directory: staticDir, clock }),
      drain: () => Promise.resolve(),
      close() {},
    };
  }
  if (upstream === undefined) return undefined;
  const proxy = createProxy({ upstream, timeoutMs, clock, log });
  return {
    respond: (request, client) => proxy(request, client, { decodable: true, omitHeaders: headersToOmit(request) }),
    drain: () => Promise.resolve(),
    close: () => proxy.close(),
  };
}
