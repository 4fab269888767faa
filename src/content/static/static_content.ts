import { Compressor } from "../../coding/compressor.ts";
import type { Log } from "../../observe/log.ts";
import type { GetConfigScript } from "../../pages/config_script.ts";
import { FinishedPages } from "../../pages/finished_pages.ts";
import { injectPage } from "../../pages/page_response.ts";
import type { Clock } from "../../values/clock.ts";
import { StaticFiles, type StaticResult } from "./static_files.ts";

/** Options of {@linkcode openStaticContent}. */
interface StaticContentOptions {
  directory: string;
  cacheBytes: number;
  basePath: string;
  clock: Clock;
  log: Log;
}

/** Opens a directory as the content of a gateway. */
export async function openStaticContent({ log, ...options }: StaticContentOptions) {
  const compressor = new Compressor();
  const files = await StaticFiles.open({ ...options, compressor });
  const pages = new FinishedPages(compressor);
  function finish(result: StaticResult, request: Request, getConfigScript: GetConfigScript) {
    if (result.kind === "response") return result.response;
    if (result.kind === "page") return pages.respond(result.page, request, getConfigScript);
    return injectPage(result.response, request, getConfigScript, log);
  }
  return {
    respond(request: Request, _context: unknown, getConfigScript: GetConfigScript): Response | Promise<Response> {
      const result = files.respond(request);
      if (!(result instanceof Promise)) return finish(result, request, getConfigScript);
      return result.then((result) => finish(result, request, getConfigScript));
    },
    drain: resolved,
    drainWebSockets: resolved,
    close: () => compressor.close(),
  };
}

/** There is neither a proxied request nor a WebSocket. */
function resolved(): Promise<void> {
  return Promise.resolve();
}
