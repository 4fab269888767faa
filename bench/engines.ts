/**
 * Compares the engines of the store: session keys and published changes per second of one process, and how soon a
 * change reaches a stream of another process.
 *
 *     deno task bench engines --keys 3000 --concurrent 128 --changes 200 --propagations 20
 *
 * Memory and SQLite are always measured, `denokv` and PostgreSQL if their programs are found (`deno run -A
 * tools/denokv.ts`, `deno run -A tools/postgres.ts`), with their own defaults: every commit waits for the disk.
 */
import { createGateway } from "../src/gateway.ts";
import type { Gateway } from "../src/gateway_interface.ts";
import { silentLog } from "../src/core/observe/log.ts";
import { openStore } from "../src/engines/open.ts";
import { clientAddress } from "./_load.ts";
import { type Engine, withEngines } from "./_engines.ts";
import { EventReader } from "./_event_reader.ts";
import { type Figure, figure, type Report } from "./_report.ts";
import { startGateway } from "./_servers.ts";
import { changeVariable, createSite } from "./_site.ts";

/** The sizes of a run. */
export const ENGINE_SIZES = {
  keys: 3_000,
  concurrent: 128,
  changes: 200,
  propagations: 20,
  rounds: 3,
};

type Sizes = typeof ENGINE_SIZES;

/** Runs the benchmark. */
export async function engines(sizes: Sizes): Promise<Report> {
  const figures = await withEngines(async (engine) => [
    ...await measureRates(engine, sizes),
    ...await measurePropagation(engine, sizes),
  ]);
  const { keys, concurrent, changes, propagations } = sizes;
  return {
    title:
      `engines: ${keys} keys, ${concurrent} at once, ${changes} changes, ${propagations} propagations`,
    figures,
  };
}

async function measureRates(
  { name, kv }: Engine,
  { keys, concurrent, changes, rounds }: Sizes,
): Promise<Figure[]> {
  const keyRates: number[] = [];
  const changeRates: number[] = [];
  const store = await openStore(kv, silentLog);
  let value = 0;
  const gateway = await createGateway({
    variables: () => ({
      REP_PUBLIC_A: String(value),
      REP_SENSITIVE_S: "value",
    }),
    store,
    hotReload: true,
  });
  async function change(): Promise<void> {
    value++;
    await gateway.reload();
  }
  await requestKey(gateway);
  for (let round = 0; round < rounds; round++) {
    keyRates.push(await rate(keys, concurrent, () => requestKey(gateway)));
    changeRates.push(await rate(changes, 1, change));
  }
  await gateway.close();
  store.close();
  return [
    figure(`${name}: session keys`, "a second", keyRates),
    figure(`${name}: published changes`, "a second", changeRates),
  ];
}

/** From the signal to one process to the delivery by another. */
async function measurePropagation(
  { name, kv, isShared }: Engine,
  { propagations }: Sizes,
): Promise<Figure[]> {
  if (!isShared) return [];
  await using site = await createSite();
  const args = ["--hot-reload", "--kv", kv];
  await using publisher = await startGateway(site, args);
  await using other = await startGateway(site, args);
  const stream = await EventReader.open(other.port);
  const times: number[] = [];
  for (let index = 0; index < propagations; index++) {
    await changeVariable(site);
    const startedAt = performance.now();
    publisher.reload();
    await stream.readEvents(1);
    times.push(performance.now() - startedAt);
  }
  stream.close();
  const what = "from SIGHUP to a stream of another process";
  return [figure(`${name}: ${what}`, "ms", times)];
}

async function rate(
  count: number,
  concurrent: number,
  once: () => Promise<void>,
): Promise<number> {
  let left = count;
  async function work(): Promise<void> {
    while (left-- > 0) await once();
  }
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: concurrent }, work));
  return count / (performance.now() - startedAt) * 1_000;
}

let clients = 0;

async function requestKey(gateway: Gateway): Promise<void> {
  const hostname = clientAddress(clients++);
  const response = await gateway.fetch(
    new Request("http://localhost/rep/session-key"),
    { remoteAddr: { transport: "tcp", hostname, port: 1 } },
  );
  await response.body?.cancel();
  if (response.status !== 200) {
    throw new Error(
      `Cannot measure session keys: expected status 200, got ${response.status}`,
    );
  }
}
