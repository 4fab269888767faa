import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { silentLog } from "../../src/observe/log.ts";
import { MAX_REPRESENTATIVES } from "../../src/rollout/election.ts";
import { Rollout, type RolloutOptions } from "../../src/rollout/rollout.ts";
import type { Member } from "../../src/rollout/observation.ts";
import { kvStore } from "../../src/store/kv.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { type Store, StoreUnavailableError } from "../../src/store/store.ts";
import { FakeClock, settle } from "../../tools/fake_clock.ts";
import { captureLog } from "../_gateway.ts";
import { countedStore, delegate } from "../_store.ts";

const PERIOD_MS = 5_000;
/** Since a start: one period until the next observation, then two without a change. */
const LATE_MS = 3 * PERIOD_MS;
/** Since the last heartbeat: one period until the next observation, then four without a change. */
const DEAD_MS = 5 * PERIOD_MS;

/** Processes on one store. */
class Cluster {
  readonly clock = new FakeClock();
  readonly store: Store;
  readonly #running = new Map<Rollout, { isAlive: boolean }>();

  constructor(store: Store = memoryStore()) {
    this.store = store;
  }

  async start(
    hash: string,
    options: Partial<RolloutOptions> = {},
    onChange: (hash: string) => void = () => {},
  ): Promise<Rollout> {
    const rollout = this.make(options);
    rollout.onActiveChange = () => onChange(rollout.active ?? "");
    await rollout.join(hash);
    return rollout;
  }

  make(options: Partial<RolloutOptions> = {}): Rollout {
    const state = { isAlive: true };
    const clock: RolloutOptions["clock"] = {
      now: () => this.clock.now(),
      monotonic: () => this.clock.monotonic(),
      after: (ms, callback) =>
        this.clock.after(ms, () => state.isAlive && callback()),
    };
    const rollout = new Rollout({
      ...{
        store: this.store,
        clock,
        random: () => 0,
        log: silentLog,
        instanceId: undefined,
        epochs: { fingerprint: undefined },
      },
      ...{
        processId: crypto.randomUUID(),
        maxRepresentatives: MAX_REPRESENTATIVES,
      },
      ...options,
    });
    this.#running.set(rollout, state);
    return rollout;
  }

  /** Ends a process without leaving. */
  kill(rollout: Rollout): void {
    const state = this.#running.get(rollout);
    if (state) state.isAlive = false;
  }

  async members(): Promise<Pick<Member, "hash" | "rank">[]> {
    const entries = await this.store.list<Member>(["member"]);
    return entries.map(({ value: { hash, rank } }) => ({ hash, rank }));
  }
}

/** A store that can be made unavailable. */
function switchableStore(store: Store = memoryStore()) {
  const status = { isUp: true };
  const run = <T>(work: () => Promise<T>) =>
    status.isUp ? work() : Promise.reject(
      new StoreUnavailableError("Cannot use the store: switched off"),
    );
  const switchable: Store = {
    ...delegate(store),
    get: (key) => run(() => store.get(key)),
    getMany: (keys) => run(() => store.getMany(keys)),
    list: (prefix, options) => run(() => store.list(prefix, options)),
    commit: (checks, writes) => run(() => store.commit(checks, writes)),
  };
  return { status, store: switchable };
}

/** Runs all retries of conflicting commits. */
async function runRetries(clock: FakeClock): Promise<void> {
  await settle();
  await clock.tick(1_000);
}

Deno.test("join() activates the configuration of a single process immediately, whatever it had before it was killed", async () => {
  const cluster = new Cluster();
  for (const hash of ["a", "a", "b", "b"]) {
    const rollout = await cluster.start(hash);
    assertEquals([rollout.active, rollout.isActive], [hash, true]);
    cluster.kill(rollout);
  }
});

Deno.test("join() assigns the next rank to a new configuration and keeps the rank of a living one", async () => {
  const cluster = new Cluster();
  const ids = ["1", "2", "3", "4"];
  for (const [index, hash] of ["a", "b", "a", "c"].entries()) {
    await cluster.start(hash, { processId: ids[index] ?? "" });
  }
  assertEquals(await cluster.members(), [
    { hash: "a", rank: 1 },
    { hash: "b", rank: 2 },
    { hash: "a", rank: 1 },
    { hash: "c", rank: 3 },
  ]);
});

Deno.test("join() assigns one rank per configuration when many processes start together", async () => {
  const cluster = new Cluster();
  const joining = ["a", "b", "a", "b", "a"].map((hash, index) =>
    cluster.start(hash, { processId: `${index}` })
  );
  await runRetries(cluster.clock);
  await Promise.all(joining);
  const ranks = new Map(
    (await cluster.members()).map(({ hash, rank }) => [hash, rank]),
  );
  assertEquals(
    (await cluster.members()).map(({ hash, rank }) => rank === ranks.get(hash)),
    Array(5).fill(true),
  );
  assertEquals([...ranks.values()].sort(), [1, 2]);
});

Deno.test("join() activates the newest configuration immediately, and within a period on other processes", async () => {
  const cluster = new Cluster();
  const old = await cluster.start("a");
  const changes: string[] = [];
  const newer = await cluster.start("b", {}, (hash) => changes.push(hash));
  assertEquals([newer.active, newer.isActive, old.active, old.isActive], [
    "b",
    true,
    "a",
    true,
  ]);
  await cluster.clock.tick(PERIOD_MS);
  assertEquals([old.active, old.isActive], ["b", false]);
  assertEquals(changes, ["b"]);
});

for (const ending of ["kill", "leave"] as const) {
  Deno.test(`join() does not reactivate an old configuration when its last replica restarts after ${ending}()`, async () => {
    const cluster = new Cluster();
    const old = await cluster.start("a");
    const newer = await cluster.start("b");
    await (ending === "kill" ? cluster.kill(old) : old.leave());
    await cluster.clock.tick(40_000);
    const restarted = await cluster.start("a");
    assertEquals([restarted.active, newer.active], ["b", "b"]);
    await cluster.clock.tick(60_000);
    assertEquals([restarted.active, newer.active], ["b", "b"]);
  });

  Deno.test(`join() begins a rollout with an old configuration long after ${ending}() of its last replica`, async () => {
    const cluster = new Cluster();
    const old = await cluster.start("a");
    const newer = await cluster.start("b");
    await (ending === "kill" ? cluster.kill(old) : old.leave());
    await cluster.clock.tick(120_000);
    const restarted = await cluster.start("a");
    await cluster.clock.tick(PERIOD_MS);
    assertEquals([restarted.active, newer.active], ["a", "a"]);
  });
}

Deno.test("join() with another configuration begins a rollout", async () => {
  const cluster = new Cluster();
  const [first, second] = [await cluster.start("a"), await cluster.start("a")];
  await first.join("b");
  assertEquals(first.active, "b");
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(second.active, "b");
  await second.join("b");
  assertEquals([first.isActive, second.isActive], [true, true]);
});

Deno.test("join() with an instance ID waits only until a predecessor with the same ID and a newer configuration is late", async () => {
  const cluster = new Cluster();
  for (const hash of ["a", "b", "a", "c", "b"]) {
    const rollout = await cluster.start(hash, { instanceId: "host:8080" });
    await cluster.clock.tick(LATE_MS);
    assertEquals(rollout.active, hash);
    cluster.kill(rollout);
  }
});

Deno.test("join() without an instance ID waits until a newer configuration is found dead", async () => {
  const cluster = new Cluster();
  for (const hash of ["a", "b"]) cluster.kill(await cluster.start(hash));
  const rollout = await cluster.start("a");
  await cluster.clock.tick(DEAD_MS - PERIOD_MS - 1);
  assertEquals(rollout.active, "b");
  await cluster.clock.tick(PERIOD_MS + 1);
  assertEquals(rollout.active, "a");
});

Deno.test("join() does not wait for members without a heartbeat for ten minutes", async () => {
  const cluster = new Cluster();
  for (const hash of ["a", "b"]) cluster.kill(await cluster.start(hash));
  await cluster.clock.tick(600_001);
  assertEquals((await cluster.start("a")).active, "a");
});

Deno.test("an older configuration never wins over a living process that has the same instance ID by mistake", async () => {
  const cluster = new Cluster();
  const options = { instanceId: "x" };
  const old = await cluster.start("a", { ...options, random: () => 0.9 });
  const newer = await cluster.start("b", options);
  await cluster.clock.tick(PERIOD_MS);
  const seen = new Set<string | undefined>();
  for (let restart = 0; restart < 3; restart++) {
    const again = await cluster.start("a", options);
    for (let second = 0; second < 30; second++) {
      for (const rollout of [old, newer, again]) seen.add(rollout.active);
      await cluster.clock.tick(1_000);
    }
    cluster.kill(again);
  }
  assertEquals([...seen], ["b"]);
});

Deno.test("a process whose instance ID is used twice by mistake is a member again after a period", async () => {
  const cluster = new Cluster();
  const first = await cluster.start("b", { instanceId: "x", processId: "1" });
  const second = await cluster.start("a", { instanceId: "x", processId: "2" });
  await cluster.clock.tick(2 * PERIOD_MS);
  assertEquals([first.active, second.active], ["a", "a"]);
  assertEquals(await cluster.members(), [{ hash: "b", rank: 1 }, {
    hash: "a",
    rank: 2,
  }]);
  await second.leave();
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(first.active, "b");
});

Deno.test("join() activates its own configuration while the store is unavailable, and follows the others after that", async () => {
  const { status, store } = switchableStore();
  const cluster = new Cluster(store);
  const newer = await cluster.start("b");
  status.isUp = false;
  const late = await cluster.start("a", { processId: "late" });
  assertEquals([late.active, late.isActive], ["a", true]);
  await late.join("c");
  assertEquals([late.active, late.isActive], ["c", true]);
  await late.join("b");
  await cluster.clock.tick(60_000);
  assertEquals([late.active, newer.active], ["b", "b"]);
  status.isUp = true;
  await cluster.clock.tick(PERIOD_MS);
  assertEquals((await cluster.members()).map(({ rank }) => rank), [1, 1]);
});

Deno.test("join() keeps the configuration of the others active while the store is unavailable", async () => {
  const { status, store } = switchableStore();
  const cluster = new Cluster(store);
  const [first, second] = [await cluster.start("a"), await cluster.start("a")];
  await cluster.clock.tick(PERIOD_MS);
  status.isUp = false;
  await first.join("b");
  assertEquals([first.active, first.isActive, second.active], [
    "a",
    false,
    "a",
  ]);
  status.isUp = true;
  await cluster.clock.tick(2 * PERIOD_MS);
  assertEquals([first.active, first.isActive, second.active], ["b", true, "b"]);
});

Deno.test("join() rethrows an error other than a store failure", async () => {
  const store = {
    ...memoryStore(),
    list: () => Promise.reject(new TypeError("a bug")),
    get: () => Promise.resolve(undefined),
  };
  const rollout = new Cluster(store).make();
  await assertRejects(() => rollout.join("a"), TypeError, "a bug");
  await rollout.leave();
});

Deno.test("Rollout logs an error of a scheduled heartbeat and sends the next one", async () => {
  const store = countedStore(memoryStore());
  const cluster = new Cluster(store);
  const { log, lines } = captureLog();
  const onChange = (hash: string) => {
    if (hash === "b") throw new TypeError("broken listener");
  };
  const old = await cluster.start("a", { log }, onChange);
  await cluster.start("b");
  await cluster.clock.tick(PERIOD_MS);
  const errors = lines.filter(({ level }) => level === "ERROR");
  assertEquals(errors.map(({ level, msg }) => [level, msg]), [[
    "ERROR",
    "rep.task.failed",
  ]]);
  assertStringIncludes(String(errors[0]?.detail), "broken listener");
  store.reset();
  await cluster.clock.tick(PERIOD_MS);
  assertEquals([old.active, store.counts], ["b", {
    get: 0,
    getMany: 0,
    list: 2,
    commit: 2,
  }]);
});

Deno.test("missed heartbeats do not count while the store rejects writes", async () => {
  const store = memoryStore();
  let isFull = false;
  const commit: Store["commit"] = (checks, writes) =>
    isFull
      ? Promise.reject(new StoreUnavailableError("disk full"))
      : store.commit(checks, writes);
  const { get, list } = {
    get: store.get.bind(store),
    list: store.list.bind(store),
  };
  const cluster = new Cluster({
    ...switchableStore(store).store,
    get,
    list,
    commit,
  });
  const [old, newer] = [await cluster.start("a"), await cluster.start("b")];
  await cluster.clock.tick(PERIOD_MS);
  isFull = true;
  await cluster.clock.tick(60_000);
  assertEquals([old.active, newer.active], ["b", "b"]);
  await store.commit([], [{
    key: ["member", "x"],
    value: { hash: "c", rank: 9, heartbeatAt: cluster.clock.now() },
  }]);
  await old.refresh();
  assertEquals(old.active, "b"); // without a write, it is not an observation
  isFull = false;
  await old.refresh();
  assertEquals(old.active, "c");
  await cluster.clock.tick(DEAD_MS);
  assertEquals([old.active, newer.active], ["b", "b"]);
});

Deno.test("leave() hands over within a period, a kill within five", async () => {
  for (
    const [ending, ms] of [["leave", PERIOD_MS], ["kill", DEAD_MS]] as const
  ) {
    const cluster = new Cluster();
    const [old, newer] = [await cluster.start("a"), await cluster.start("b")];
    await cluster.clock.tick(PERIOD_MS);
    await (ending === "kill" ? cluster.kill(newer) : newer.leave());
    await cluster.clock.tick(ms - 1);
    assertEquals(old.active, "b", ending);
    await cluster.clock.tick(1);
    assertEquals(old.active, "a", ending);
  }
});

Deno.test("members says of a killed process that it is dead until its entry is deleted, and left only of one that left", async () => {
  for (
    const [ending, expected] of [["leave", ["living", "left"]], ["kill", [
      "living",
      "late",
      "dead",
    ]]] as const
  ) {
    const cluster = new Cluster();
    const [observer, other] = [
      await cluster.start("a", { processId: "1" }),
      await cluster.start("b"),
    ];
    await cluster.clock.tick(PERIOD_MS);
    const states = new Set<string | undefined>();
    const observe = () =>
      states.add(observer.members.find(({ hash }) => hash === "b")?.state);
    observe();
    await (ending === "kill" ? cluster.kill(other) : other.leave());
    for (let period = 0; period < 25; period++) {
      await cluster.clock.tick(PERIOD_MS);
      observe();
    }
    assertEquals([...states], [...expected, undefined], ending);
  }
});

Deno.test("fencingChecks() permits no commit after leave(), so that nothing is published over a later rollout", async () => {
  const cluster = new Cluster();
  const old = await cluster.start("a");
  assertEquals((await old.fencingChecks())?.length, 1);
  await old.leave();
  await cluster.start("b"); // which the old process does not see any more
  assertEquals(await old.fencingChecks(), undefined);
});

Deno.test("fencingChecks() rejects while a new configuration cannot be announced, so that it does not count as superseded", async () => {
  const store = memoryStore();
  let isFull = false;
  const full = () => Promise.reject(new StoreUnavailableError("disk full"));
  const commit: Store["commit"] = (checks, writes) =>
    isFull ? full() : store.commit(checks, writes);
  const cluster = new Cluster({ ...delegate(store), commit });
  const [, changed] = [await cluster.start("a"), await cluster.start("a")];
  await cluster.clock.tick(PERIOD_MS);
  isFull = true;
  await changed.join("b");
  await assertRejects(() => changed.fencingChecks(), StoreUnavailableError);
  isFull = false;
  assertEquals((await changed.fencingChecks())?.length, 1);
});

Deno.test("leave() cancels the timer, uses the store no more and keeps the active configuration", async () => {
  const store = countedStore(memoryStore());
  const cluster = new Cluster(store);
  const rollout = await cluster.start("a");
  await Promise.all([rollout.leave(), rollout.leave()]);
  store.reset();
  await rollout.join("b");
  assertEquals([await rollout.refresh(), rollout.active], [true, "a"]);
  await cluster.clock.tick(60_000);
  assertEquals([cluster.clock.waiting, store.counts], [0, {
    get: 0,
    getMany: 0,
    list: 0,
    commit: 0,
  }]);
});

Deno.test("leave() completes while the store is unavailable", async () => {
  const { status, store } = switchableStore();
  const cluster = new Cluster(store);
  const rollout = await cluster.start("a");
  status.isUp = false;
  await rollout.leave();
  assertEquals(cluster.clock.waiting, 0);
});

Deno.test("refresh() detects immediately what others detect within a period", async () => {
  const cluster = new Cluster();
  const old = await cluster.start("a");
  assertEquals(await old.refresh(), true);
  await cluster.start("b");
  assertEquals([await old.refresh(), old.active], [false, "b"]);
});

Deno.test("refresh() does not shorten the time until a member is dead", async () => {
  const cluster = new Cluster();
  const [old, newer] = [await cluster.start("a"), await cluster.start("b")];
  cluster.kill(newer);
  for (let times = 0; times < 20; times++) await old.refresh();
  await cluster.clock.tick(DEAD_MS - PERIOD_MS - 1);
  assertEquals(old.active, "b");
});

Deno.test("entries of members that died or left are deleted after fifteen periods", async () => {
  const cluster = new Cluster();
  cluster.kill(await cluster.start("a"));
  await (await cluster.start("b")).leave();
  await cluster.start("c");
  assertEquals((await cluster.members()).length, 3);
  await cluster.clock.tick(25 * PERIOD_MS);
  assertEquals(await cluster.members(), [{ hash: "c", rank: 3 }]);
});

Deno.test("eight of many processes are representatives, and the others only list the members", async () => {
  const store = countedStore(memoryStore());
  const cluster = new Cluster(store);
  const rollouts: Rollout[] = [];
  for (let index = 0; index < 12; index++) {
    rollouts.push(await cluster.start("a", { processId: `${100 + index}` }));
  }
  await cluster.clock.tick(2 * PERIOD_MS);
  store.reset();
  await cluster.clock.tick(5 * PERIOD_MS);
  assertEquals(store.counts, {
    get: 0,
    getMany: 0,
    list: 5 * 12,
    commit: 5 * 8,
  });
  assertEquals((await cluster.members()).length, 8);
});

Deno.test("other processes become representatives before a configuration whose representatives died is considered dead", async () => {
  const cluster = new Cluster();
  const old = await cluster.start("a");
  const changes: string[] = [];
  const rollouts: Rollout[] = [];
  for (let index = 0; index < 12; index++) {
    rollouts.push(await cluster.start("b", { processId: `${100 + index}` }));
  }
  const observer = await cluster.start("a", {}, (hash) => changes.push(hash));
  await cluster.clock.tick(2 * PERIOD_MS);
  for (const representative of rollouts.slice(0, 8)) {
    cluster.kill(representative);
  }
  await cluster.clock.tick(8 * PERIOD_MS);
  assertEquals([old.active, observer.active, changes], ["b", "b", ["b"]]);
});

Deno.test("a configuration with two ranks converges to the lower one", async () => {
  const cluster = new Cluster();
  const newer = await cluster.start("b", { processId: "1" });
  const old = await cluster.start("a", { processId: "2" });
  const value = { hash: "a", rank: 0, heartbeatAt: cluster.clock.now() }; // of a process that was away for a long time
  await cluster.store.commit([], [{ key: ["member", "3"], value }]);
  await cluster.clock.tick(2 * PERIOD_MS);
  assertEquals([old.active, newer.active], ["b", "b"]);
  assertEquals((await cluster.members()).map(({ rank }) => rank), [1, 0, 0]);
});

Deno.test("join() does not take the rank of a member that is deleted before the commit", async () => {
  const store = memoryStore();
  const cluster = new Cluster(store);
  cluster.kill(await cluster.start("a", { processId: "rankSource" }));
  cluster.kill(await cluster.start("b", { processId: "other" }));
  let isFirst = true;
  const commit: Store["commit"] = async (checks, writes) => {
    if (isFirst) await store.commit([], [{ key: ["member", "rankSource"] }]);
    isFirst = false;
    return await store.commit(checks, writes);
  };
  const late = { ...switchableStore(store).store, commit };
  const joining = cluster.start("a", { store: late, processId: "joins" });
  await runRetries(cluster.clock);
  await joining;
  assertEquals(await cluster.members(), [{ hash: "a", rank: 3 }, {
    hash: "b",
    rank: 2,
  }]);
});

Deno.test("a late heartbeat does not overwrite a newer one", async () => {
  const store = memoryStore();
  const held: (() => Promise<unknown>)[] = [];
  let isSlow = false;
  const commit: Store["commit"] = (checks, writes) => {
    if (!isSlow) return store.commit(checks, writes);
    held.push(() => store.commit(checks, writes));
    return Promise.reject(
      new StoreUnavailableError(
        "Cannot use the store: no answer within 5000 ms",
      ),
    );
  };
  const cluster = new Cluster({ ...switchableStore(store).store, commit });
  const rollout = await cluster.start("a");
  isSlow = true;
  await cluster.clock.tick(PERIOD_MS);
  isSlow = false;
  await rollout.join("b");
  assertEquals(await Promise.all(held.map((arrive) => arrive())), [undefined]);
  assertEquals(await cluster.members(), [{ hash: "b", rank: 2 }]);
});

Deno.test("Rollout works on Deno KV", async () => {
  const store = kvStore(await Deno.openKv(":memory:"));
  try {
    const cluster = new Cluster(store);
    const old = await cluster.start("a", { processId: "1" });
    const newer = await cluster.start("b", {
      processId: "2",
      instanceId: "host:8080",
    });
    assertEquals([await old.refresh(), old.active, newer.isActive], [
      false,
      "b",
      true,
    ]);
    await newer.leave();
    assertEquals([await old.refresh(), old.active], [true, "a"]);
    await old.leave();
    assertEquals(await cluster.members(), [{ hash: "a", rank: 1 }, {
      hash: "b",
      rank: 2,
    }]);
    await settle();
  } finally {
    store.close();
  }
});

Deno.test("leave() does not use the store if the process never joined", async () => {
  const store = countedStore(memoryStore());
  const cluster = new Cluster(store);
  await cluster.make().leave();
  assertEquals(store.counts, { get: 0, getMany: 0, list: 0, commit: 0 });
});
