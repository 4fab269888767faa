import type { Content } from "../core/content.ts";
import type { ProxyServices, ProxySettings } from "./proxy/reverse_proxy.ts";
import { CacheGroup } from "../core/values/size_bounded_cache.ts";
import type { StaticContentOptions } from "./static/static_content.ts";

/** What to serve, a directory or an upstream, and how, under the names of the gateway's options. */
export interface ContentSettings
  extends ProxySettings, Pick<StaticContentOptions, "fallback" | "immutable"> {
  readonly staticDir: string | undefined;
  readonly staticCacheBytes: number;
  readonly upstream: URL | undefined;
}

/** What the content is given to work with. */
export type ContentServices =
  & ProxyServices
  & Pick<
    StaticContentOptions,
    "builds" | "cacheGroup" | "checkRoot" | "neverServed" | "sharesBytes"
  >;

/**
 * Opens the directory or the upstream to serve. Returns `undefined` if neither is set. It loads only the code that the
 * setting needs, and none for a gateway within another server.
 *
 * @throws {TypeError} If both are set, or if the runtime is not Deno.
 */
export async function openContent(
  settings: ContentSettings,
  services: ContentServices,
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
    const { builds } = services;
    const { openStaticContent } = await import("./static/static_content.ts");
    const { Compressor } = await import("./coding/representations.ts");
    return await openStaticContent({
      directory: staticDir,
      basePath: settings.basePath,
      cacheBytes: settings.staticCacheBytes,
      cacheGroup: services.cacheGroup ??
        (builds && new CacheGroup(settings.staticCacheBytes)), // they use the same memory
      fallback: settings.fallback,
      immutable: settings.immutable,
      neverServed: services.neverServed,
      checkRoot: services.checkRoot,
      transfers: services.transfers,
      compressor: new Compressor(),
      sharesBytes: services.sharesBytes,
      builds,
      clock: services.clock,
      log: services.log,
    });
  }
  if (upstream === undefined) return undefined;
  const { ReverseProxy } = await import("./proxy/reverse_proxy.ts");
  const { forwardProxyWarning } = await import("./proxy/forward_proxy.ts");
  const detail = forwardProxyWarning(upstream);
  if (detail !== undefined && !settings.rejectWebsockets) {
    services.log.warn("rep.start.warning", { detail });
  }
  return new ReverseProxy(upstream, settings, services);
}
