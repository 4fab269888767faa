/**
 * How fast clients that reconnect receive the events they missed.
 *
 *     deno task bench replay --events 2000 --clients 20 --rounds 5
 *
 * The same events, once from memory and once from the store, a Deno KV file, by all clients at once; beside the floors:
 * bare streams of the same chunks, and `kv.list` of the same entries.
 */
import { createGateway, type Gateway } from "../src/gateway.ts";
import { kvStore } from "../src/store/kv.ts";
import { createKvFile } from "./_kv_file.ts";
import { readBytes } from "./_read_bytes.ts";
import { figure, type Report } from "./_report.ts";

/** The sizes of the benchmark. */
export const REPLAY_SIZES = { events: 2_000, clients: 20, rounds: 5 };

/** The number of changes that one reload publishes here. */
const VARIABLES = 100;
/** The events that a process keeps in memory after its start; older ones come from the store. */
const IN_MEMORY = 500;
/** Memory needs this many times the clients to take a measurable time. */
const MEMORY_FACTOR = 50;

/** Runs the benchmark. */
export async function replay(
  { events, clients, rounds } = REPLAY_SIZES,
): Promise<Report> {
  await using file = await createKvFile();
  using kv = await file.open();
  const store = kvStore(kv);
  let reload = 0;
  const variables = () =>
    Object.fromEntries(
      Array.from(
        { length: VARIABLES },
        (_, i) => [`REP_PUBLIC_V${i}`, `value ${reload}`],
      ),
    );
  const options = { hotReload: true, variables, store };

  await using full = await createGateway(options);
  const reloads = Math.ceil((events + IN_MEMORY) / VARIABLES);
  for (reload = 1; reload < reloads; reload++) await full.reload();
  reload--;
  await using restarted = await createGateway(options); // has only the newest events in memory
  const ids = await Array.fromAsync(
    kv.list({ prefix: ["rep", "event"] }),
    ({ key }) => Number(key.at(-1)),
  );
  const first = Number(ids[0]) - 1_000; // an id of the same log: its last three digits are the tag
  const chunks = await readChunks(
    await open(full, first),
    `id: ${ids[events - 1]}\n\n`,
  );
  const bytes = chunks.reduce((sum, { length }) => sum + length, 0);

  const many = clients * MEMORY_FACTOR;
  const memory: number[] = [];
  const memoryFloor: number[] = [];
  const fromStore: number[] = [];
  const storeFloor: number[] = [];
  for (let round = 0; round < rounds; round++) {
    memory.push(
      await measureMs(
        many,
        async () => await readBytes(await open(full, first), bytes),
      ),
    );
    memoryFloor.push(
      await measureMs(
        many,
        () => readBytes(new Response(ReadableStream.from(chunks)), bytes),
      ),
    );
    fromStore.push(
      await measureMs(
        clients,
        async () => await readBytes(await open(restarted, first), bytes),
      ),
    );
    storeFloor.push(
      await measureMs(clients, () => listEntries(kv, ids, events)),
    );
  }
  const rate = (ms: number, readers = clients) => events * readers / ms * 1_000;
  return {
    title:
      `replay: ${clients} clients at once, ${events} events each, ${rounds} rounds`,
    figures: [
      figure(
        "events per second from memory",
        "",
        memory.map((ms) => rate(ms, many)),
      ),
      figure(
        "time from memory / floor: a bare stream",
        "",
        memory.map((ms, index) => ms / Number(memoryFloor[index])),
      ),
      figure(
        "events per second from the store",
        "",
        fromStore.map((ms) => rate(ms)),
      ),
      figure(
        "time from the store / floor: kv.list",
        "",
        fromStore.map((ms, index) => ms / Number(storeFloor[index])),
      ),
      figure(
        "entries per second, floor: kv.list",
        "",
        storeFloor.map((ms) => rate(ms)),
      ),
    ],
  };
}

async function measureMs(
  clients: number,
  once: () => Promise<void>,
): Promise<number> {
  const start = performance.now();
  await Promise.all(Array.from({ length: clients }, once));
  return performance.now() - start;
}

/** Opens a stream at a cursor. */
async function open(gateway: Gateway, cursor: number): Promise<Response> {
  const headers = { "last-event-id": String(cursor) };
  return await gateway.fetch(
    new Request("http://localhost/rep/changes", { headers }),
  );
}

/** Reads the chunks of a stream, up to the one that contains this text. */
async function readChunks(
  { body }: Response,
  end: string,
): Promise<Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body ?? []) {
    chunks.push(chunk);
    if (new TextDecoder().decode(chunk).includes(end)) break;
  }
  return chunks;
}

async function listEntries(
  kv: Deno.Kv,
  ids: readonly number[],
  events: number,
): Promise<void> {
  const selector = {
    prefix: ["rep", "event"],
    start: ["rep", "event", Number(ids[0])],
  };
  for await (
    const _ of kv.list(selector, { limit: events, batchSize: 500 })
  ) { /* read only */ }
}
