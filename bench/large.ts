/**
 * What many variables and large values cost: that both grow in proportion can be seen by running it with other sizes.
 *
 *     deno task bench large --variables 10000 --events 820 --bytes 60000
 *
 * The store is a Deno KV file. The gateway and its only client are in this process, so CPU time includes both.
 */
import process from "node:process";
import { createGateway, type Gateway } from "../src/gateway.ts";
import { kvStore } from "../src/store/kv.ts";
import { createKvFile } from "./_kv_file.ts";
import { readBytes } from "./_read_bytes.ts";
import { figure, type Report } from "./_report.ts";

/** How much there is to do. */
export const LARGE_SIZES = { variables: 10_000, events: 820, bytes: 60_000 };

/** The cost of one operation. */
interface Cost {
  readonly ms: number;
  readonly cpuMs: number;
}

/** Runs the benchmark. */
export async function large(
  { variables, events, bytes } = LARGE_SIZES,
): Promise<Report> {
  const many = await measureVariables(variables);
  const replay = await measureReplay(events, bytes);
  const figures = Object.entries({ ...many, ...replay }).flatMap((
    [name, { ms, cpuMs }],
  ) => [
    figure(name, "ms", [ms]),
    figure(`${name}, CPU`, "ms", [cpuMs]),
  ]);
  return {
    title: `large: ${variables} variables; ${events} events of ${bytes} bytes`,
    figures,
  };
}

async function measureVariables(count: number): Promise<Record<string, Cost>> {
  await using file = await createKvFile();
  using kv = await file.open();
  let version = 0;
  const variables = () =>
    Object.fromEntries(
      Array.from(
        { length: count },
        (_, i) => [`REP_PUBLIC_VARIABLE_${i}`, `value ${i} ${version}`],
      ),
    );
  const options = { hotReload: true, store: kvStore(kv), variables };
  let gateway: Gateway | undefined;
  const first = await measure(async () =>
    void (gateway = await createGateway(options))
  );
  version++;
  const reload = await measure(() => gateway?.reload());
  await gateway?.close();
  const second = await measure(async () =>
    void (gateway = await createGateway(options))
  );
  await gateway?.close();
  return {
    "first start": first,
    "reload that changes all": reload,
    "second start": second,
  };
}

async function measureReplay(
  events: number,
  bytes: number,
): Promise<Record<string, Cost>> {
  await using file = await createKvFile();
  using kv = await file.open();
  let version = 0;
  const variables = () => ({ REP_PUBLIC_A: `${version}`.padEnd(bytes, "x") });
  const options = { hotReload: true, store: kvStore(kv), variables };
  {
    await using gateway = await createGateway(options);
    while (++version < events) await gateway.reload();
  }
  version = events - 1;
  await using restarted = await createGateway(options);
  return {
    "replay of all events": await measure(() =>
      replayAll(restarted, events * bytes)
    ),
  };
}

async function replayAll(gateway: Gateway, bytes: number): Promise<void> {
  const request = new Request("http://localhost/rep/changes", {
    headers: { "last-event-id": "0" },
  });
  await readBytes(await gateway.fetch(request), bytes);
}

async function measure(run: () => Promise<void> | undefined): Promise<Cost> {
  const [start, cpu] = [performance.now(), process.cpuUsage()];
  await run();
  const { user, system } = process.cpuUsage(cpu);
  return { ms: performance.now() - start, cpuMs: (user + system) / 1_000 };
}
