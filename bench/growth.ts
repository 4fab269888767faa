/**
 * How costs grow with the work: each is measured for four sizes that double, and fitted.
 *
 *     deno task bench growth --streams 5000 --events 8000 --changes 10000 --kilobytes 800 --rounds 3
 *
 * 1. Fan-out with clients: from SIGHUP to the last delivery.
 * 2. Replay with missed events: from the store, to one client.
 * 3. Publish with changes: a reload that changes all variables, on a Deno KV file.
 * 4. Pages with their size: static ones and proxied ones, as time per request at full load.
 *
 * The exponent is that of a power law through the medians: 1 is linear, 2 quadratic.
 */
import { kvStore } from "../src/store/kv.ts";
import { fourSizes, type Growth, measureGrowth } from "./_growth.ts";
import { startGateway, startUpstream } from "./_http_subjects.ts";
import { createKvFile } from "./_kv_file.ts";
import { findLoadGenerator, type LoadGenerator } from "./_load_generator.ts";
import type { BenchContext } from "./_programs.ts";
import { createSite, PAGE_PATH } from "./_site.ts";
import { measureStreams, startWithStreams } from "./streams.ts";
import { ChangingVariables } from "./_variables.ts";

/** The largest sizes. */
export const GROWTH_SIZES = {
  streams: 5_000,
  events: 8_000,
  changes: 10_000,
  kilobytes: 800,
  rounds: 3,
  connections: 50,
  seconds: 1,
  wrk: 1,
};

type Sizes = typeof GROWTH_SIZES;

/** Runs the benchmark. */
export async function growth(
  sizes: Sizes,
  context: BenchContext,
): Promise<Growth[]> {
  return [
    await fanOutGrowth(sizes),
    await replayGrowth(sizes),
    await publishGrowth(sizes),
    await pageGrowth("static", sizes, context),
    await pageGrowth("proxied", sizes, context),
  ];
}

/** The events that each size of the fan-out is measured with. */
const EVENTS = 5;

function fanOutGrowth({ streams, rounds }: Sizes): Promise<Growth> {
  const description = {
    name: "fan_out",
    work: "1 event to all streams, last delivery",
    sizeUnit: "stream",
    unit: "ms",
  };
  return measureGrowth(
    description,
    { sizes: fourSizes(streams), rounds },
    async (streams) => {
      return (await measureStreams(startWithStreams, {
        streams,
        events: EVENTS,
        rounds,
      })).lastMs;
    },
  );
}

/** The number of changes that one reload publishes before a replay. */
const VARIABLES = 100;
/** The events that a process keeps in memory after its start; older ones come from the store. */
const IN_MEMORY = 500;

async function replayGrowth({ events, rounds }: Sizes): Promise<Growth> {
  await using file = await createKvFile();
  using kv = await file.open();
  const store = kvStore(kv);
  const sizes = fourSizes(events);
  const reloads = Math.ceil((events + IN_MEMORY) / VARIABLES);
  {
    await using full = await ChangingVariables.start(store, VARIABLES);
    for (let reload = 0; reload < reloads; reload++) await full.change();
  }
  const ids = await Array.fromAsync(
    kv.list({ prefix: ["rep", "event"] }),
    ({ key }) => Number(key.at(-1)),
  );
  const description = {
    name: "replay",
    work: "replay of missed events",
    sizeUnit: "event",
    unit: "ms",
  };
  return await measureGrowth(description, { sizes, rounds }, async (missed) => {
    // It has only the newest events in memory.
    await using restarted = await ChangingVariables.start(
      store,
      VARIABLES,
      reloads,
    );
    const headers = { "last-event-id": String(Number(ids[0]) - 1_000) };
    const request = new Request("http://localhost/rep/changes", { headers });
    const startedAt = performance.now();
    await readUntil(
      await restarted.gateway.fetch(request),
      `id: ${ids[missed - 1]}\n\n`,
    );
    return performance.now() - startedAt;
  });
}

async function readUntil({ body }: Response, end: string): Promise<void> {
  let tail = "";
  for await (const text of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    tail = (tail + text).slice(-text.length - end.length); // the end may be in two chunks
    if (tail.includes(end)) return;
  }
}

function publishGrowth({ changes, rounds }: Sizes): Promise<Growth> {
  const description = {
    name: "publish",
    work: "publish all changes of a reload",
    sizeUnit: "change",
    unit: "ms",
  };
  return measureGrowth(
    description,
    { sizes: fourSizes(changes), rounds },
    async (changes) => {
      await using file = await createKvFile();
      using kv = await file.open();
      await using changing = await ChangingVariables.start(
        kvStore(kv),
        changes,
      );
      const startedAt = performance.now();
      await changing.change();
      return performance.now() - startedAt;
    },
  );
}

async function pageGrowth(
  kind: "static" | "proxied",
  sizes: Sizes,
  context: BenchContext,
): Promise<Growth> {
  await using stack = new AsyncDisposableStack();
  const { run } = await findLoadGenerator(sizes.wrk === 1);
  const servers = new Map<number, number>();
  for (const kilobytes of fourSizes(sizes.kilobytes, 4)) {
    servers.set(
      kilobytes,
      await startPage(kind, kilobytes, { stack, context }),
    );
  }
  const description = {
    name: `${kind}_pages`,
    work: `${kind} page, at full load`,
    sizeUnit: "KB",
    unit: "µs",
  };
  const perRequest = (kilobytes: number) =>
    measurePage(Number(servers.get(kilobytes)), sizes, run);
  for (const kilobytes of servers.keys()) await perRequest(kilobytes); // the code of the servers is not compiled yet
  return await measureGrowth(description, {
    sizes: [...servers.keys()],
    rounds: sizes.rounds,
  }, perRequest);
}

/** Returns the port of a gateway with a page of this size. */
async function startPage(
  kind: "static" | "proxied",
  kilobytes: number,
  { stack, context }: { stack: AsyncDisposableStack; context: BenchContext },
): Promise<number> {
  const site = stack.use(await createSite(kilobytes * 1_000));
  const upstream = kind === "proxied"
    ? stack.use(await startUpstream(site, PAGE_PATH, context.nginx))
    : undefined;
  const content = upstream === undefined
    ? ["--static-dir", site.directory]
    : ["--upstream", `http://127.0.0.1:${upstream.port}`];
  return stack.use(await startGateway(site, [...content, "--kv", ":memory:"]))
    .port;
}

async function measurePage(
  port: number,
  { connections, seconds }: Sizes,
  run: LoadGenerator,
): Promise<number> {
  const { perSecond, failed } = await run({
    port,
    path: PAGE_PATH,
    connections,
    seconds,
  });
  if (failed > 0) {
    throw new Error(
      `Cannot measure a page: expected no request to fail, got ${failed}`,
    );
  }
  return 1e6 / perSecond;
}
