/**
 * The rows of HTTP requests: how many a second the command answers, beside its floor. Each row can be measured alone:
 *
 *     deno task bench static_page --connections 50 --seconds 1 --rounds 7
 *
 * The floor is the smallest `Deno.serve` program that sends the same finished bytes, or, for the proxied rows, passes
 * them through with `node:http`; with `fetch`, for scale, too. The requests are sent by `wrk`, or by a client in this
 * process if it is not installed (`--wrk 0`). All processes are on 127.0.0.1, and share the machine's cores.
 */
import { type HTTP_SIZES, measureServers } from "./_http_load.ts";
import { addHttpPeers } from "./_http_peers.ts";
import {
  startFinished,
  startGateway,
  startPassThrough,
  startUpstream,
} from "./_http_subjects.ts";
import { type HttpWork, kvPathOf, TRUSTING } from "./_http_work.ts";
import { findLoadGenerator } from "./_load_generator.ts";
import { startNginx } from "./_nginx.ts";
import type { BenchContext } from "./_programs.ts";
import type { Row, Subject } from "./_row.ts";
import { createSite, type Site } from "./_site.ts";
import { storedKeysRow } from "./_stored_keys.ts";
import type { SubjectProcess } from "./_subject_process.ts";

/** Measures a row; that of distinct clients with a second one, which says how many were counted in the store. */
export async function measureHttp(
  work: HttpWork,
  sizes: typeof HTTP_SIZES,
  context: BenchContext,
): Promise<Row[]> {
  await using site = await createSite();
  const { row, lastClients } = await measureSite(site, work, sizes, context);
  if (!work.hasDistinctClients) return [row];
  using kv = await Deno.openKv(kvPathOf(site)); // the gateway has ended, and stored what it counted in memory
  return [row, await storedKeysRow(kv, lastClients)];
}

async function measureSite(
  site: Site,
  work: HttpWork,
  sizes: typeof HTTP_SIZES,
  context: BenchContext,
) {
  await using stack = new AsyncDisposableStack();
  const upstream = work.isProxied
    ? stack.use(await startUpstream(site, work.path, context.nginx))
    : undefined;
  const gateway = stack.use(
    await startGateway(site, work.args(site, upstream?.port ?? 0)),
  );
  const servers: Partial<Record<Subject, SubjectProcess>> = { gateway };
  if (upstream !== undefined) {
    servers.floor = stack.use(await startPassThrough("node", upstream));
    servers.fetch = stack.use(await startPassThrough("fetch", upstream));
  } else {
    servers.floor = stack.use(
      await startFinished(site, await exampleOf(gateway, work)),
    );
  }
  if (work.hasDistinctClients) {
    servers["memory store"] = stack.use(
      await startGateway(site, ["--kv", ":memory:", ...TRUSTING]),
    );
  }
  await addHttpPeers({ work, site, servers, upstream, stack, context });
  return await measureServers(servers, work, sizes);
}

/** Returns the response that the row is about. */
async function exampleOf(
  { port }: SubjectProcess,
  { path, isOverLimit }: HttpWork,
): Promise<Response> {
  const url = `http://127.0.0.1:${port}${path}`;
  if (isOverLimit) {
    for (let request = 0; request < 20; request++) {
      await (await fetch(url)).body?.cancel();
    }
  }
  return await fetch(url, { headers: { "accept-encoding": "identity" } });
}

/** Measures how many requests the load generator can send: more than this cannot be measured. */
export async function measureCeiling(
  sizes: typeof HTTP_SIZES,
  { nginx }: BenchContext,
): Promise<Row> {
  await using site = await createSite();
  await using stack = new AsyncDisposableStack();
  const { name } = await findLoadGenerator(sizes.wrk === 1);
  const servers: Partial<Record<Subject, SubjectProcess>> = {
    floor: stack.use(await startFinished(site, new Response("ok"))),
  };
  if (nginx !== undefined) {
    const locations = 'location / { return 200 "ok"; }';
    servers.nginx = stack.use(
      await startNginx(nginx, {
        directory: site.root,
        locations,
        readyPath: "/",
      }),
    );
  }
  const work = {
    name: "ceiling",
    work: `the ceiling of the load generator (${name})`,
    path: "/",
  };
  return (await measureServers(servers, work, sizes)).row;
}
