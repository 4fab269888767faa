/**
 * The rows of HTTP requests: how many a second the command answers, compared with its floor. Each row can be measured
 * alone:
 *
 *     deno task bench static_page --connections 50 --seconds 1 --rounds 7
 *
 * The floor is the smallest `Deno.serve` program that sends the same finished bytes, or, for the proxied rows, passes
 * them through with `node:http`. nginx, if it is installed, sends files with the same bytes, or passes them through. All
 * processes are on 127.0.0.1, and share the machine's cores.
 */
import { get, type IncomingMessage } from "node:http";
import { join } from "@std/path";
import { toResponse } from "./_floor_server.ts";
import { startGoGateway } from "./_go_gateway.ts";
import { load } from "./_load.ts";
import { startNginxProxied, startNginxStatic } from "./_nginx.ts";
import { alternate, mapSubjects, type Row, type Subject } from "./_row.ts";
import {
  startFinished,
  startGateway,
  startPassThrough,
  startUpstream,
} from "./_servers.ts";
import { ASSET_PATH, createSite, PAGE_PATH, type Site } from "./_site.ts";
import type { SubjectProcess } from "./_subject_process.ts";

/** The sizes of a row. */
export const HTTP_SIZES = { connections: 50, seconds: 1, rounds: 7 };

/** What a row requests, and from which gateway. */
interface HttpWork {
  readonly name: string;
  readonly work: string;
  readonly path: string;
  readonly kind:
    | "static"
    | "compressed"
    | "not found"
    | "proxied"
    | "over limit"
    | "distinct clients";
}

const KEY_PATH = "/rep/session-key";

/** The rows of the table that are HTTP requests. */
export const HTTP_WORK: readonly HttpWork[] = [
  {
    name: "health",
    work: "`/rep/health`",
    path: "/rep/health",
    kind: "static",
  },
  {
    name: "static_page",
    work: "static page of 11 KB with payload",
    path: PAGE_PATH,
    kind: "static",
  },
  {
    name: "static_asset",
    work: "static asset of 100 KB",
    path: ASSET_PATH,
    kind: "static",
  },
  {
    name: "compressed_page",
    work: "page, compressed, at 5,000 URLs",
    path: "/app/",
    kind: "compressed",
  },
  {
    name: "not_found",
    work: "not found",
    path: "/missing.js",
    kind: "not found",
  },
  {
    name: "limited_key",
    work: "session key, client over its limit",
    path: KEY_PATH,
    kind: "over limit",
  },
  {
    name: "distinct_keys",
    work: "session key, distinct clients, KV file",
    path: KEY_PATH,
    kind: "distinct clients",
  },
  {
    name: "proxied_page",
    work: "proxied page of 11 KB",
    path: PAGE_PATH,
    kind: "proxied",
  },
  {
    name: "proxied_asset",
    work: "proxied asset of 100 KB",
    path: ASSET_PATH,
    kind: "proxied",
  },
];

/** What one load of a server measured. */
interface Measurement {
  readonly perSecond: number;
  /** CPU time of the server per request, in microseconds. */
  readonly cpuUs: number;
  readonly requests: number;
  readonly firstClient: number;
}

/**
 * Measures a row. The row of distinct clients comes with a second one, which says how many were counted in the store.
 */
export async function httpRows(
  work: HttpWork,
  sizes: typeof HTTP_SIZES,
): Promise<Row[]> {
  await using site = await createSite();
  const all = await measureSite(site, work, sizes);
  const row: Row = {
    name: work.name,
    work: work.work,
    unit: "requests/s",
    rounds: mapSubjects(all, (rounds) => rounds.map((it) => it.perSecond)),
    cpuUs: mapSubjects(all, (rounds) => rounds.map((it) => it.cpuUs)),
  };
  const last = all.gateway?.at(-1);
  if (work.kind !== "distinct clients" || last === undefined) return [row];
  return [row, await storedKeysRow(site, last)];
}

async function measureSite(
  site: Site,
  work: HttpWork,
  sizes: typeof HTTP_SIZES,
): Promise<Partial<Record<Subject, readonly Measurement[]>>> {
  await using stack = new AsyncDisposableStack();
  const upstream = work.kind === "proxied"
    ? stack.use(await startUpstream(site, work.path))
    : undefined;
  const args = argsOf(work, site, upstream);
  const gateway = stack.use(await startGateway(site, args));
  const floor = upstream === undefined
    ? await startFinished(site, await exampleOf(gateway, work))
    : await startPassThrough(upstream.url);
  const servers: Partial<Record<Subject, SubjectProcess>> = {
    gateway,
    floor: stack.use(floor),
  };
  const goGateway = await startGoGateway(site, upstream);
  if (goGateway !== undefined) servers["Go gateway"] = stack.use(goGateway);
  const nginx = await startNginx(work, site, upstream ?? gateway);
  if (nginx !== undefined) servers.nginx = stack.use(nginx);

  let loads = 0;
  const measures = mapSubjects(servers, (server) => () => {
    const firstClient = (loads++ % MAX_LOADS) * MAX_CLIENTS;
    return measureLoad(server, work, sizes, firstClient);
  });
  await alternate(1, measures); // the code of the servers is not compiled yet
  return await alternate(sizes.rounds, measures);
}

/** Starts nginx for what it can do as well: it issues no session keys. @param source Where its responses come from. */
async function startNginx(
  { kind }: HttpWork,
  site: Site,
  source: SubjectProcess,
): Promise<SubjectProcess | undefined> {
  switch (kind) {
    case "static":
      return await startNginxStatic(site, source);
    case "proxied":
      return await startNginxProxied(site, source);
    default:
      return undefined;
  }
}

/** Up to this number of loads, no two have a client in common. */
const MAX_LOADS = 40;
/** `_distinct_clients.lua` expects as many. */
const MAX_CLIENTS = 400_000;

function argsOf(
  { kind }: HttpWork,
  site: Site,
  upstream: SubjectProcess | undefined,
): string[] {
  if (kind === "distinct clients") {
    return ["--kv", kvPathOf(site), "--trusted-proxies", "127.0.0.1"];
  }
  const content = upstream === undefined
    ? ["--static-dir", site.directory]
    : ["--upstream", upstream.url];
  return [...content, "--kv", ":memory:"];
}

function kvPathOf({ root }: Site): string {
  return join(root, "kv.sqlite3");
}

/** Returns the response that the row is about. */
async function exampleOf(
  { url }: SubjectProcess,
  { path, kind }: HttpWork,
): Promise<Response> {
  if (kind === "over limit") {
    for (let request = 0; request < MAX_KEYS; request++) {
      await (await fetch(url + path)).body?.cancel();
    }
  }
  return kind === "compressed"
    ? await compressedExampleFrom(url + path)
    : await exampleFrom(url + path, "identity");
}

/** Requests the finished response. It does not decode the body, unlike `fetch`. */
async function exampleFrom(url: string, coding: string): Promise<Response> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const headers = { "accept-encoding": coding };
  get(url, { headers }, resolve).on("error", reject);
  return toResponse(await promise);
}

/** The compressed page is ready once it was compressed in the background. */
async function compressedExampleFrom(url: string): Promise<Response> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const response = await exampleFrom(url, CODING);
    if (response.headers.has("content-encoding")) return response;
    await response.body?.cancel();
  }
  throw new Error(`Cannot measure ${url}: expected a compressed page`);
}

/** Far more requests than a page is sent uncompressed for. */
const MAX_ATTEMPTS = 10_000;

/** The coding that every client and the Go gateway support. */
const CODING = "gzip";

/** More URLs than anything that remembers responses by URL should remember. */
const URLS = 5_000;

/** More keys than a client over its limit still gets because its window slides. */
const MAX_KEYS = 20;

async function measureLoad(
  server: SubjectProcess,
  { path, kind }: HttpWork,
  { connections, seconds }: typeof HTTP_SIZES,
  firstClient: number,
): Promise<Measurement> {
  const before = await server.usage();
  const { perSecond, requests, failed } = await load({
    url: server.url + path,
    connections,
    seconds,
    firstClient: kind === "distinct clients" ? firstClient : undefined,
    urls: kind === "compressed" ? URLS : undefined,
    headers: { "accept-encoding": kind === "compressed" ? CODING : "identity" },
  });
  const after = await server.usage();
  const isRejected = kind === "over limit" || kind === "not found";
  const isExpected = isRejected ? requests - failed <= MAX_KEYS : failed === 0;
  if (requests === 0 || !isExpected) {
    const expected = isRejected ? "all" : "none";
    throw new Error(
      `Cannot measure ${path}: expected ${expected} of the requests to be rejected, got ${failed} of ${requests}`,
    );
  }
  const cpuUs = (after.cpuUs - before.cpuUs) / requests;
  return { perSecond, cpuUs, requests, firstClient };
}

/**
 * Returns which share of a load's requests was counted in the store, after the gateway has ended. The gateway counts in
 * memory when the store is behind; a rate that is reached in this way says nothing about the store.
 */
async function storedKeysRow(
  site: Site,
  { requests, firstClient }: Measurement,
): Promise<Row> {
  using kv = await Deno.openKv(kvPathOf(site));
  let stored = 0;
  for await (const { key } of kv.list({ prefix: ["rep", "rate"] })) {
    const [, a = 0, b = 0, c = 0] = String(key.at(-1)).split(".").map(Number);
    const client = a * 65_536 + b * 256 + c - firstClient;
    if (client >= 0 && client <= MAX_CLIENTS) stored++;
  }
  return {
    name: "stored_keys",
    work: "session keys that the KV file has counted, of the last load",
    unit: "%",
    // Requests that were in flight at the end are stored, but not counted by the load generator.
    rounds: { gateway: [Math.min(100, stored / requests * 100)] },
  };
}
