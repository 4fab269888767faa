import type { RouteContext } from "../../http/routes.ts";
import type { GetConfigScript } from "../../pages/config_script.ts";
import { isFragmentRequest } from "../../pages/page.ts";
import {
  headersToOmit,
  injectPage,
  mayExpectPage,
} from "../../pages/page_response.ts";
import type { RequestCounts } from "../transfers.ts";
import {
  type ProxyServices,
  type ProxySettings,
  ReverseProxy,
} from "./reverse_proxy.ts";

/** The responses of an upstream, with the configuration in its pages. */
export class ProxiedContent {
  readonly #proxy: ReverseProxy;
  readonly #services: ProxyServices;

  constructor(settings: ProxySettings, services: ProxyServices) {
    this.#proxy = new ReverseProxy(settings, services);
    this.#services = services;
  }

  /**
   * Forwards a request, and injects the configuration into the response if it is a page. A page that the upstream
   * compressed is compressed again. One that it sent plain stays plain: only the upstream knows whether the page contains
   * both a secret and text of an attacker (BREACH).
   */
  async respond(
    request: Request,
    context: RouteContext,
    getConfigScript: GetConfigScript,
  ): Promise<Response> {
    const { method, headers } = request; // now: a request that Deno.serve has responded to cannot be read
    const response = await this.#proxy.forward(request, context, {
      mayDecode: mayExpectPage(headers),
      omitHeaders: headersToOmit(request),
    });
    const coding = response.headers.get("content-encoding");
    const { log } = this.#services;
    const page = await injectPage(response, request, getConfigScript, log);
    const wasDecoded = coding !== null && !page.headers.has("content-encoding");
    if (!wasDecoded || isFragmentRequest(headers)) return page;
    const { encodeContent } = await import("../../coding/encode_content.ts"); // only if it is needed: `node:zlib` is large
    return encodeContent(page, { method, headers }, coding);
  }

  drain(): Promise<void> {
    return this.#proxy.drain();
  }

  drainIncoming(): Promise<void> {
    return this.#proxy.drainIncoming();
  }

  countRequests(): RequestCounts {
    return this.#proxy.countRequests();
  }

  close(): void {
    this.#proxy.close();
  }
}
