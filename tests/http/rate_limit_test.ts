import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Clock } from "../../src/clock.ts";
import { RateLimit } from "../../src/http/rate_limit.ts";
import { kvStore } from "../../src/store/kv.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { type Store, StoreUnavailableError } from "../../src/store/store.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { seededRandom } from "../../tools/seeded_random.ts";
import { type CountedStore, countedStore } from "../_store.ts";

const START = 1_700_000_000_000;

/** A clock that is set by hand: where nobody waits, there is nobody to call back. */
class HandClock implements Clock {
  constructor(public time = START) {}
  now = () => this.time;
  after = (): never => {
    throw new Error("Nobody should have to wait here");
  };
}

function limitOn(store: Store, clock: Clock, limit = 10): RateLimit {
  return new RateLimit({ store, clock, random: () => 0.5, limit });
}

/** How many of so many requests, one after the other, are allowed. */
async function takeMany(limit: RateLimit, client: string, count: number): Promise<number> {
  let allowed = 0;
  for (let index = 0; index < count; index++) allowed += Number((await limit.take(client)).isAllowed);
  return allowed;
}

/** Lets the clock go on until something has ended. */
async function outlast<T>(clock: FakeClock, work: Promise<T>): Promise<T> {
  let isDone = false;
  const end = () => void (isDone = true);
  work.then(end, end);
  while (!isDone) await clock.tick(1);
  return await work;
}

Deno.test("take() counts up to the limit and then refuses", async () => {
  const clock = new HandClock();
  const limit = limitOn(memoryStore(), clock, 2);
  const first = await limit.take("a");
  clock.time += 20_000;
  const second = await limit.take("a");
  clock.time += 1;
  assertEquals([first, second, await limit.take("a")], [
    { isAllowed: true, used: 1, retryAfterMs: 0 },
    { isAllowed: true, used: 2, retryAfterMs: 0 },
    { isAllowed: false, used: 2, retryAfterMs: 39_999 },
  ]);
});

Deno.test("take() allows the next request 60 s after the first one, and not a millisecond before", async () => {
  const clock = new HandClock();
  const limit = limitOn(memoryStore(), clock);
  await takeMany(limit, "a", 10);
  clock.time = START + 59_999;
  assertEquals(await limit.take("a"), { isAllowed: false, used: 10, retryAfterMs: 1 });
  clock.time = START + 60_000;
  assertEquals(await limit.take("a"), { isAllowed: true, used: 1, retryAfterMs: 0 });
});

Deno.test("take() does not count what it refuses", async () => {
  const clock = new HandClock();
  const limit = limitOn(memoryStore(), clock, 1);
  await limit.take("a");
  for (clock.time = START; clock.time < START + 60_000; clock.time += 500) {
    assertEquals((await limit.take("a")).isAllowed, false);
  }
  assertEquals((await limit.take("a")).isAllowed, true);
});

Deno.test("take() counts each client for itself", async () => {
  const limit = limitOn(memoryStore(), new HandClock());
  assertEquals(await takeMany(limit, "a", 12), 10);
  assertEquals(await takeMany(limit, "b", 12), 10);
  assertEquals(await takeMany(limit, "__proto__", 12), 10);
});

/** The rule in its plainest form: every request is compared with all that were allowed before it. */
function bruteForce(limit: number): (client: string, now: number) => boolean {
  const allowed: { client: string; at: number }[] = [];
  return (client, now) => {
    const used = allowed.filter((it) => it.client === client && it.at > now - 60_000 && it.at <= now).length;
    if (used >= limit) return false;
    allowed.push({ client, at: now });
    return true;
  };
}

for (const seed of [1, 2, 3]) {
  Deno.test(`take() agrees with a brute-force model over 3,000 requests, on two processes, seed ${seed}`, async () => {
    const random = seededRandom(seed);
    const clock = new HandClock();
    const store = memoryStore();
    const processes = [limitOn(store, clock), limitOn(store, clock)];
    const model = bruteForce(10);
    const tally = { allowed: 0, refused: 0 };
    for (let step = 0; step < 3_000; step++) {
      clock.time += [0, 1, Math.floor(random() * 500), Math.floor(random() * 15_000)][Math.floor(random() * 4)] ?? 0;
      const client = random() < 0.8 ? "a" : "b";
      const decision = await processes[Math.floor(random() * 2)]?.take(client);
      assertEquals([step, decision?.isAllowed], [step, model(client, clock.time)]);
      tally[decision?.isAllowed ? "allowed" : "refused"]++;
      if (!decision?.isAllowed) await comesBackInTime(clock, { client, retryAfterMs: decision?.retryAfterMs ?? 0 });
    }
    assert(tally.allowed > 500 && tally.refused > 500, `Both happen: ${JSON.stringify(tally)}`);

    /** A process that starts at that moment, on a copy of the store, refuses until then, and then no more. */
    async function comesBackInTime(
      { time }: HandClock,
      { client, retryAfterMs }: { client: string; retryAfterMs: number },
    ) {
      const copy = memoryStore();
      for (const { key, value } of await store.list(["rate"])) await copy.commit([], [{ key, value }]);
      const before = await limitOn(copy, new HandClock(time + retryAfterMs - 1)).take(client);
      const after = await limitOn(copy, new HandClock(time + retryAfterMs)).take(client);
      assertEquals([before.isAllowed, after.isAllowed], [false, true]);
    }
  });
}

Deno.test("take() allows exactly 10 of 200 at once, with no more of the store than these 10 need", async () => {
  const store = countedStore(memoryStore());
  const limit = limitOn(store, new HandClock());
  const decisions = await Promise.all(Array.from({ length: 200 }, () => limit.take("a")));
  assertEquals(decisions.filter(({ isAllowed }) => isAllowed).length, 10);
  assertEquals(decisions.map(({ used }) => used), [...Array(10).keys(), ...Array(190).fill(9)].map((used) => used + 1));
  assertEquals(store.counts, { get: 10, list: 0, commit: 10 });
});

Deno.test("take() lets clients at once not wait for each other", async () => {
  const store = countedStore(memoryStore());
  const limit = limitOn(store, new HandClock());
  const clients = Array.from({ length: 200 }, (_, index) => `client ${index}`);
  const decisions = await Promise.all(clients.map((client) => limit.take(client)));
  assertEquals(decisions.every(({ isAllowed, used }) => isAllowed && used === 1), true);
  assertEquals(store.counts, { get: 200, list: 0, commit: 200 });
});

Deno.test("take() allows exactly 10 of 200 at once on two processes, with few tries lost to each other", async () => {
  const clock = new FakeClock();
  const store = countedStore(memoryStore());
  const processes = [limitOn(store, clock), limitOn(store, clock)];
  const asked = Array.from({ length: 200 }, (_, index) => processes[index % 2]?.take("a"));
  const decisions = await outlast(clock, Promise.all(asked));
  assertEquals(decisions.filter((decision) => decision?.isAllowed).length, 10);
  assert(store.counts.commit <= 40, `${store.counts.commit} commits for 10 requests`);
  assert(store.counts.get <= 60, `${store.counts.get} readings for 10 requests`);
});

Deno.test("take() goes on counting in a process that starts later", async () => {
  const clock = new HandClock();
  const store = memoryStore();
  assertEquals(await takeMany(limitOn(store, clock), "a", 7), 7);
  clock.time += 59_999;
  assertEquals(await takeMany(limitOn(store, clock), "a", 7), 3);
});

Deno.test("take() refuses a client that is known to be over the limit without asking the store", async () => {
  const store = countedStore(memoryStore());
  const clock = new HandClock();
  const [counting, refusing] = [limitOn(store, clock), limitOn(store, clock)];
  await takeMany(counting, "a", 10);
  store.reset();
  assertEquals(await takeMany(counting, "a", 50), 0);
  assertEquals(store.counts, { get: 0, list: 0, commit: 0 });
  assertEquals(await takeMany(refusing, "a", 50), 0); // this one has to ask once
  assertEquals(store.counts, { get: 1, list: 0, commit: 0 });
});

Deno.test("take() remembers no more than 10,000 clients", async () => {
  const store = countedStore(memoryStore());
  const limit = limitOn(store, new HandClock(), 1);
  await limit.take("first");
  for (let index = 0; index < 9_999; index++) await limit.take(`other ${index}`);
  store.reset();
  assertEquals((await limit.take("first")).isAllowed, false);
  assertEquals(store.counts.get, 0);
  await limit.take("one more");
  store.reset();
  assertEquals((await limit.take("first")).isAllowed, false);
  assertEquals(store.counts.get, 1); // forgotten here, but not there
});

/** A store that fails at reading, writing or both as long as it is told to. */
function failingStore(store: Store): Store & { fails: "" | "get" | "commit" | "all" } {
  const fail = () => Promise.reject(new StoreUnavailableError("Cannot use the store: it has just failed"));
  const failing = {
    ...countedStore(store),
    fails: "" as "" | "get" | "commit" | "all",
    get: <T>(key: Parameters<Store["get"]>[0]) => isAny("get") ? fail() : store.get<T>(key),
    commit: (...args: Parameters<Store["commit"]>) => isAny("commit") ? fail() : store.commit(...args),
  };
  const isAny = (what: string) => failing.fails === what || failing.fails === "all";
  return failing;
}

for (const fails of ["get", "commit", "all"] as const) {
  Deno.test(`take() goes on counting in memory when the store fails at ${fails}`, async () => {
    const clock = new HandClock();
    const store = failingStore(memoryStore());
    const limit = limitOn(store, clock);
    store.fails = fails;
    assertEquals(await takeMany(limit, "a", 20), 10);
    clock.time += 60_000;
    assertEquals(await takeMany(limit, "a", 20), 10);
  });

  Deno.test(`take() counts on from what it knew when the store fails at ${fails}`, async () => {
    const store = failingStore(memoryStore());
    const limit = limitOn(store, new HandClock());
    assertEquals(await takeMany(limit, "a", 4), 4);
    store.fails = fails;
    assertEquals(await takeMany(limit, "a", 20), 6);
  });

  Deno.test(`take() keeps what it counted while the store failed at ${fails}`, async () => {
    const clock = new HandClock();
    const store = failingStore(memoryStore());
    const limit = limitOn(store, clock);
    assertEquals(await takeMany(limit, "a", 2), 2);
    store.fails = fails;
    clock.time += 1_000;
    assertEquals(await takeMany(limit, "a", 5), 5);
    store.fails = "";
    clock.time += 1_000;
    assertEquals(await takeMany(limit, "a", 20), 3);
    assertEquals(await takeMany(limitOn(store, clock), "a", 20), 0); // and told the others
  });
}

Deno.test("save() tells others what was counted while the store did not answer", async () => {
  const clock = new HandClock();
  const store = failingStore(memoryStore());
  const limit = limitOn(store, clock);
  const other = limitOn(store, clock);
  await takeMany(other, "a", 2);
  await takeMany(limit, "a", 2);
  store.fails = "all";
  clock.time += 1_000;
  assertEquals([await takeMany(limit, "a", 20), await takeMany(limit, "b", 3)], [6, 3]);
  assertEquals(await takeMany(other, "c", 1), 1);
  store.fails = "";
  clock.time += 1_000;
  assertEquals([await limit.save(), await other.save(), await limit.save()], [2, 1, 0]);
  const third = limitOn(store, clock);
  assertEquals(await Promise.all(["a", "b", "c"].map((client) => takeMany(third, client, 20))), [0, 7, 9]);
});

Deno.test("save() goes on next time with those that it could not write down", async () => {
  const store = failingStore(memoryStore());
  const limit = limitOn(store, new HandClock());
  store.fails = "all";
  await takeMany(limit, "a", 10);
  await assertRejects(() => limit.save(), StoreUnavailableError);
  store.fails = "";
  assertEquals(await limit.save(), 1);
  assertEquals(await takeMany(limitOn(store, new HandClock()), "a", 20), 0);
});

Deno.test("take() counts what others counted before a store on which only writing fails", async () => {
  const clock = new HandClock();
  const store = failingStore(memoryStore());
  await takeMany(limitOn(store, clock), "a", 8);
  store.fails = "commit";
  assertEquals(await takeMany(limitOn(store, clock), "a", 20), 2);
});

Deno.test("take() passes on an error that nobody foresaw, to the one request that met with it", async () => {
  const store = memoryStore();
  let isFirst = true;
  const broken: Store = {
    ...countedStore(store),
    get: <T>(key: Parameters<Store["get"]>[0]) => {
      if (!isFirst) return store.get<T>(key);
      isFirst = false;
      return Promise.reject(new TypeError("a bug"));
    },
  };
  const limit = limitOn(broken, new HandClock());
  const [first, second, third] = [limit.take("a"), limit.take("a"), limit.take("a")];
  await assertRejects(() => first, TypeError, "a bug");
  assertEquals([(await second).used, (await third).used], [1, 2]);
});

Deno.test("take() counts what a process whose clock is ahead has noted", async () => {
  const store = memoryStore();
  assertEquals(await takeMany(limitOn(store, new HandClock(START + 5_000)), "a", 4), 4);
  assertEquals(await takeMany(limitOn(store, new HandClock(START)), "a", 20), 6);
  assertEquals(await takeMany(limitOn(store, new HandClock(START + 5_000)), "a", 20), 0);
});

Deno.test("take() locks nobody out whose requests were noted by a clock that has been set back since", async () => {
  const store = memoryStore();
  const clock = new HandClock(START + 3_600_000);
  const limit = limitOn(store, clock);
  await takeMany(limit, "a", 10);
  clock.time = START;
  assertEquals(await limit.take("a"), { isAllowed: true, used: 1, retryAfterMs: 0 });
  assertEquals(await takeMany(limitOn(store, clock), "a", 20), 9);
});

Deno.test("take() notes more requests than would fit into a value of Deno KV as plain times", async () => {
  const memory = memoryStore();
  const clock = new HandClock();
  const limit = limitOn(memory, clock, 8_000);
  for (let index = 0; index < 7_999; index++, clock.time += index % 3 * 5) await limit.take("a");
  const kv = kvStore(await Deno.openKv(":memory:"));
  try {
    for (const { key, value } of await memory.list(["rate"])) await kv.commit([], [{ key, value }]);
    const onKv = limitOn(kv, clock, 8_000);
    assertEquals(await onKv.take("a"), { isAllowed: true, used: 8_000, retryAfterMs: 0 });
    assertEquals((await onKv.take("a")).isAllowed, false);
  } finally {
    kv.close();
  }
});

/** Every store has to be swept alike. */
for (const open of [memoryStore, async () => kvStore(await Deno.openKv(":memory:"))]) {
  Deno.test(`sweep() removes who was not seen for 60 s, and only those, over many pages (${open.name || "kvStore"})`, async () => {
    const store: CountedStore = countedStore(await open());
    try {
      const clock = new HandClock();
      const limit = limitOn(store, clock);
      const clients = Array.from({ length: 1_200 }, (_, index) => `192.0.${index >> 8}.${index & 255}`);
      const stays = (_: string, index: number) => index % 100 === 7;
      await Promise.all(clients.map((client) => limit.take(client)));
      await limit.sweep();
      assertEquals((await store.list(["rate"])).length, 1_200);
      clock.time += 30_000;
      await Promise.all(clients.filter(stays).map((client) => limit.take(client)));
      clock.time += 30_000;
      await limit.sweep();
      const left = (await store.list(["rate"])).map(({ key }) => key.at(-1));
      assertEquals(left, clients.filter(stays).sort());
      assertEquals((await limit.take(clients[7] ?? "")).used, 2);
      clock.time += 60_000;
      await limit.sweep();
      assertEquals(await store.list(["rate"]), []);
    } finally {
      store.close();
    }
  });
}

Deno.test("sweep() leaves a client alone that comes back while it is under way", async () => {
  const clock = new HandClock();
  const store = memoryStore();
  const limit = limitOn(store, clock);
  await limit.take("a");
  clock.time += 60_000;
  const sweeping = limitOn({
    ...countedStore(store),
    commit: async (checks, writes) => {
      await limit.take("a"); // between the listing and the removing
      return await store.commit(checks, writes);
    },
  }, clock);
  await sweeping.sweep();
  assertEquals((await limit.take("a")).used, 2);
});

Deno.test("sweep() is done by one of many processes, once a minute", async () => {
  const clock = new HandClock();
  const store = countedStore(memoryStore());
  const processes = Array.from({ length: 10 }, () => limitOn(store, clock));
  const lists = async () => {
    const before = store.counts.list;
    await Promise.all(processes.map((limit) => limit.sweep()));
    return store.counts.list - before;
  };
  assertEquals(await lists(), 1);
  clock.time += 59_999;
  assertEquals(await lists(), 0);
  clock.time += 1;
  assertEquals(await lists(), 1);
  clock.time -= 3_600_000; // a clock that was wrong by an hour does not end it
  assertEquals(await lists(), 1);
});

Deno.test("sweep() removes nothing else", async () => {
  const clock = new HandClock();
  const store = memoryStore();
  await store.commit([], [{ key: ["master-key"], value: 1 }, { key: ["rates", "a"], value: [] }]);
  await limitOn(store, clock).sweep();
  assertEquals((await store.get(["master-key"]))?.value, 1);
  assertEquals((await store.get(["rates", "a"]))?.value, []);
});
