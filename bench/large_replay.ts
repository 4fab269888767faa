/**
 * The row of a replay of large events from the store.
 *
 *     deno task bench large_replay --events 820 --bytes 60000 --rounds 3
 *
 * CPU time, of a process that has just started and of its only client, which are both in this process. The store is a
 * Deno KV file; the floor is `kv.list` of the same entries.
 */
import process from "node:process";
import { createGateway, type Gateway } from "../src/gateway.ts";
import { kvStore } from "../src/store/kv.ts";
import type { Store } from "../src/store/store.ts";
import { createKvFile } from "./_kv_file.ts";
import { alternate, type Row } from "./_row.ts";
import { readBytes } from "./_read_bytes.ts";

/** The sizes of the benchmark. */
export const LARGE_REPLAY_SIZES = { events: 820, bytes: 60_000, rounds: 3 };

/** Runs the benchmark. */
export async function largeReplayRow(
  { events, bytes, rounds }: typeof LARGE_REPLAY_SIZES,
): Promise<Row> {
  await using file = await createKvFile();
  using kv = await file.open();
  const store = kvStore(kv);
  await publishEvents(store, { events, bytes });
  const last = { REP_PUBLIC_A: valueOf(events - 1, bytes) };
  const measures = {
    gateway: async () => {
      await using gateway = await createGateway({
        hotReload: true,
        store,
        variables: last,
      });
      return await measureCpuMs(() => replayAll(gateway, events * bytes));
    },
    floor: () => measureCpuMs(() => listAll(kv)),
  };
  const [count, kb] = [events.toLocaleString("en"), Math.round(bytes / 1_000)];
  const work = `replay of ${count} events of ${kb} KB from the store, CPU`;
  return {
    name: "large_replay",
    work,
    unit: "ms",
    rounds: await alternate(rounds, measures),
  };
}

async function publishEvents(
  store: Store,
  { events, bytes }: { events: number; bytes: number },
): Promise<void> {
  let version = 0;
  const variables = () => ({ REP_PUBLIC_A: valueOf(version, bytes) });
  await using gateway = await createGateway({
    hotReload: true,
    store,
    variables,
  });
  while (++version < events) await gateway.reload();
}

function valueOf(version: number, bytes: number): string {
  return `${version}`.padEnd(bytes, "x");
}

async function replayAll(gateway: Gateway, bytes: number): Promise<void> {
  const request = new Request("http://localhost/rep/changes", {
    headers: { "last-event-id": "0" },
  });
  await readBytes(await gateway.fetch(request), bytes);
}

async function listAll(kv: Deno.Kv): Promise<void> {
  for await (
    const _ of kv.list({ prefix: ["rep", "event"] }, { batchSize: 500 })
  ) { /* read only */ }
}

async function measureCpuMs(run: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}
