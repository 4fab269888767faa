/**
 * The rows of HTTP requests: how many a second the command answers, beside its floor. Each row can be measured alone:
 *
 *     deno task bench static_page --connections 50 --seconds 1 --rounds 7
 *
 * The floor is the smallest `Deno.serve` program that sends the same finished bytes, or, for the proxied rows, passes
 * them through with `node:http`; with `fetch`, for scale, too. The requests are sent by `wrk`, or by a client in this
 * process if it is not installed (`--wrk 0`). All processes are on 127.0.0.1, and share the machine's cores.
 */
import { join } from "@std/path";
import { NODE_SERVER, startFinished, startGateway, startPassThrough, startUpstream } from "./_http_subjects.ts";
import { findLoadGenerator, type LoadGenerator } from "./_load_generator.ts";
import { startNginx } from "./_nginx.ts";
import { addHttpPeers } from "./_http_peers.ts";
import type { ProcessUsage } from "./_process_usage.ts";
import type { BenchContext } from "./_programs.ts";
import { alternate, type BySubject, mapSubjects, type Row, type Subject } from "./_row.ts";
import { ASSET_PATH, createSite, PAGE_PATH, type Site } from "./_site.ts";
import { type LoadedClients, MAX_CLIENTS_PER_LOAD, storedKeysRow } from "./_stored_keys.ts";
import type { SubjectProcess } from "./_subject_process.ts";

/** The sizes of a row. `wrk` is 1 to use it if it is installed. */
export const HTTP_SIZES = { connections: 50, seconds: 1, rounds: 7, wrk: 1 };

/** What a row requests, and from which gateway. */
export interface HttpWork {
  readonly name: string;
  readonly work: string;
  readonly path: string;
  /** The options of the gateway. */
  readonly args: (site: Site, upstreamPort: number) => readonly string[];
  /** Whether the gateway is measured on its other server as well. */
  readonly hasBothServers?: boolean;
  /** Whether the gateway passes on what an upstream sends. */
  readonly isProxied?: boolean;
  /** Whether each request comes from another client. */
  readonly hasDistinctClients?: boolean;
  /** Whether the client has requested too much before. */
  readonly isOverLimit?: boolean;
}

const embedded = ({ directory }: Site) => ["--static-dir", directory, "--kv", ":memory:"];
const proxy = (_: Site, port: number) => ["--upstream", `http://127.0.0.1:${port}`, "--kv", ":memory:"];
const trusting = ["--trusted-proxies", "127.0.0.1"];
const kvPathOf = ({ root }: Site) => join(root, "kv.sqlite3");
const KEY_PATH = "/rep/session-key";

/** The rows of the table that are HTTP requests. */
export const HTTP_WORK: readonly HttpWork[] = [
  { name: "health", work: "`/rep/health`", path: "/rep/health", args: embedded, hasBothServers: true },
  { name: "static_page", work: "static page of 11 KB with payload", path: PAGE_PATH, args: embedded },
  { name: "static_asset", work: "static asset of 100 KB", path: ASSET_PATH, args: embedded },
  {
    name: "limited_key",
    work: "session key, client over its limit",
    path: KEY_PATH,
    args: embedded,
    isOverLimit: true,
  },
  {
    name: "distinct_keys",
    work: "session key, distinct clients, KV file",
    path: KEY_PATH,
    args: (site) => ["--kv", kvPathOf(site), ...trusting],
    hasDistinctClients: true,
  },
  { name: "proxied_page", work: "proxied page of 11 KB", path: PAGE_PATH, args: proxy, isProxied: true },
  { name: "proxied_asset", work: "proxied asset of 100 KB", path: ASSET_PATH, args: proxy, isProxied: true },
];

/** Measures a row; that of distinct clients with a second one, which says how many were counted in the store. */
export async function measureHttp(work: HttpWork, sizes: typeof HTTP_SIZES, context: BenchContext): Promise<Row[]> {
  await using site = await createSite();
  const { row, lastClients } = await measureSite(site, work, sizes, context);
  if (!work.hasDistinctClients) return [row];
  using kv = await Deno.openKv(kvPathOf(site)); // the gateway has ended, and stored what it counted in memory
  return [row, await storedKeysRow(kv, lastClients)];
}

async function measureSite(site: Site, work: HttpWork, sizes: typeof HTTP_SIZES, context: BenchContext) {
  await using stack = new AsyncDisposableStack();
  const upstream = work.isProxied ? stack.use(await startUpstream(site, work.path, context.nginx)) : undefined;
  const gateway = stack.use(await startGateway(site, work.args(site, upstream?.port ?? 0)));
  const servers: Partial<Record<Subject, SubjectProcess>> = { gateway };
  if (work.hasBothServers && NODE_SERVER !== undefined) {
    servers["gateway --server node"] = stack.use(await startGateway(site, [...work.args(site, 0), ...NODE_SERVER]));
  }
  if (upstream !== undefined) {
    servers.floor = stack.use(await startPassThrough("node", upstream));
    servers.fetch = stack.use(await startPassThrough("fetch", upstream));
  } else {
    servers.floor = stack.use(await startFinished(site, await exampleOf(gateway, work)));
  }
  if (work.hasDistinctClients) {
    servers["memory store"] = stack.use(await startGateway(site, ["--kv", ":memory:", ...trusting]));
  }
  await addHttpPeers({ work, site, servers, upstream, stack, context });
  return await measureServers(servers, work, sizes);
}

/** Returns the response that the row is about. */
async function exampleOf({ port }: SubjectProcess, { path, isOverLimit }: HttpWork): Promise<Response> {
  const url = `http://127.0.0.1:${port}${path}`;
  if (isOverLimit) { for (let request = 0; request < 20; request++) await (await fetch(url)).body?.cancel(); }
  return await fetch(url, { headers: { "accept-encoding": "identity" } });
}

/** What one load of a server measured. */
interface Measurement extends LoadedClients {
  readonly perSecond: number;
  /** CPU time of the server per request, in microseconds; `undefined` where there is no `/proc`. */
  readonly cpuUs: number | undefined;
}

/** Loads the servers in turn. */
async function measureServers(servers: BySubject<SubjectProcess>, work: HttpWork, sizes: typeof HTTP_SIZES) {
  const { run } = await findLoadGenerator(sizes.wrk === 1);
  let firstClient = 0;
  const measures = mapSubjects(servers, (server) => () => {
    firstClient += MAX_CLIENTS_PER_LOAD;
    return measureLoad(server, { work, sizes, run, firstClient });
  });
  await alternate(1, measures); // the code of the servers is not compiled yet
  const all = await alternate(sizes.rounds, measures);
  const row: Row = {
    name: work.name,
    work: work.work,
    unit: "requests/s",
    rounds: mapSubjects(all, (loads) => loads.map(({ perSecond }) => perSecond)),
    cpuUs: mapSubjects(all, (loads) => loads.flatMap(({ cpuUs }) => cpuUs ?? [])),
  };
  return { row, lastClients: all.gateway?.slice(-1) ?? [] };
}

/** The keys that a client over its limit still gets, since its window slides. */
const MAX_KEYS = 20;

/** What a server is loaded with. */
interface LoadWork {
  readonly work: HttpWork;
  readonly sizes: typeof HTTP_SIZES;
  readonly run: LoadGenerator;
  readonly firstClient: number;
}

async function measureLoad(
  server: SubjectProcess,
  { work: { name, path, isOverLimit, hasDistinctClients }, sizes, run, firstClient }: LoadWork,
): Promise<Measurement> {
  const before = await usageOf(server);
  const options = { ...sizes, port: server.port, path, ...hasDistinctClients && { firstClient } };
  const { perSecond, requests, failed } = await run(options);
  const after = await usageOf(server);
  const isExpected = isOverLimit ? requests - failed <= MAX_KEYS : failed === 0;
  if (requests === 0 || !isExpected) {
    const expected = isOverLimit ? "all of the requests" : "none of the requests";
    throw new Error(`Cannot measure ${name}: expected ${expected} to be rejected, got ${failed} of ${requests}`);
  }
  return { perSecond, requests, firstClient, cpuUs: before && after && (after.cpuUs - before.cpuUs) / requests };
}

async function usageOf(server: SubjectProcess): Promise<ProcessUsage | undefined> {
  try {
    return await server.usage();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined; // there is no /proc
    throw error;
  }
}

/** Measures how many requests the load generator can send: more than this cannot be measured. */
export async function measureCeiling(sizes: typeof HTTP_SIZES, { nginx }: BenchContext): Promise<Row> {
  await using site = await createSite();
  await using stack = new AsyncDisposableStack();
  const { name } = await findLoadGenerator(sizes.wrk === 1);
  const servers: Partial<Record<Subject, SubjectProcess>> = {
    floor: stack.use(await startFinished(site, new Response("ok"))),
  };
  if (nginx !== undefined) {
    const locations = 'location / { return 200 "ok"; }';
    servers.nginx = stack.use(await startNginx(nginx, { directory: site.root, locations, readyPath: "/" }));
  }
  const work = { name: "ceiling", work: `the ceiling of the load generator (${name})`, path: "/", args: embedded };
  return (await measureServers(servers, work, sizes)).row;
}
