/**
 * What the store has to do: at rest, for a change, for a stream, for a session key. Counted, not timed: the figures are the
 * same on every machine.
 *
 *     deno task bench store_load --variables 50 --bytes 100 --clients 1000
 *
 * Gateways over one store, each counted by itself, on a clock that stands still until it is told to go on: one beside eight
 * other members of its rollout at rest, two for a change, one for a variable in the store.
 */
import { createGateway, type Gateway } from "../src/gateway.ts";
import { RateLimit } from "../src/http/rate_limit.ts";
import { Rollout } from "../src/rollout/rollout.ts";
import type { Member } from "../src/rollout/observation.ts";
import { memoryStore } from "../src/store/memory.ts";
import { setVariables } from "../src/variables/stored.ts";
import { FakeClock, settle } from "../tools/fake_clock.ts";
import { type CountedStore, countedStore, type StoreLoad } from "./_counted_store.ts";
import { type Figure, figure, type Report } from "./_report.ts";

/** How much there is: PUBLIC variables, bytes of each value, and clients whose windows are swept. */
export const STORE_LOAD_SIZES = { variables: 50, bytes: 100, clients: 1_000 };

/** Runs the count. */
export async function storeLoad(sizes = STORE_LOAD_SIZES): Promise<Report> {
  return {
    title: `store load: ${sizes.variables} PUBLIC variables of ${sizes.bytes} bytes`,
    figures: [
      ...await restLoad(sizes),
      ...await gatewayLoad(sizes),
      ...await storedLoad(sizes),
      ...await sweepLoad(sizes.clients),
    ],
  };
}

/** How many processes speak for a configuration, as in `src/rollout/rule.ts`. */
const SPEAKERS = 8;

/** A minute, since that is the longest of the periods. The sweep itself is counted further down. */
async function restLoad(sizes: typeof STORE_LOAD_SIZES): Promise<Figure[]> {
  return [
    ...loadFigures("a minute of rest, each process", await rest(sizes, SPEAKERS)),
    ...loadFigures("a minute of rest, each of the eight that speak", await rest(sizes, SPEAKERS - 1)),
  ];
}

/** @param others How many others speak for the gateway's configuration; they are members of the rollout and nothing else. */
async function rest(sizes: typeof STORE_LOAD_SIZES, others: number): Promise<StoreLoad> {
  const shared = memoryStore();
  const store = countedStore(shared);
  const options = gatewayOptions(sizes, new FakeClock());
  const { clock, random } = options;
  await using _gateway = await createGateway({ ...options, store });
  const [member] = await shared.list<Member>(["member"]);
  if (member === undefined) {
    throw new RangeError("Cannot count a minute of rest: the gateway is no member of the rollout");
  }
  for (let i = 0; i < others; i++) {
    const first = `!${i}`.padEnd(36, "0"); // before every UUID, and as long
    await new Rollout({ store: shared, clock, random, processId: first }).join(member.value.hash);
  }
  await clock.tick(5_000);
  await new RateLimit({ store: shared, clock, random, limit: 10 }).sweep(); // so that it is not the gateway's turn
  store.take();
  await clock.tick(60_000);
  return store.take();
}

/** @param letter What the first variable consists of. */
function gatewayOptions({ variables, bytes }: typeof STORE_LOAD_SIZES, clock: FakeClock, letter = () => "a") {
  const environment = () => ({
    ...Object.fromEntries(Array.from({ length: variables }, (_, i) => [`REP_PUBLIC_V${i}`, "a".repeat(bytes)])),
    REP_PUBLIC_V0: letter().repeat(bytes),
    REP_SENSITIVE_SECRET: "value",
  });
  return { hotReload: true, variables: environment, clock, random: () => 0.5 };
}

async function gatewayLoad(sizes: typeof STORE_LOAD_SIZES): Promise<Figure[]> {
  const clock = new FakeClock();
  const shared = memoryStore();
  const [ours, theirs] = [countedStore(shared), countedStore(shared)];
  let letter = "a";
  const options = gatewayOptions(sizes, clock, () => letter);
  const figures: Figure[] = [];

  async function count(name: string, store: CountedStore, act: () => Promise<unknown>): Promise<void> {
    store.take();
    await act();
    await settle();
    figures.push(...loadFigures(name, store.take()));
  }

  await using gateway = await createGateway({ ...options, store: ours });
  await ask(gateway, "/rep/session-key", "10.0.0.1"); // makes the master secret
  await using other = await createGateway({ ...options, store: theirs });
  await clock.tick(0);
  theirs.take();
  letter = "b";
  await count("a change, the process that publishes it", ours, () => gateway.reload());
  figures.push(...loadFigures("a change, each other process", theirs.take()));
  await count("a reload that finds what is published already", theirs, () => other.reload());
  await count("a reload that finds nothing new", theirs, () => other.reload());
  await count("a stream that is opened", ours, () => ask(gateway, "/rep/changes", "10.0.0.1"));
  await count("a session key", ours, () => ask(gateway, "/rep/session-key", "10.0.0.2"));
  return figures;
}

/** The process reads it at the store's hint, and publishes it. */
async function storedLoad(sizes: typeof STORE_LOAD_SIZES): Promise<Figure[]> {
  const clock = new FakeClock();
  const shared = memoryStore();
  const store = countedStore(shared);
  const options = gatewayOptions(sizes, clock);
  await using _gateway = await createGateway({ ...options, store });
  await clock.tick(0);
  store.take();
  await setVariables(shared, new Map([["V0", "b".repeat(sizes.bytes)]]), options);
  await settle();
  await clock.tick(250); // half of the longest delay before such a reload
  return loadFigures("a variable written to the store, a process alone", store.take());
}

async function ask(gateway: Gateway, path: string, hostname: string): Promise<void> {
  const request = new Request(`http://localhost${path}`);
  const response = await gateway.fetch(request, { remoteAddr: { transport: "tcp", hostname, port: 1 } });
  await response.body?.cancel();
}

/** Once a minute, one process takes windows of clients out of the store that have not come for a minute. */
async function sweepLoad(clients: number): Promise<Figure[]> {
  return [
    ...loadFigures(`a sweep, one process, ${clients} live clients`, await sweep(clients, 1, 0)),
    ...loadFigures(`a sweep, one process, ${clients} dead clients`, await sweep(clients, 1, 60_000)),
    ...loadFigures(`a sweep, ten processes at once, ${clients} dead clients`, await sweep(clients, 10, 60_000)),
  ];
}

async function sweep(clients: number, processes: number, afterMs: number): Promise<StoreLoad> {
  const clock = new FakeClock();
  const store = countedStore(memoryStore());
  const options = { store, clock, random: () => 0, limit: 10 };
  const limits = Array.from({ length: processes }, () => new RateLimit(options));
  for (let client = 0; client < clients; client++) await limits[0]?.take(`10.0.${client >> 8}.${client & 255}`);
  store.take();
  clock.jump(afterMs);
  await Promise.all(limits.map((limit) => limit.sweep()));
  return store.take();
}

function loadFigures(name: string, load: StoreLoad): Figure[] {
  const counts = [
    ["gets", load.gets],
    ["lists", load.lists],
    ["entries listed", load.listed],
    ["bytes read", load.bytesRead],
    ["commits", load.commits],
    ["entries written", load.writes],
    ["bytes written", load.bytesWritten],
  ] as const;
  const some = counts.filter(([, count]) => count > 0).map(([unit, count]) => figure(name, unit, [count]));
  return some.length > 0 ? some : [figure(name, "operations", [0])];
}
