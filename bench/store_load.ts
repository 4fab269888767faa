/**
 * The operations on the store: while idle, for a change, for a stream, for a session key. Counted, not timed: the
 * figures are the same on every machine.
 *
 *     deno task bench store_load --variables 50 --bytes 100 --clients 1000
 *
 * Gateways over one store, each counted separately, on a fake clock: an idle one beside eight other members of its
 * rollout, two for a change, one for a variable in the store.
 */
import { writeVariables } from "../src/config/stored_variables.ts";
import { createGateway, type Gateway } from "../src/gateway.ts";
import { RateLimit } from "../src/keys/rate_limit.ts";
import { type Log, silentLog } from "../src/observe/log.ts";
import type { Member } from "../src/rollout/observation.ts";
import { Rollout } from "../src/rollout/rollout.ts";
import { memoryStore } from "../src/store/memory.ts";
import { FakeClock, settle } from "../tools/fake_clock.ts";
import { CountingStore, type StoreLoad } from "./_counting_store.ts";
import { type Figure, figure, type Report } from "./_report.ts";

/** The sizes: PUBLIC variables, bytes of each value, and clients whose windows are swept. */
export const STORE_LOAD_SIZES = { variables: 50, bytes: 100, clients: 1_000 };

/** Runs the count. */
export async function storeLoad(sizes = STORE_LOAD_SIZES): Promise<Report> {
  return {
    title:
      `store load: ${sizes.variables} PUBLIC variables of ${sizes.bytes} bytes`,
    figures: [
      ...await idleLoad(sizes),
      ...await gatewayLoad(sizes),
      ...await storedLoad(sizes),
      ...await sweepLoad(sizes.clients),
    ],
  };
}

/** The number of representatives of a configuration: `src/rollout/election.ts`. */
const MAX_REPRESENTATIVES = 8;

/** One minute, the longest of the periods. The sweep itself is counted separately. */
async function idleLoad(sizes: typeof STORE_LOAD_SIZES): Promise<Figure[]> {
  return [
    ...loadFigures(
      "one idle minute, each process",
      await idle(sizes, MAX_REPRESENTATIVES),
    ),
    ...loadFigures(
      "one idle minute, each of the eight representatives",
      await idle(sizes, MAX_REPRESENTATIVES - 1),
    ),
  ];
}

/** @param others Other representatives of the gateway's configuration, which do nothing but belong to the rollout. */
async function idle(
  sizes: typeof STORE_LOAD_SIZES,
  others: number,
): Promise<StoreLoad> {
  const shared = memoryStore();
  const store = new CountingStore(shared);
  const options = gatewayOptions(sizes, new FakeClock());
  const { clock, random } = options;
  await using _gateway = await createGateway({ ...options, store });
  const [member] = await shared.list<Member>(["member"]);
  if (member === undefined) {
    throw new RangeError(
      "Cannot count an idle minute: expected the gateway to be a member of the rollout",
    );
  }
  for (let i = 0; i < others; i++) {
    const first = `!${i}`.padEnd(36, "0"); // sorts before every UUID, and is as long
    const process = {
      processId: first,
      instanceId: undefined,
      keyFingerprint: () => undefined,
      maxRepresentatives: MAX_REPRESENTATIVES,
    };
    const options = {
      store: shared,
      clock,
      random,
      log: silentLog,
      onChange() {},
    };
    await new Rollout({ ...options, ...process }).join(member.value.hash);
  }
  await clock.tick(5_000);
  await new RateLimit({ store: shared, clock, random, limit: 10 }).sweep(); // so that the gateway does not sweep
  store.takeLoad();
  await clock.tick(60_000);
  return store.takeLoad();
}

/** @param letter Returns the letter that the first variable consists of. */
function gatewayOptions(
  { variables, bytes }: typeof STORE_LOAD_SIZES,
  clock: FakeClock,
  letter = () => "a",
) {
  const environment = () => ({
    ...Object.fromEntries(
      Array.from(
        { length: variables },
        (_, i) => [`REP_PUBLIC_V${i}`, "a".repeat(bytes)],
      ),
    ),
    REP_PUBLIC_V0: letter().repeat(bytes),
    REP_SENSITIVE_SECRET: "value",
  });
  return { hotReload: true, variables: environment, clock, random: () => 0.5 };
}

async function gatewayLoad(sizes: typeof STORE_LOAD_SIZES): Promise<Figure[]> {
  const clock = new FakeClock();
  const shared = memoryStore();
  const [ours, theirs] = [new CountingStore(shared), new CountingStore(shared)];
  let letter = "a";
  const options = gatewayOptions(sizes, clock, () => letter);
  const figures: Figure[] = [];

  async function count(
    name: string,
    store: CountingStore,
    act: () => Promise<unknown>,
  ): Promise<void> {
    store.takeLoad();
    await act();
    await settle();
    figures.push(...loadFigures(name, store.takeLoad()));
  }

  await using gateway = await createGateway({ ...options, store: ours });
  await request(gateway, "/rep/session-key", "10.0.0.1"); // creates the master key
  await using other = await createGateway({ ...options, store: theirs });
  await clock.tick(0);
  theirs.takeLoad();
  letter = "b";
  await count(
    "a change, the process that publishes it",
    ours,
    () => gateway.reload(),
  );
  figures.push(
    ...loadFigures("a change, each other process", theirs.takeLoad()),
  );
  await count(
    "a reload that finds what is published already",
    theirs,
    () => other.reload(),
  );
  await count("a reload that finds nothing new", theirs, () => other.reload());
  await count(
    "a stream that is opened",
    ours,
    () => request(gateway, "/rep/changes", "10.0.0.1"),
  );
  await count(
    "a session key",
    ours,
    () => request(gateway, "/rep/session-key", "10.0.0.2"),
  );
  return figures;
}

/** The process reads the variable on the store's hint, and publishes it. */
async function storedLoad(sizes: typeof STORE_LOAD_SIZES): Promise<Figure[]> {
  const clock = new FakeClock();
  const shared = memoryStore();
  const store = new CountingStore(shared);
  const options = gatewayOptions(sizes, clock);
  const published = new PublishedSignal();
  await using _gateway = await createGateway({
    ...options,
    store,
    log: published.log,
  });
  await clock.tick(0);
  store.takeLoad();
  const next = published.next();
  await writeVariables(shared, new Map([["V0", "b".repeat(sizes.bytes)]]), {
    ...options,
    ifId: undefined,
  });
  await settle();
  await clock.tick(250); // half of the longest delay before such a reload
  await next; // the publisher computes a digest on another thread, for which settle() does not wait
  await settle();
  return loadFigures(
    "a variable written to the store, a process alone",
    store.takeLoad(),
  );
}

/** Reports when a gateway has published a change. */
class PublishedSignal {
  #published = Promise.withResolvers<void>();
  readonly log: Log = {
    ...silentLog,
    info: (event) =>
      void (event === "rep.config.changed" && this.#published.resolve()),
  };

  /** Resolves when the next change is published. */
  next(): Promise<void> {
    this.#published = Promise.withResolvers();
    return this.#published.promise;
  }
}

async function request(
  gateway: Gateway,
  path: string,
  hostname: string,
): Promise<void> {
  const url = `http://localhost${path}`;
  const response = await gateway.fetch(new Request(url), {
    remoteAddr: { transport: "tcp", hostname, port: 1 },
  });
  await response.body?.cancel();
}

/** Once a minute, one process deletes the windows of clients without a request in the last minute. */
async function sweepLoad(clients: number): Promise<Figure[]> {
  return [
    ...loadFigures(
      `a sweep, one process, ${clients} live clients`,
      await sweep(clients, 1, 0),
    ),
    ...loadFigures(
      `a sweep, one process, ${clients} expired clients`,
      await sweep(clients, 1, 60_000),
    ),
    ...loadFigures(
      `a sweep, ten processes at once, ${clients} expired clients`,
      await sweep(clients, 10, 60_000),
    ),
  ];
}

async function sweep(
  clients: number,
  processes: number,
  afterMs: number,
): Promise<StoreLoad> {
  const clock = new FakeClock();
  const store = new CountingStore(memoryStore());
  const options = { store, clock, random: () => 0, limit: 10 };
  const limits = Array.from(
    { length: processes },
    () => new RateLimit(options),
  );
  for (let client = 0; client < clients; client++) {
    await limits[0]?.take(`10.0.${client >> 8}.${client & 255}`);
  }
  store.takeLoad();
  clock.jump(afterMs);
  await Promise.all(limits.map((limit) => limit.sweep()));
  return store.takeLoad();
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
  const some = counts.filter(([, count]) => count > 0).map(([unit, count]) =>
    figure(name, unit, [count])
  );
  return some.length > 0 ? some : [figure(name, "operations", [0])];
}
