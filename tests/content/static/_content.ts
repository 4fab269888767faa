import { dirname, join } from "@std/path";
import { Compressor } from "../../../src/content/coding/representations.ts";
import {
  openStaticContent,
  type StaticContent,
  type StaticContentOptions,
} from "../../../src/content/static/static_content.ts";
import { Transfers } from "../../../src/core/http/transfers.ts";
import { Problem, problemResponse } from "../../../src/core/http/problem.ts";
import { readUrl, type RouteContext } from "../../../src/core/http/routes.ts";
import { silentLog } from "../../../src/core/observe/log.ts";
import type { ConfigScript } from "../../../src/core/pages/config_script.ts";
import { systemClock } from "../../../src/core/values/clock.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { captureLog } from "../../_gateway.ts";
import { TempDirectory } from "../../_temp.ts";

/** A config script without bytes: a page with it is the file byte for byte. */
export const NO_SCRIPT: ConfigScript = {
  bytes: new Uint8Array(),
  etagPart: "r1",
  isSecret: false,
};

type TestContentOptions =
  & Pick<StaticContentOptions, "directory">
  & Partial<StaticContentOptions>;

/** Opens a directory as the gateway does. */
export function openContent(
  options: TestContentOptions,
): Promise<StaticContent> {
  return openStaticContent({
    basePath: "",
    cacheBytes: 67_108_864,
    cacheGroup: undefined,
    fallback: undefined,
    immutable: [],
    checkRoot: undefined,
    neverServed: () => Promise.resolve([]),
    transfers: new Transfers({
      clock: systemClock,
      log: silentLog,
      maxTransfers: 100,
    }),
    builds: undefined,
    compressor: new Compressor(),
    sharesBytes: true,
    clock: systemClock,
    log: silentLog,
    ...options,
  });
}

/** Returns what the gateway knows about a request. A directory is the same for every client. */
export function contextOf({ url }: Request): RouteContext {
  const client = { address: "192.0.2.1", clientKey: "192.0.2.1" };
  return { url: readUrl(url)!, client } as RouteContext;
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

/** When the files of a site were last modified: not just now. */
export const MODIFIED = new Date("1994-11-06T08:49:37.500Z");

/** The names of files, and what is in them. */
export type Files = Record<string, string | Uint8Array>;

/** Writes files, and the directories that they are in. */
export async function writeFiles(
  directory: string,
  files: Files,
): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    const path = join(directory, name);
    await Deno.mkdir(dirname(path), { recursive: true });
    const bytes = typeof content === "string"
      ? new TextEncoder().encode(content)
      : content;
    await Deno.writeFile(path, bytes);
    await Deno.utime(path, MODIFIED, MODIFIED);
  }
}

/** A served directory. It is in another one, which is removed after the test, and has a `secret.txt` beside it. */
export interface Site extends AsyncDisposable {
  readonly content: StaticContent;
  /** The time of the content, which does not advance by itself. */
  readonly clock: FakeClock;
  /** The log, one object per line. */
  readonly lines: Record<string, unknown>[];
  /** A path in the served directory, or its own. */
  at(name?: string): string;
  /** Writes a file just now. */
  write(name: string, text: string): Promise<void>;
  get(path: string, headers?: HeadersInit): Promise<Response>;
  /** The body of a response, or its status if it is a problem. */
  read(path: string, headers?: HeadersInit): Promise<string>;
  /** The same of several. */
  readAll(paths: readonly string[]): Promise<string[]>;
}

interface SiteOptions {
  fallback?: string;
  basePath?: string;
  immutable?: readonly string[];
  cacheBytes?: number;
  maxTransfers?: number;
  compressor?: Compressor;
  sharesBytes?: boolean;
  /** Paths relative to the directory. */
  neverServed?: readonly string[];
}

/** Serves files. */
export async function serveSite(
  files: Files,
  { neverServed = [], maxTransfers = 100, ...options }: SiteOptions = {},
): Promise<Site> {
  const parent = await TempDirectory.make({ "secret.txt": "secret" });
  const at = (name = "") => parent.at(join("site", name));
  await Deno.mkdir(at());
  await writeFiles(at(), files);
  const clock = new FakeClock(Date.now());
  const { log, lines } = captureLog();
  const content = await openContent({
    ...options,
    directory: at(),
    neverServed: () => Promise.resolve(neverServed.map(at)),
    transfers: new Transfers({ clock, log, maxTransfers }),
    clock,
    log,
  });
  const get = (path: string, headers: HeadersInit = {}) =>
    answerWith(content, new Request(`http://app.example${path}`, { headers }));
  async function read(path: string, headers?: HeadersInit): Promise<string> {
    const response = await get(path, headers);
    const text = await response.text();
    return response.status < 400 ? text : String(response.status);
  }
  return {
    content,
    clock,
    lines,
    at,
    write: (name, text) => Deno.writeTextFile(at(name), text),
    get,
    read,
    readAll: (paths) => Promise.all(paths.map((path) => read(path))),
    [Symbol.asyncDispose]: () => parent[Symbol.asyncDispose](),
  };
}
