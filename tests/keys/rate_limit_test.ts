import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertRejects,
} from "@std/assert";
import { RateLimit } from "../../src/keys/rate_limit.ts";
import { packWindow, unpackWindow } from "../../src/keys/sliding_window.ts";
import { kvStore } from "../../src/store/kv.ts";
import { memoryStore } from "../../src/store/memory.ts";
import {
  type Key,
  type Store,
  StoreUnavailableError,
} from "../../src/store/store.ts";
import { type Clock, systemClock } from "../../src/values/clock.ts";
import { FakeClock, settle } from "../../tools/fake_clock.ts";
import { seededRandom } from "../../tools/seeded_random.ts";
import { type CountedStore, countedStore, delegate } from "../_store.ts";

const START = 1_700_000_000_000;

/** A clock that tests set directly. It has no timers. */
class ManualClock implements Clock {
  constructor(public time = START) {}
  now = () => this.time;
  monotonic = () => this.time;
  after = (): never => {
    throw new Error("Expected no timer to be started");
  };
}

function createLimit(store: Store, clock: Clock, limit = 10): RateLimit {
  return new RateLimit({ store, clock, random: () => 0.5, limit });
}

/** Sends requests one after the other, and returns how many are allowed. */
async function takeMany(
  limit: RateLimit,
  client: string,
  count: number,
): Promise<number> {
  let allowed = 0;
  for (let index = 0; index < count; index++) {
    allowed += Number((await limit.take(client)).isAllowed);
  }
  return allowed;
}

/** Advances the clock until a promise is settled. */
async function tickUntilSettled<T>(
  clock: FakeClock,
  work: Promise<T>,
): Promise<T> {
  let isSettled = false;
  const settle = () => void (isSettled = true);
  work.then(settle, settle);
  while (!isSettled) await clock.tick(1);
  return await work;
}

Deno.test("RateLimit.take() allows requests up to the limit", async () => {
  const clock = new ManualClock();
  const limit = createLimit(memoryStore(), clock, 2);
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

Deno.test("RateLimit.take() allows the next request exactly 60 s after the first one", async () => {
  const clock = new ManualClock();
  const limit = createLimit(memoryStore(), clock);
  await takeMany(limit, "a", 10);
  clock.time = START + 59_999;
  assertEquals(await limit.take("a"), {
    isAllowed: false,
    used: 10,
    retryAfterMs: 1,
  });
  clock.time = START + 60_000;
  assertEquals(await limit.take("a"), {
    isAllowed: true,
    used: 1,
    retryAfterMs: 0,
  });
});

Deno.test("RateLimit.take() does not count rejected requests", async () => {
  const clock = new ManualClock();
  const limit = createLimit(memoryStore(), clock, 1);
  await limit.take("a");
  for (clock.time = START; clock.time < START + 60_000; clock.time += 500) {
    assertEquals((await limit.take("a")).isAllowed, false);
  }
  assertEquals((await limit.take("a")).isAllowed, true);
});

Deno.test("RateLimit.take() counts each client separately", async () => {
  const limit = createLimit(memoryStore(), new ManualClock());
  assertEquals(await takeMany(limit, "a", 12), 10);
  assertEquals(await takeMany(limit, "b", 12), 10);
  assertEquals(await takeMany(limit, "__proto__", 12), 10);
});

/** A model of the limit: every request is compared with all requests allowed before it. */
function bruteForce(limit: number): (client: string, now: number) => boolean {
  const allowed: { client: string; at: number }[] = [];
  return (client, now) => {
    const used =
      allowed.filter((it) =>
        it.client === client && it.at > now - 60_000 && it.at <= now
      ).length;
    if (used >= limit) return false;
    allowed.push({ client, at: now });
    return true;
  };
}

for (const seed of [1, 2, 3]) {
  Deno.test(`RateLimit.take() agrees with a brute-force model over 3,000 requests, on two processes, seed ${seed}`, async () => {
    const random = seededRandom(seed);
    const clock = new ManualClock();
    const store = memoryStore();
    const processes = [createLimit(store, clock), createLimit(store, clock)];
    const model = bruteForce(10);
    const tally = { allowed: 0, rejected: 0 };
    for (let step = 0; step < 3_000; step++) {
      clock.time += [
        0,
        1,
        Math.floor(random() * 500),
        Math.floor(random() * 15_000),
      ][Math.floor(random() * 4)] ?? 0;
      const client = random() < 0.8 ? "a" : "b";
      const decision = await processes[Math.floor(random() * 2)]?.take(client);
      assertEquals([step, decision?.isAllowed], [
        step,
        model(client, clock.time),
      ]);
      tally[decision?.isAllowed ? "allowed" : "rejected"]++;
      if (!decision?.isAllowed) {
        await checkRetryAfter(clock, {
          client,
          retryAfterMs: decision?.retryAfterMs ?? 0,
        });
      }
    }
    assert(
      tally.allowed > 500 && tally.rejected > 500,
      `Expected both outcomes: ${JSON.stringify(tally)}`,
    );

    /** Checks retryAfterMs with new processes on copies of the store. */
    async function checkRetryAfter(
      { time }: ManualClock,
      { client, retryAfterMs }: { client: string; retryAfterMs: number },
    ) {
      const copy = memoryStore();
      for (const { key, value } of await store.list(["rate"])) {
        await copy.commit([], [{ key, value }]);
      }
      const before = await createLimit(
        copy,
        new ManualClock(time + retryAfterMs - 1),
      ).take(client);
      const after = await createLimit(
        copy,
        new ManualClock(time + retryAfterMs),
      ).take(client);
      assertEquals([before.isAllowed, after.isAllowed], [false, true]);
    }
  });
}

Deno.test("RateLimit.take() allows exactly 10 of 200 concurrent requests, with two commits", async () => {
  const store = countedStore(memoryStore());
  const limit = createLimit(store, new ManualClock());
  const decisions = await Promise.all(
    Array.from({ length: 200 }, () => limit.take("a")),
  );
  assertEquals(decisions.filter(({ isAllowed }) => isAllowed).length, 10);
  assertEquals(
    decisions.map(({ used }) => used),
    [...Array(10).keys(), ...Array(190).fill(9)].map((used) => used + 1),
  );
  assertEquals(store.counts, { get: 0, getMany: 1, list: 0, commit: 2 }); // those of the first, and of all that came meanwhile
});

Deno.test("RateLimit.take() counts the clients that arrive during a commit together, up to 100", async () => {
  const store = countedStore(memoryStore());
  const limit = createLimit(store, new ManualClock());
  const clients = Array.from({ length: 200 }, (_, index) => `client ${index}`);
  const decisions = await Promise.all(
    clients.map((client) => limit.take(client)),
  );
  assertEquals(
    decisions.every(({ isAllowed, used }) => isAllowed && used === 1),
    true,
  );
  assertEquals(store.counts, { get: 0, getMany: 0, list: 0, commit: 3 }); // of 1, 100 and 99
});

Deno.test("RateLimit.take() allows exactly 10 of 200 concurrent requests to two processes, with few conflicts", async () => {
  const clock = new FakeClock();
  const store = countedStore(memoryStore());
  const processes = [createLimit(store, clock), createLimit(store, clock)];
  const requests = Array.from(
    { length: 200 },
    (_, index) => processes[index % 2]?.take("a"),
  );
  const decisions = await tickUntilSettled(clock, Promise.all(requests));
  assertEquals(decisions.filter((decision) => decision?.isAllowed).length, 10);
  assert(
    store.counts.commit <= 40,
    `${store.counts.commit} commits for 10 requests`,
  );
  assert(
    store.counts.getMany <= 60,
    `${store.counts.getMany} reads for 10 requests`,
  );
});

Deno.test("RateLimit.take() continues the count of other processes in one that starts later", async () => {
  const clock = new ManualClock();
  const store = memoryStore();
  assertEquals(await takeMany(createLimit(store, clock), "a", 7), 7);
  clock.time += 59_999;
  assertEquals(await takeMany(createLimit(store, clock), "a", 7), 3);
});

Deno.test("RateLimit.take() rejects a client known to be over the limit without a request to the store", async () => {
  const store = countedStore(memoryStore());
  const clock = new ManualClock();
  const [counting, rejecting] = [
    createLimit(store, clock),
    createLimit(store, clock),
  ];
  await takeMany(counting, "a", 10);
  store.reset();
  assertEquals(await takeMany(counting, "a", 50), 0);
  assertEquals(store.counts, { get: 0, getMany: 0, list: 0, commit: 0 });
  assertEquals(await takeMany(rejecting, "a", 50), 0); // this process reads the store once
  assertEquals(store.counts, { get: 0, getMany: 1, list: 0, commit: 1 }); // a client that it does not know might be new
});

Deno.test("RateLimit.take() keeps at most 10,000 clients in memory", async () => {
  const store = countedStore(memoryStore());
  const limit = createLimit(store, new ManualClock(), 1);
  await limit.take("first");
  for (let index = 0; index < 9_999; index++) {
    await limit.take(`other ${index}`);
  }
  store.reset();
  assertEquals((await limit.take("first")).isAllowed, false);
  assertEquals(store.counts.getMany, 0);
  await limit.take("one more");
  store.reset();
  assertEquals((await limit.take("first")).isAllowed, false);
  assertEquals(store.counts.getMany, 1); // no longer in memory, but in the store
});

/** A store whose reads, commits or both reject, as `fails` says. */
function failingStore(
  store: Store,
): Store & { fails: "" | "read" | "commit" | "all" } {
  const fail = () =>
    Promise.reject(
      new StoreUnavailableError("Cannot use the store: a test made it fail"),
    );
  const failing = {
    ...countedStore(store),
    fails: "" as "" | "read" | "commit" | "all",
    getMany: <T>(keys: readonly Key[]) =>
      isAny("read") ? fail() : store.getMany<T>(keys),
    commit: (...args: Parameters<Store["commit"]>) =>
      isAny("commit") ? fail() : store.commit(...args),
  };
  const isAny = (what: string) =>
    failing.fails === what || failing.fails === "all";
  return failing;
}

for (const fails of ["read", "commit", "all"] as const) {
  Deno.test(`RateLimit.take() counts in memory while the store fails at ${fails}`, async () => {
    const clock = new ManualClock();
    const store = failingStore(memoryStore());
    const limit = createLimit(store, clock);
    store.fails = fails;
    assertEquals(await takeMany(limit, "a", 20), 10);
    clock.time += 60_000;
    assertEquals(await takeMany(limit, "a", 20), 10);
  });

  Deno.test(`RateLimit.take() continues the count in memory when the store fails at ${fails}`, async () => {
    const store = failingStore(memoryStore());
    const limit = createLimit(store, new ManualClock());
    assertEquals(await takeMany(limit, "a", 4), 4);
    store.fails = fails;
    assertEquals(await takeMany(limit, "a", 20), 6);
  });

  Deno.test(`RateLimit.take() keeps the requests counted while the store failed at ${fails}`, async () => {
    const clock = new ManualClock();
    const store = failingStore(memoryStore());
    const limit = createLimit(store, clock);
    assertEquals(await takeMany(limit, "a", 2), 2);
    store.fails = fails;
    clock.time += 1_000;
    assertEquals(await takeMany(limit, "a", 5), 5);
    store.fails = "";
    clock.time += 1_000;
    assertEquals(await takeMany(limit, "a", 20), 3);
    assertEquals(await takeMany(createLimit(store, clock), "a", 20), 0); // other processes count them, too
  });
}

Deno.test("RateLimit.save() stores what was counted while the store was unavailable", async () => {
  const clock = new ManualClock();
  const store = failingStore(memoryStore());
  const limit = createLimit(store, clock);
  const other = createLimit(store, clock);
  await takeMany(other, "a", 2);
  await takeMany(limit, "a", 2);
  store.fails = "all";
  clock.time += 1_000;
  assertEquals(
    [await takeMany(limit, "a", 20), await takeMany(limit, "b", 3)],
    [6, 3],
  );
  assertEquals(await takeMany(other, "c", 1), 1);
  store.fails = "";
  clock.time += 1_000;
  assertEquals([await limit.save(), await other.save(), await limit.save()], [
    2,
    1,
    0,
  ]);
  const third = createLimit(store, clock);
  assertEquals(
    await Promise.all(
      ["a", "b", "c"].map((client) => takeMany(third, client, 20)),
    ),
    [0, 7, 9],
  );
});

Deno.test("RateLimit.save() retries clients that it could not store", async () => {
  const store = failingStore(memoryStore());
  const limit = createLimit(store, new ManualClock());
  store.fails = "all";
  await takeMany(limit, "a", 10);
  await assertRejects(() => limit.save(), StoreUnavailableError);
  store.fails = "";
  assertEquals(await limit.save(), 1);
  assertEquals(
    await takeMany(createLimit(store, new ManualClock()), "a", 20),
    0,
  );
});

Deno.test("RateLimit.take() counts the requests of other processes when only commits fail", async () => {
  const clock = new ManualClock();
  const store = failingStore(memoryStore());
  await takeMany(createLimit(store, clock), "a", 8);
  store.fails = "commit";
  assertEquals(await takeMany(createLimit(store, clock), "a", 20), 2);
});

Deno.test("RateLimit.take() rejects with an unexpected error for the affected request only", async () => {
  const store = memoryStore();
  let isFirst = true;
  const broken: Store = {
    ...countedStore(store),
    getMany: <T>(keys: readonly Key[]) => {
      if (!isFirst) return store.getMany<T>(keys);
      isFirst = false;
      return Promise.reject(new TypeError("a bug"));
    },
  };
  const limit = createLimit(broken, new ManualClock());
  await limit.take("a"); // it is not read as long as it might be new
  await settle(); // requests that arrive before a commit has ended are counted together
  const [first, second, third] = [
    limit.take("a"),
    limit.take("a"),
    limit.take("a"),
  ];
  await assertRejects(async () => await first, TypeError, "a bug");
  assertEquals([(await second).used, (await third).used], [2, 3]);
});

Deno.test("RateLimit.take() counts requests recorded by a process whose clock is ahead", async () => {
  const store = memoryStore();
  assertEquals(
    await takeMany(createLimit(store, new ManualClock(START + 5_000)), "a", 4),
    4,
  );
  assertEquals(
    await takeMany(createLimit(store, new ManualClock(START)), "a", 20),
    6,
  );
  assertEquals(
    await takeMany(createLimit(store, new ManualClock(START + 5_000)), "a", 20),
    0,
  );
});

Deno.test("RateLimit.take() ignores requests recorded before the clock was set back", async () => {
  const store = memoryStore();
  const clock = new ManualClock(START + 3_600_000);
  const limit = createLimit(store, clock);
  await takeMany(limit, "a", 10);
  clock.time = START;
  assertEquals(await limit.take("a"), {
    isAllowed: true,
    used: 1,
    retryAfterMs: 0,
  });
  assertEquals(await takeMany(createLimit(store, clock), "a", 20), 9);
});

Deno.test("packWindow() packs a window of 10,000 requests into a Deno KV value", async () => {
  const window = Array.from(
    { length: 10_000 },
    (_, index) => START + index * 6,
  );
  using kv = await Deno.openKv(":memory:");
  await kv.set(["window"], packWindow(window));
  assertEquals(
    unpackWindow((await kv.get<number[]>(["window"])).value ?? []),
    window,
  );
  assertEquals(packWindow([]), []);
});

Deno.test("RateLimit.take() packs more requests into a Deno KV value than would fit as plain times", async () => {
  const memory = memoryStore();
  const clock = new ManualClock();
  const limit = createLimit(memory, clock, 8_001);
  for (let round = 0; round < 2_000; round++, clock.time += round % 3 * 20) {
    await Promise.all(Array.from({ length: 4 }, () => limit.take("a")));
  }
  const kv = kvStore(await Deno.openKv(":memory:"));
  try {
    for (const { key, value } of await memory.list(["rate"])) {
      await kv.commit([], [{ key, value }]);
    }
    const onKv = createLimit(kv, clock, 8_001);
    assertEquals(await onKv.take("a"), {
      isAllowed: true,
      used: 8_001,
      retryAfterMs: 0,
    });
    assertEquals((await onKv.take("a")).isAllowed, false);
  } finally {
    kv.close();
  }
});

/** Both kinds of store. */
for (
  const open of [
    memoryStore,
    async () => kvStore(await Deno.openKv(":memory:")),
  ]
) {
  Deno.test(`RateLimit.sweep() removes exactly the clients without requests for 60 s, across pages (${open.name || "kvStore"})`, async () => {
    const store: CountedStore = countedStore(await open());
    try {
      const clock = new ManualClock();
      const limit = createLimit(store, clock);
      const clients = Array.from(
        { length: 1_200 },
        (_, index) => `192.0.${index >> 8}.${index & 255}`,
      );
      const stays = (_: string, index: number) => index % 100 === 7;
      await Promise.all(clients.map((client) => limit.take(client)));
      await limit.sweep();
      assertEquals((await store.list(["rate"])).length, 1_200);
      clock.time += 30_000;
      await Promise.all(
        clients.filter(stays).map((client) => limit.take(client)),
      );
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

Deno.test("RateLimit.sweep() keeps a client that sends a request meanwhile", async () => {
  const clock = new ManualClock();
  const store = memoryStore();
  const limit = createLimit(store, clock);
  await limit.take("a");
  clock.time += 60_000;
  const sweeping = createLimit({
    ...countedStore(store),
    commit: async (checks, writes) => {
      await limit.take("a"); // between listing and removing
      return await store.commit(checks, writes);
    },
  }, clock);
  await sweeping.sweep();
  assertEquals((await limit.take("a")).used, 2);
});

Deno.test("RateLimit.sweep() is done by one process, once a minute", async () => {
  const clock = new ManualClock();
  const store = countedStore(memoryStore());
  const processes = Array.from({ length: 10 }, () => createLimit(store, clock));
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
  clock.time -= 3_600_000; // a clock that was an hour ahead does not stop it
  assertEquals(await lists(), 1);
});

Deno.test("RateLimit.sweep() removes no other entries", async () => {
  const clock = new ManualClock();
  const store = memoryStore();
  await store.commit([], [{ key: ["master-key"], value: 1 }, {
    key: ["rates", "a"],
    value: [],
  }]);
  await createLimit(store, clock).sweep();
  assertEquals((await store.get(["master-key"]))?.value, 1);
  assertEquals((await store.get(["rates", "a"]))?.value, []);
});

Deno.test("RateLimit.take() counts in memory at once while the store is behind, and save() stores it", async () => {
  const clock = new ManualClock();
  const inner = memoryStore();
  const gate = Promise.withResolvers<void>();
  const store = {
    ...countedStore(inner),
    getMany: <T>(keys: readonly Key[]) =>
      gate.promise.then(() => inner.getMany<T>(keys)),
  };
  const limit = createLimit(store, clock, 2);
  const waiting = Array.from(
    { length: 32 },
    (_, index) => limit.take(`waiting ${index}`),
  );
  clock.time += 249;
  waiting.push(limit.take("the last to wait"));
  clock.time += 1;
  assertEquals(await takeMany(limit, "a", 3), 2);
  gate.resolve();
  await Promise.all(waiting);
  assertEquals([await limit.save(), await limit.save()], [1, 0]);
  assertEquals(await takeMany(createLimit(inner, clock, 2), "a", 1), 0);
  assertEquals([await takeMany(limit, "b", 1), await limit.save()], [1, 0]); // waited for the store again
});

/** Requests of clients that are counted in one commit: the first one starts a batch of its own. */
async function takeTogether(
  limit: RateLimit,
  clients: readonly string[],
): Promise<(boolean | undefined)[]> {
  const first = limit.take("the first");
  const decisions = await Promise.all(
    clients.map((client) => limit.take(client)),
  );
  await first;
  return decisions.map(({ isAllowed }) => isAllowed);
}

Deno.test("RateLimit.take() counts exactly if another process counts a client of a batch before it is committed", async () => {
  const clock = new ManualClock();
  const inner = memoryStore();
  const other = createLimit(inner, clock, 3);
  const store = countedStore(inner);
  let batches = 0;
  const contended: Store = {
    ...store,
    commit: async (checks, writes) => {
      if (checks.length > 1 && ++batches <= 2) await takeMany(other, "b", 1);
      return await store.commit(checks, writes);
    },
  };
  const limit = createLimit(contended, {
    ...clock,
    after: (_ms, callback) => (queueMicrotask(callback), () => {}),
  }, 3);
  assertEquals(await takeTogether(limit, ["a", "b", "c", "b"]), [
    true,
    true,
    true,
    false,
  ]);
  assertEquals([
    await takeMany(other, "a", 5),
    await takeMany(other, "b", 5),
    await takeMany(other, "c", 5),
  ], [
    2,
    0,
    2,
  ]);
  assertEquals(store.counts.commit, 5); // the first, the batch as if it were new, after a read, without b, b
});

Deno.test("RateLimit.take() reads the windows of unknown clients first while other processes know such clients", async () => {
  const clock = new ManualClock();
  const inner = memoryStore();
  const other = createLimit(inner, clock);
  for (const client of ["b", "c"]) await other.take(client);
  const store = countedStore(inner);
  const limit = createLimit(store, clock);
  const counts = async (client: string) => {
    store.reset();
    await limit.take(client);
    return [store.counts.getMany, store.counts.commit];
  };
  assertEquals(await counts("a"), [0, 1]); // new
  assertEquals(await counts("a"), [1, 1]); // known to this process
  assertEquals(await counts("b"), [1, 2]); // expected to be new
  assertEquals(await counts("c"), [1, 1]); // not expected any more
  assertEquals(await counts("d"), [1, 1]);
  assertEquals(await counts("e"), [0, 1]); // expected again
  assertEquals(await takeMany(other, "b", 10), 8);
});

Deno.test("RateLimit.take() commits a batch without the clients in it that are over the limit", async () => {
  const clock = new ManualClock();
  const inner = memoryStore();
  await takeMany(createLimit(inner, clock, 2), "b", 2);
  const writes: unknown[] = [];
  const store: Store = {
    ...delegate(inner),
    commit: (checks, all) => {
      writes.push(all.map(({ key }) => key[1]));
      return inner.commit(checks, all);
    },
  };
  const limit = createLimit(store, clock, 2);
  assertEquals(await takeTogether(limit, ["a", "b", "c", "a", "a"]), [
    true,
    false,
    true,
    true,
    false,
  ]);
  assertEquals(writes, [["the first"], ["a", "b", "c"], ["a", "c"]]); // they are expected to be new first
});

Deno.test("RateLimit.take() rejects only the requests of a batch whose client causes an unexpected error", async () => {
  const clock = new ManualClock();
  const store = memoryStore();
  await store.commit([], [{ key: ["rate", "b"], value: "not a window" }]);
  const limit = createLimit(store, clock, 1);
  const settled = await Promise.allSettled(
    ["the first", "a", "b", "c", "b"].map((client) => limit.take(client)),
  );
  assertEquals(settled.map(({ status }) => status), [
    ...["fulfilled", "fulfilled", "rejected", "fulfilled", "rejected"],
  ]);
  const other = createLimit(store, clock, 1);
  assertEquals([await takeMany(other, "a", 1), await takeMany(other, "c", 1)], [
    0,
    0,
  ]);
});

Deno.test("RateLimit.take() counts a whole batch in memory while the store fails, and save() stores it together", async () => {
  const clock = new ManualClock();
  const inner = countedStore(memoryStore());
  const store = failingStore(inner);
  store.fails = "commit";
  const limit = createLimit(store, clock, 1);
  const clients = Array.from({ length: 99 }, (_, index) => `client ${index}`);
  assertEquals(await takeTogether(limit, clients), clients.map(() => true));
  assertEquals(await takeTogether(limit, clients), clients.map(() => false));
  store.fails = "";
  inner.reset();
  assertEquals(await limit.save(), 100);
  assertEquals(inner.counts, { get: 0, getMany: 1, list: 0, commit: 1 });
  const other = createLimit(inner, clock, 1);
  assertEquals(await takeTogether(other, clients), clients.map(() => false));
});

Deno.test("RateLimit.take() limits batches of large windows to what fits into a commit of Deno KV", async () => {
  const clock = new ManualClock();
  const kv = kvStore(await Deno.openKv(":memory:"), { maxChecks: 100 });
  const sizes: number[] = [];
  const commit: Store["commit"] = (checks, writes) => {
    sizes.push(checks.length);
    return kv.commit(checks, writes);
  };
  const store = { ...delegate(kv), commit };
  try {
    const limit = createLimit(store, clock, 10_000);
    const clients = Array.from({ length: 40 }, (_, index) => `client ${index}`);
    const value = packWindow(
      Array.from({ length: 9_990 }, (_, index) => START + index * 3),
    );
    for (const client of clients) {
      await kv.commit([], [{ key: ["rate", client], value }]);
    }
    assertEquals(await takeTogether(limit, clients), clients.map(() => true));
    assertEquals(Math.max(...sizes), 9);
  } finally {
    store.close();
  }
});

Deno.test("RateLimit.take() rejects the clients that it knows to be over the limit without a promise", async () => {
  const clock = new ManualClock();
  const limit = createLimit(memoryStore(), clock, 1);
  assertEquals(await limit.take("a"), {
    isAllowed: true,
    used: 1,
    retryAfterMs: 0,
  });
  clock.time += 1_000;
  assertEquals(limit.take("a"), {
    isAllowed: false,
    used: 1,
    retryAfterMs: 59_000,
  });
  clock.time += 59_000;
  const next = limit.take("a");
  assertInstanceOf(next, Promise);
  assertEquals(await next, { isAllowed: true, used: 1, retryAfterMs: 0 });
});

Deno.test("RateLimit.take() allows exactly the limit of each of 60 clients of two connections to one file", async () => {
  const directory = await Deno.makeTempDir();
  const open = async () =>
    kvStore(await Deno.openKv(`${directory}/kv.sqlite3`), { maxChecks: 100 });
  const stores = await Promise.all([open(), open()]);
  try {
    const random = seededRandom(7);
    const limits = stores.map((store) =>
      new RateLimit({ store, clock: systemClock, random, limit: 3 })
    );
    const clients = Array.from({ length: 60 }, (_, index) => `client ${index}`);
    const requests = clients.flatMap((client) =>
      Array.from({ length: 8 }, (_, index) => ({ client, index }))
    );
    const allowed = await Promise.all(
      requests.map(async ({ client, index }) => {
        return (await limits[index % 2]!.take(client)).isAllowed ? client : "";
      }),
    );
    const counts = clients.map((client) =>
      allowed.filter((it) => it === client).length
    );
    assertEquals(counts, clients.map(() => 3));
  } finally {
    for (const store of stores) store.close();
    await Deno.remove(directory, { recursive: true });
  }
});
