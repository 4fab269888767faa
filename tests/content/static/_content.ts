import { Compressor } from "../../../src/coding/representations.ts";
import {
  openStaticContent,
  type StaticContent,
} from "../../../src/content/static/static_content.ts";
import { Problem, problemResponse } from "../../../src/http/problem.ts";
import { RequestUrls, type RouteContext } from "../../../src/http/routes.ts";
import { type Log, silentLog } from "../../../src/observe/log.ts";
import type { ConfigScript } from "../../../src/pages/config_script.ts";
import { type Clock, systemClock } from "../../../src/values/clock.ts";

/** A config script without bytes: a page with it is the file byte for byte. */
export const NO_SCRIPT: ConfigScript = {
  bytes: new Uint8Array(),
  revision: "r1",
  isSecret: false,
};

interface TestContentOptions {
  directory: string;
  cacheBytes?: number;
  clock?: Clock;
  log?: Log;
  compressor?: Compressor;
  immutable?: readonly string[];
  maxTransfers?: number;
  neverServed?: () => Promise<readonly string[]>;
}

/** Opens a directory as the gateway does. */
export function openContent(
  options: TestContentOptions,
): Promise<StaticContent> {
  const { cacheBytes = 67_108_864, immutable = [], maxTransfers = 100 } =
    options;
  const { clock = systemClock, log = silentLog } = options;
  const { compressor = new Compressor() } = options;
  const { neverServed = () => Promise.resolve([]) } = options;
  return openStaticContent({
    directory: options.directory,
    basePath: "",
    cacheBytes,
    immutable,
    neverServed,
    maxTransfers,
    compressor,
    clock,
    log,
  });
}

/** Returns what the gateway knows about a request. A directory is the same for every client. */
export function contextOf({ url }: Request): RouteContext {
  const client = { address: "192.0.2.1", clientKey: "192.0.2.1" };
  return { url: new RequestUrls().read(url)!, client } as RouteContext;
}

/** Responds to a request. */
export function respondWith(
  content: StaticContent,
  request: Request,
  script: ConfigScript = NO_SCRIPT,
): Promise<Response> {
  const getConfigScript = () => Promise.resolve(script);
  return content.respond(request, contextOf(request), getConfigScript);
}

/** Responds to a request as the gateway does, with a response for a problem. */
export async function answerWith(
  content: StaticContent,
  request: Request,
  script?: ConfigScript,
): Promise<Response> {
  try {
    return await respondWith(content, request, script);
  } catch (error) {
    if (error instanceof Problem) return problemResponse(error);
    throw error;
  }
}
