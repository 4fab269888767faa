/**
 * Compares the engines of the store: session keys and published changes per second of one process, and how soon a
 * change reaches a stream of another process.
 *
 *     deno task bench engines --keys 3000 --concurrent 128 --changes 200 --propagations 20
 *
 * Memory and SQLite are always measured, `denokv` and PostgreSQL if their programs are found (`deno run -A
 * tools/denokv.ts`, `deno run -A tools/postgres.ts`), with their own defaults: every commit waits for the disk.
 */
import { join } from "@std/path";
import { createGateway, type Gateway } from "../src/gateway.ts";
import { silentLog } from "../src/observe/log.ts";
import { openStore } from "../src/store/open.ts";
import { ChangeStream } from "./_change_stream.ts";
import { type Engine, startEngines } from "./_engines.ts";
import { startCommand } from "./_http_subjects.ts";
import { type Figure, figure, type Report } from "./_report.ts";

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
export async function engines(sizes: Sizes = ENGINE_SIZES): Promise<Report> {
  await using stack = new AsyncDisposableStack();
  const directory = await Deno.makeTempDir();
  stack.defer(() => Deno.remove(directory, { recursive: true }));
  const all = await startEngines(directory, stack);
  const figures: Figure[] = [];
  for (const engine of all) {
    figures.push(...await measure(engine, directory, sizes));
  }
  const { keys, concurrent, changes, propagations } = sizes;
  return {
    title:
      `engines: ${keys} keys, ${concurrent} at once, ${changes} changes, ${propagations} propagations`,
    figures,
  };
}

async function measure(
  engine: Engine,
  directory: string,
  sizes: Sizes,
): Promise<Figure[]> {
  const { keys, concurrent, changes, rounds } = sizes;
  const keyRates: number[] = [];
  const changeRates: number[] = [];
  const store = await openStore(engine.kv, silentLog);
  let value = 0;
  const variables = () => ({
    REP_PUBLIC_A: String(value),
    REP_SENSITIVE_S: "value",
  });
  {
    await using gateway = await createGateway({
      variables,
      store,
      hotReload: true,
    });
    await requestKey(gateway);
    for (let round = 0; round < rounds; round++) {
      keyRates.push(await rate(keys, concurrent, () => requestKey(gateway)));
      changeRates.push(
        await rate(changes, 1, () => (value++, gateway.reload())),
      );
    }
  }
  store.close();
  return [
    figure(`${engine.name}: session keys`, "a second", keyRates),
    figure(`${engine.name}: published changes`, "a second", changeRates),
    ...(engine.isShared
      ? [await measurePropagation(engine, directory, sizes)]
      : []),
  ];
}

/** From the signal to one process to the delivery by another. */
async function measurePropagation(
  { name, kv }: Engine,
  directory: string,
  { propagations }: Sizes,
): Promise<Figure> {
  const path = join(directory, "app.env");
  const write = (value: string) =>
    Deno.writeTextFile(path, `REP_PUBLIC_A=${value}\n`);
  await write("first");
  const args = ["--hot-reload", "--env-file", path, "--kv", kv];
  await using publisher = await startCommand(args);
  await using other = await startCommand(args);
  await using stream = await ChangeStream.open(other.port);
  const times: number[] = [];
  for (let index = 0; index < propagations; index++) {
    await write(`value ${name} ${index}`);
    const startedAt = performance.now();
    publisher.reload();
    await stream.until(`value ${name} ${index}"`);
    times.push(performance.now() - startedAt);
  }
  return figure(
    `${name}: from SIGHUP to a stream of another process`,
    "ms",
    times,
  );
}

async function rate(
  count: number,
  concurrent: number,
  once: () => Promise<unknown>,
): Promise<number> {
  let left = count;
  const worker = async () => {
    while (left-- > 0) await once();
  };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: concurrent }, worker));
  return count / (performance.now() - startedAt) * 1_000;
}

let clients = 0;

/** Each client has an address of its own (RFC 6890: 10.0.0.0/8 is private). */
async function requestKey(gateway: Gateway): Promise<void> {
  const client = clients++;
  const hostname = `10.${client >> 16 & 255}.${client >> 8 & 255}.${
    client & 255
  }`;
  const request = new Request("http://localhost/rep/session-key");
  const response = await gateway.fetch(request, {
    remoteAddr: { transport: "tcp", hostname, port: 1 },
  });
  await response.body?.cancel();
  if (response.status !== 200) {
    throw new Error(
      `Cannot measure session keys: expected status 200, got ${response.status}`,
    );
  }
}
