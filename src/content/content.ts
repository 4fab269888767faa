import type { RouteContext } from "../http/routes.ts";
import type { GetConfigScript } from "../pages/config_script.ts";
import type { ProxyServices, ProxySettings } from "./proxy/reverse_proxy.ts";
import type { RequestCounts } from "./transfers.ts";

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
  /** Closes the remaining WebSockets and connections to the upstream. */
  close(): void;
}

/** How files are served, under the names of the gateway's options. */
interface DirectorySettings {
  /** The path under which the directory is served: empty, or for example `/app`. */
  readonly basePath: string;
  /** How many bytes of files are kept in memory. */
  readonly staticCacheBytes: number;
  /** Globs of the files in the directory that never change. */
  readonly immutable: readonly string[];
  /** Returns the paths of files and directories that are never served from the directory. */
  readonly neverServed: () => Promise<readonly string[]>;
  /** The maximum number of files that are streamed at once. */
  readonly maxTransfers: number;
}

/** What is served, a directory or an upstream, and how. */
export interface ContentSettings extends DirectorySettings, ProxySettings {
  readonly staticDir: string | undefined;
  readonly upstream: URL | undefined;
}

/**
 * Opens the directory or the upstream to serve. Returns `undefined` if neither is set. Only the code for the one that
 * is served is loaded; a gateway within another server loads neither.
 *
 * @throws {TypeError} If both are set, or if the runtime is not Deno.
 */
export async function openContent(
  settings: ContentSettings,
  services: ProxyServices,
): Promise<Content | undefined> {
  const { staticDir, upstream } = settings;
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
  if (staticDir !== undefined) {
    return await openDirectory(staticDir, settings, services);
  }
  if (upstream !== undefined) {
    return await openUpstream(upstream, settings, services);
  }
  return undefined;
}

async function openDirectory(
  directory: string,
  settings: DirectorySettings,
  { clock, log }: Pick<ProxyServices, "clock" | "log">,
): Promise<Content> {
  const { openStaticContent } = await import("./static/static_content.ts");
  const { Compressor } = await import("../coding/representations.ts");
  return await openStaticContent({
    directory,
    basePath: settings.basePath,
    cacheBytes: settings.staticCacheBytes,
    immutable: settings.immutable,
    neverServed: settings.neverServed,
    maxTransfers: settings.maxTransfers,
    compressor: new Compressor(),
    clock,
    log,
  });
}

async function openUpstream(
  upstream: URL,
  settings: ProxySettings,
  services: ProxyServices,
): Promise<Content> {
  const { ReverseProxy } = await import("./proxy/reverse_proxy.ts");
  return new ReverseProxy(upstream, settings, services);
}
