import { assert, assertEquals, assertRejects } from "@std/assert";
import { RateLimit } from "../../../src/core/keys/rate_limit.ts";
import { kvStore } from "../../../src/engines/kv.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import {
  type Store,
  StoreUnavailableError,
} from "../../../src/core/store/store.ts";
import { FakeClock, settle } from "../../../tools/fake_clock.ts";
import { seededRandom } from "../../../tools/seeded_random.ts";
import { countedStore, interceptedStore } from "../../_store.ts";

const START = 1_700_000_000_000;

type Operation = "getMany" | "commit";

/** A process. Each has a rate limit of its own, and a connection to the store that a test can disturb. */
interface Process {
  readonly limit: RateLimit;
  /** The operations that fail. */
  readonly fails: Set<Operation>;
  /** What the process has asked the store for. */
  readonly counts: { getMany: number; commit: number; list: number };
  /** The store answers when this is resolved. */
  delay: Promise<unknown>;
  /** Called before each commit, which other processes may precede. */
  beforeCommit: () => unknown;
  /** Sends requests one after the other, and returns how many are allowed. */
  take(client: string, count: number): Promise<number>;
}

/** Returns a function that starts processes on one store, all with the same clock. */
function setUp(
  { max = 10, store = memoryStore(), clock = new FakeClock(START) } = {},
) {
  const start = (): Process => {
    const counted = countedStore(store);
    const connection = interceptedStore(counted, async (operation) => {
      await process.delay;
      if (process.fails.has(operation as Operation)) {
        throw new StoreUnavailableError("Cannot use the store: a test");
      }
      if (operation === "commit") await process.beforeCommit();
    });
    const limit = new RateLimit({
      store: connection,
      clock,
      random: seededRandom(1),
      limit: max,
    });
    const process: Process = {
      limit,
      fails: new Set(),
      counts: counted.counts,
      delay: Promise.resolve(),
      beforeCommit: () => {},
      async take(client, count) {
        let allowed = 0;
        for (let index = 0; index < count; index++) {
          const { isAllowed } = await limit.take(client);
          if (isAllowed) allowed++;
        }
        return allowed;
      },
    };
    return process;
  };
  const storedClients = async () => {
    const entries = await store.list(["rate"]);
    return entries.map(({ key }) => key.at(-1));
  };
  return { clock, store, start, storedClients };
}

/** Names of clients. */
function clientNames(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `client ${index}`);
}

for (const seed of [1, 2, 3]) {
  Deno.test(`RateLimit.take() agrees with a model that compares each request with all before, in two processes, seed ${seed}`, async () => {
    const random = seededRandom(seed);
    const { clock, store, start } = setUp();
    const processes = [start(), start()];
    const allowed: Record<string, number[]> = { a: [], b: [] };
    const tally = { allowed: 0, rejected: 0 };
    for (let step = 0; step < 3_000; step++) {
      const pauses = [0, 1, random() * 500, random() * 15_000];
      clock.pass(Math.floor(pauses[step % 7 % 4] ?? 0));
      const client = random() < 0.8 ? "a" : "b";
      const times = allowed[client] ?? [];
      const used = times.filter((at) => at > clock.now() - 60_000).length;
      const { limit } = processes[Math.floor(random() * 2)]!;
      const { isAllowed, retryAfterMs } = await limit.take(client);
      assertEquals([step, isAllowed], [step, used < 10]);
      tally[isAllowed ? "allowed" : "rejected"]++;
      if (isAllowed) times.push(clock.now());
      else await checkRetryAfter(store, client, clock.now() + retryAfterMs);
    }
    assert(tally.allowed > 500, `Expected more of both: ${tally.allowed}`);
    assert(tally.rejected > 500, `Expected more of both: ${tally.rejected}`);
  });
}

/** Checks with new processes on copies of the store that a time is the first at which a request is allowed. */
async function checkRetryAfter(store: Store, client: string, at: number) {
  const entries = await store.list(["rate"]);
  const allowed: number[] = [];
  for (const time of [at - 1, at]) {
    const { store, start } = setUp({ clock: new FakeClock(time) });
    await store.commit([], entries);
    allowed.push(await start().take(client, 1));
  }
  assertEquals(allowed, [0, 1]);
}

// ---- concurrent requests, and several processes

for (const count of [1, 2]) {
  Deno.test(`RateLimit.take() allows exactly 10 of 200 concurrent requests to ${count} processes`, async () => {
    const { clock, start } = setUp();
    const processes = Array.from({ length: count }, start);
    const requests = Array.from(
      { length: 200 },
      (_, index) => processes[index % count]!.limit.take("a"),
    );
    const decisions = await clock.tickUntil(Promise.all(requests), 1);
    const allowed = decisions.filter(({ isAllowed }) => isAllowed);
    assertEquals(
      allowed.map(({ used }) => used).sort((a, b) => a - b),
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    );
  });
}

Deno.test("RateLimit.take() counts exactly if another process is the first to count a client of the same commit", async () => {
  const { clock, start } = setUp({ max: 3 });
  const [here, other] = [start(), start()];
  let times = 2;
  here.beforeCommit = async () => {
    if (times-- > 0) await other.take("b", 1);
  };
  const requests = ["a", "b", "c", "b"].map((name) => here.limit.take(name));
  const decisions = await clock.tickUntil(Promise.all(requests), 1);
  assertEquals(decisions.map(({ isAllowed }) => isAllowed), [
    true,
    true,
    true,
    false,
  ]);
  assertEquals(await other.take("a", 5), 2);
  assertEquals(await other.take("b", 5), 0);
  assertEquals(await other.take("c", 5), 2);
});

Deno.test("RateLimit.take() counts requests recorded by a process whose clock is ahead", async () => {
  const { store, start } = setUp();
  const ahead = setUp({ store, clock: new FakeClock(START + 5_000) });
  assertEquals(await ahead.start().take("a", 4), 4);
  const { limit, take } = start();
  assertEquals(await take("a", 20), 6);
  assertEquals((await limit.take("a")).retryAfterMs, 60_000);
  assertEquals(await ahead.start().take("a", 20), 0);
});

Deno.test("RateLimit.take() ignores requests recorded before the clock was set back", async () => {
  const { clock, start } = setUp();
  const { take } = start();
  await take("a", 10);
  clock.jump(-3_600_000);
  assertEquals(await take("a", 1), 1);
  assertEquals(await start().take("a", 20), 9);
});

Deno.test("RateLimit.take() counts as many requests as the highest limit in one commit of Deno KV", async () => {
  const max = 5_000;
  using kv = await Deno.openKv(":memory:");
  const store = kvStore(kv, { maxChecks: 100 });
  const { limit } = setUp({ max, store }).start();
  const clients = clientNames(40);
  const value = Array.from({ length: max - 1 }, (_, index) => START + index);
  for (const client of clients) {
    await store.commit([], [{ key: ["rate", client], value }]);
  }
  const requests = clients.map((client) => limit.take(client));
  const decisions = await Promise.all(requests);
  assertEquals(decisions.every(({ used }) => used === max), true);
  assertEquals((await limit.take("client 0")).isAllowed, false);
});

// ---- memory

Deno.test("RateLimit.take() rejects a client known to be over the limit without the store", async () => {
  const { start } = setUp();
  const [counting, other] = [start(), start()];
  await counting.take("a", 10);
  assertEquals(await other.take("a", 1), 0); // it learns so from the store
  for (const process of [counting, other]) {
    const { getMany, commit } = process.counts;
    assertEquals(await process.take("a", 50), 0);
    assertEquals(process.counts.getMany, getMany);
    assertEquals(process.counts.commit, commit);
  }
});

Deno.test("RateLimit.take() keeps at most 10,000 clients in memory", async () => {
  const { limit, take, counts } = setUp({ max: 1 }).start();
  await take("first", 1);
  await Promise.all(clientNames(9_999).map((client) => limit.take(client)));
  const before = counts.getMany;
  assertEquals(await take("first", 1), 0);
  assertEquals(counts.getMany, before);
  await take("one more", 1);
  assertEquals(await take("first", 1), 0);
  assertEquals(counts.getMany, before + 2); // it had to be read
});

// ---- a store that fails

for (const fails of [["getMany"], ["commit"], ["getMany", "commit"]] as const) {
  Deno.test(`RateLimit.take() continues the count when the store fails to ${fails}, and when it returns`, async () => {
    const { clock, start } = setUp();
    const process = start();
    assertEquals(await process.take("a", 2), 2);
    for (const operation of fails) process.fails.add(operation);
    clock.pass(1_000);
    assertEquals(await process.take("a", 5), 5);
    process.fails.clear();
    clock.pass(1_000);
    assertEquals(await process.take("a", 20), 3);
    assertEquals(await start().take("a", 20), 0); // other processes count all of them
  });
}

Deno.test("RateLimit.take() counts the requests of other processes when only commits fail", async () => {
  const { clock, start } = setUp();
  await start().take("a", 8);
  clock.pass(1);
  const process = start();
  process.fails.add("commit");
  assertEquals(await process.take("a", 20), 2);
});

Deno.test("RateLimit.take() stores no more requests of a client than the limit, so that they fit into a value", async () => {
  const { clock, store, start } = setUp({ max: 3 });
  const processes = [start(), start()];
  for (const process of processes) {
    process.fails.add("getMany");
    clock.pass(1);
    assertEquals(await process.take("a", 2), 2);
    process.fails.clear();
  }
  clock.pass(1);
  for (const process of processes) await process.take("a", 1);
  const [window] = await store.list(["rate"]);
  assertEquals(window?.value, [START + 2, START + 2, START + 3]);
});

Deno.test("RateLimit.take() rejects with an unexpected error, and goes on with the next request", async () => {
  const broken = setUp().start();
  broken.beforeCommit = () => Promise.reject(new TypeError("a bug"));
  await assertRejects(() => broken.limit.take("a"), TypeError, "a bug");
  broken.beforeCommit = () => {};
  assertEquals(await broken.take("a", 1), 1);
});

// ---- a store that is slow

Deno.test("RateLimit.take() waits for the store for a second, then counts in memory; after half of it, further requests at once", async () => {
  const { clock, start } = setUp({ max: 3 });
  const process = start();
  const slow = Promise.withResolvers<void>();
  process.delay = slow.promise;
  let isDecided = false;
  const first = process.limit.take("a").finally(() => isDecided = true);
  await clock.tick(500);
  assertEquals(await process.take("b", 5), 3);
  await clock.tick(499);
  assertEquals([await process.take("a", 1), isDecided], [1, false]);
  await clock.tick(1);
  assertEquals((await first).used, 2);
  slow.resolve();
  await settle();
  assertEquals(await process.take("a", 5), 0); // the slow commit has counted the first one again
  assertEquals(await start().take("b", 1), 1); // only this process knows of the others
  assertEquals(await process.take("c", 1), 1);
});

Deno.test("RateLimit.take() counts a request when it is decided, not when it arrived", async () => {
  const { clock, start } = setUp({ max: 1 });
  await start().take("a", 1);
  const process = start();
  const slow = Promise.withResolvers<void>();
  process.delay = slow.promise;
  clock.pass(59_950);
  const request = process.limit.take("a");
  clock.pass(50);
  slow.resolve();
  assertEquals((await request).isAllowed, true);
  assertEquals((await process.limit.take("a")).retryAfterMs, 60_000);
});

Deno.test("RateLimit.take() rejects from memory after a second whose requests waited for a slow store", async () => {
  const { clock, start } = setUp();
  const process = start();
  process.delay = new Promise(() => {});
  const requests = Array.from({ length: 20 }, () => process.limit.take("a"));
  await clock.tick(1_000);
  const decisions = await Promise.all(requests);
  assertEquals(decisions.filter(({ isAllowed }) => isAllowed).length, 10);
});

// ---- the sweep

Deno.test("RateLimit.sweep() removes exactly the clients without requests for 60 s, across pages", async () => {
  const { clock, start, storedClients } = setUp();
  const { limit } = start();
  const clients = clientNames(1_200);
  const staying = clients.filter((_, index) => index % 100 === 7);
  await Promise.all(clients.map((client) => limit.take(client)));
  await limit.sweep();
  assertEquals((await storedClients()).length, 1_200);
  clock.pass(30_000);
  await Promise.all(staying.map((client) => limit.take(client)));
  clock.pass(30_000);
  await limit.sweep();
  assertEquals(await storedClients(), staying.sort());
  clock.pass(60_000);
  await limit.sweep();
  assertEquals(await storedClients(), []);
});

Deno.test("RateLimit.sweep() keeps a client that sends a request meanwhile", async () => {
  const { clock, start } = setUp();
  const [process, sweeping] = [start(), start()];
  await process.take("a", 1);
  clock.pass(60_000);
  sweeping.beforeCommit = async () => {
    if (sweeping.counts.list === 1) await process.take("a", 1); // between listing and removing
  };
  await sweeping.limit.sweep();
  assertEquals(await start().take("a", 20), 9);
});

Deno.test("RateLimit.sweep() is done by one process, once a minute", async () => {
  const { clock, start } = setUp();
  const processes = Array.from({ length: 10 }, start);
  const sweeps = async () => {
    await Promise.all(processes.map(({ limit }) => limit.sweep()));
    return processes.reduce((sum, { counts }) => sum + counts.list, 0);
  };
  assertEquals(await sweeps(), 1);
  clock.pass(59_999);
  assertEquals(await sweeps(), 1);
  clock.pass(1);
  assertEquals(await sweeps(), 2);
  clock.jump(-3_600_000); // a clock that was an hour ahead does not stop it
  assertEquals(await sweeps(), 3);
});

Deno.test("RateLimit.sweep() removes no other entries", async () => {
  const { store, start } = setUp();
  const others = [{ key: ["master-key"], value: 1 }, {
    key: ["rates", "a"],
    value: [],
  }];
  await store.commit([], others);
  await start().limit.sweep();
  assertEquals((await store.get(["master-key"]))?.value, 1);
  assertEquals((await store.get(["rates", "a"]))?.value, []);
});
