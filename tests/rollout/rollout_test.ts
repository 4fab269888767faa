import { assertEquals, assertRejects } from "@std/assert";
import { createRollout, type Rollout, type RolloutOptions } from "../../src/rollout/rollout.ts";
import type { Member } from "../../src/rollout/observation.ts";
import { kvStore } from "../../src/store/kv.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { type Store, StoreUnavailableError } from "../../src/store/store.ts";
import { FakeClock, settle } from "../../tools/fake_clock.ts";
import { countedStore } from "../_store.ts";

const PERIOD_MS = 5_000;
/** From the last sign of life: one period until a look, four more of silence. */
const DEAD_MS = 5 * PERIOD_MS;

/** Processes on one store. */
class Cluster {
  readonly clock = new FakeClock();
  readonly store: Store;
  readonly #running = new Map<Rollout, { isAlive: boolean }>();

  constructor(store: Store = memoryStore()) {
    this.store = store;
  }

  async start(hash: string, options: Partial<RolloutOptions> = {}): Promise<Rollout> {
    const rollout = this.make(options);
    await rollout.join(hash);
    return rollout;
  }

  make(options: Partial<RolloutOptions> = {}): Rollout {
    const state = { isAlive: true };
    const clock: RolloutOptions["clock"] = {
      now: () => this.clock.now(),
      after: (ms, callback) => this.clock.after(ms, () => state.isAlive && callback()),
    };
    const rollout = createRollout({ store: this.store, clock, random: () => 0, ...options });
    this.#running.set(rollout, state);
    return rollout;
  }

  /** Ends a process without a goodbye. */
  kill(rollout: Rollout): void {
    const state = this.#running.get(rollout);
    if (state) state.isAlive = false;
  }

  async members(): Promise<Pick<Member, "hash" | "rank">[]> {
    const entries = await this.store.list<Member>(["member"]);
    return entries.map(({ value: { hash, rank } }) => ({ hash, rank }));
  }
}

/** A store that can be switched off. */
function switchedStore(store: Store = memoryStore()) {
  const power = { isOn: true };
  const run = <T>(work: () => Promise<T>) =>
    power.isOn ? work() : Promise.reject(new StoreUnavailableError("Cannot use the store: it is switched off"));
  const switched: Store = {
    ...store,
    get: (key) => run(() => store.get(key)),
    list: (prefix, options) => run(() => store.list(prefix, options)),
    commit: (checks, writes) => run(() => store.commit(checks, writes)),
  };
  return { power, store: switched };
}

/** Lets those try again who have met with others. */
async function retries(clock: FakeClock): Promise<void> {
  await settle();
  await clock.tick(1_000);
}

Deno.test("join() puts a process that is alone into force at once, whatever it had before it was killed", async () => {
  const cluster = new Cluster();
  for (const hash of ["a", "a", "b", "b"]) {
    const rollout = await cluster.start(hash);
    assertEquals([rollout.active, rollout.isActive], [hash, true]);
    cluster.kill(rollout);
  }
});

Deno.test("join() gives a new configuration the next rank, and one that lives the rank it has", async () => {
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

Deno.test("join() gives one rank to a configuration with which many start at once, and each its own to different ones", async () => {
  const cluster = new Cluster();
  const joining = ["a", "b", "a", "b", "a"].map((hash, index) => cluster.start(hash, { processId: `${index}` }));
  await retries(cluster.clock);
  await Promise.all(joining);
  const ranks = new Map((await cluster.members()).map(({ hash, rank }) => [hash, rank]));
  assertEquals((await cluster.members()).map(({ hash, rank }) => rank === ranks.get(hash)), Array(5).fill(true));
  assertEquals([...ranks.values()].sort(), [1, 2]);
});

Deno.test("join() takes the newest configuration for being in force, and the others follow within a period", async () => {
  const cluster = new Cluster();
  const old = await cluster.start("a");
  const changes: string[] = [];
  const fresh = await cluster.start("b", { onChange: (hash) => changes.push(hash) });
  assertEquals([fresh.active, fresh.isActive, old.active, old.isActive], ["b", true, "a", true]);
  await cluster.clock.tick(PERIOD_MS);
  assertEquals([old.active, old.isActive], ["b", false]);
  assertEquals(changes, ["b"]);
});

for (const ending of ["kill", "leave"] as const) {
  Deno.test(`join() does not bring an old configuration back when its last replica restarts after ${ending}()`, async () => {
    const cluster = new Cluster();
    const old = await cluster.start("a");
    const fresh = await cluster.start("b");
    await (ending === "kill" ? cluster.kill(old) : old.leave());
    await cluster.clock.tick(40_000);
    const again = await cluster.start("a");
    assertEquals([again.active, fresh.active], ["b", "b"]);
    await cluster.clock.tick(60_000);
    assertEquals([again.active, fresh.active], ["b", "b"]);
  });

  Deno.test(`join() begins a rollout with an old configuration that has been gone for long after ${ending}()`, async () => {
    const cluster = new Cluster();
    const old = await cluster.start("a");
    const fresh = await cluster.start("b");
    await (ending === "kill" ? cluster.kill(old) : old.leave());
    await cluster.clock.tick(120_000);
    const again = await cluster.start("a");
    await cluster.clock.tick(PERIOD_MS);
    assertEquals([again.active, fresh.active], ["a", "a"]);
  });
}

Deno.test("join() with another configuration is a rollout of a living process", async () => {
  const cluster = new Cluster();
  const [first, second] = [await cluster.start("a"), await cluster.start("a")];
  await first.join("b");
  assertEquals(first.active, "b");
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(second.active, "b");
  await second.join("b");
  assertEquals([first.isActive, second.isActive], [true, true]);
});

Deno.test("join() knows by its instanceId that its predecessors are dead, and waits for nobody", async () => {
  const cluster = new Cluster();
  for (const hash of ["a", "b", "a", "c", "b"]) {
    const rollout = await cluster.start(hash, { instanceId: "host:8080" });
    assertEquals(rollout.active, hash);
    cluster.kill(rollout);
  }
});

Deno.test("join() without a instanceId waits for a newer configuration that may live, until it is seen to be dead", async () => {
  const cluster = new Cluster();
  for (const hash of ["a", "b"]) cluster.kill(await cluster.start(hash));
  const rollout = await cluster.start("a");
  await cluster.clock.tick(DEAD_MS - PERIOD_MS - 1);
  assertEquals(rollout.active, "b");
  await cluster.clock.tick(PERIOD_MS + 1);
  assertEquals(rollout.active, "a");
});

Deno.test("join() does not wait for what has not been renewed for ten minutes", async () => {
  const cluster = new Cluster();
  for (const hash of ["a", "b"]) cluster.kill(await cluster.start(hash));
  await cluster.clock.tick(600_001);
  assertEquals((await cluster.start("a")).active, "a");
});

Deno.test("a process whose instanceId was taken over by mistake is back after a period", async () => {
  const cluster = new Cluster();
  const first = await cluster.start("b", { instanceId: "x", processId: "1" });
  const second = await cluster.start("a", { instanceId: "x", processId: "2" });
  await cluster.clock.tick(2 * PERIOD_MS);
  assertEquals([first.active, second.active], ["a", "a"]);
  assertEquals(await cluster.members(), [{ hash: "b", rank: 1 }, { hash: "a", rank: 2 }]);
  await second.leave();
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(first.active, "b");
});

Deno.test("join() takes itself for in force while the store does not answer, and follows the others when it does", async () => {
  const { power, store } = switchedStore();
  const cluster = new Cluster(store);
  const fresh = await cluster.start("b");
  power.isOn = false;
  const late = await cluster.start("a", { processId: "late" });
  assertEquals([late.active, late.isActive], ["a", true]);
  await late.join("c");
  assertEquals([late.active, late.isActive], ["c", true]);
  await late.join("b");
  await cluster.clock.tick(60_000);
  assertEquals([late.active, fresh.active], ["b", "b"]);
  power.isOn = true;
  await cluster.clock.tick(PERIOD_MS);
  assertEquals((await cluster.members()).map(({ rank }) => rank), [1, 1]);
});

Deno.test("join() stays with what others have in force while the store does not answer", async () => {
  const { power, store } = switchedStore();
  const cluster = new Cluster(store);
  const [first, second] = [await cluster.start("a"), await cluster.start("a")];
  await cluster.clock.tick(PERIOD_MS);
  power.isOn = false;
  await first.join("b");
  assertEquals([first.active, first.isActive, second.active], ["a", false, "a"]);
  power.isOn = true;
  await cluster.clock.tick(2 * PERIOD_MS);
  assertEquals([first.active, first.isActive, second.active], ["b", true, "b"]);
});

Deno.test("join() throws what is not the store's failure", async () => {
  const store = {
    ...memoryStore(),
    list: () => Promise.reject(new TypeError("a bug")),
    get: () => Promise.resolve(undefined),
  };
  const rollout = new Cluster(store).make();
  await assertRejects(() => rollout.join("a"), TypeError, "a bug");
  await rollout.leave();
});

Deno.test("nobody is dead for being silent while nobody can write", async () => {
  const store = memoryStore();
  let isFull = false;
  const commit: Store["commit"] = (checks, writes) =>
    isFull ? Promise.reject(new StoreUnavailableError("disk full")) : store.commit(checks, writes);
  const { get, list } = { get: store.get.bind(store), list: store.list.bind(store) };
  const cluster = new Cluster({ ...switchedStore(store).store, get, list, commit });
  const [old, fresh] = [await cluster.start("a"), await cluster.start("b")];
  await cluster.clock.tick(PERIOD_MS);
  isFull = true;
  await cluster.clock.tick(60_000);
  assertEquals([old.active, fresh.active], ["b", "b"]);
  await store.commit([], [{ key: ["member", "x"], value: { hash: "c", rank: 9, heartbeatAt: cluster.clock.now() } }]);
  await old.refresh();
  assertEquals(old.active, "b"); // what it cannot answer, it has not seen
  isFull = false;
  await old.refresh();
  assertEquals(old.active, "c");
  await cluster.clock.tick(DEAD_MS);
  assertEquals([old.active, fresh.active], ["b", "b"]);
});

Deno.test("leave() hands over within a period, and dying within five", async () => {
  for (const [ending, ms] of [["leave", PERIOD_MS], ["kill", DEAD_MS]] as const) {
    const cluster = new Cluster();
    const [old, fresh] = [await cluster.start("a"), await cluster.start("b")];
    await cluster.clock.tick(PERIOD_MS);
    await (ending === "kill" ? cluster.kill(fresh) : fresh.leave());
    await cluster.clock.tick(ms - 1);
    assertEquals(old.active, "b", ending);
    await cluster.clock.tick(1);
    assertEquals(old.active, "a", ending);
  }
});

Deno.test("leave() leaves no timer, asks the store nothing more and keeps the last opinion", async () => {
  const store = countedStore(memoryStore());
  const cluster = new Cluster(store);
  const rollout = await cluster.start("a");
  await Promise.all([rollout.leave(), rollout.leave()]);
  store.reset();
  await rollout.join("b");
  assertEquals([await rollout.refresh(), rollout.active], [true, "a"]);
  await cluster.clock.tick(60_000);
  assertEquals([cluster.clock.waiting, store.counts], [0, { get: 0, list: 0, commit: 0 }]);
});

Deno.test("leave() ends although the store does not answer", async () => {
  const { power, store } = switchedStore();
  const cluster = new Cluster(store);
  const rollout = await cluster.start("a");
  power.isOn = false;
  await rollout.leave();
  assertEquals(cluster.clock.waiting, 0);
});

Deno.test("refresh() sees at once what others would see within a period", async () => {
  const cluster = new Cluster();
  const old = await cluster.start("a");
  assertEquals(await old.refresh(), true);
  await cluster.start("b");
  assertEquals([await old.refresh(), old.active], [false, "b"]);
});

Deno.test("refresh() lets nobody die sooner, however often it looks", async () => {
  const cluster = new Cluster();
  const [old, fresh] = [await cluster.start("a"), await cluster.start("b")];
  cluster.kill(fresh);
  for (let times = 0; times < 20; times++) await old.refresh();
  await cluster.clock.tick(DEAD_MS - PERIOD_MS - 1);
  assertEquals(old.active, "b");
});

Deno.test("what is left of the dead and the departed goes after fifteen periods", async () => {
  const cluster = new Cluster();
  cluster.kill(await cluster.start("a"));
  await (await cluster.start("b")).leave();
  await cluster.start("c");
  assertEquals((await cluster.members()).length, 3);
  await cluster.clock.tick(25 * PERIOD_MS);
  assertEquals(await cluster.members(), [{ hash: "c", rank: 3 }]);
});

Deno.test("of many processes eight speak for all, and one look a period is all that the others ask for", async () => {
  const store = countedStore(memoryStore());
  const cluster = new Cluster(store);
  const rollouts: Rollout[] = [];
  for (let index = 0; index < 12; index++) rollouts.push(await cluster.start("a", { processId: `${100 + index}` }));
  await cluster.clock.tick(2 * PERIOD_MS);
  store.reset();
  await cluster.clock.tick(5 * PERIOD_MS);
  assertEquals(store.counts, { get: 0, list: 5 * 12, commit: 5 * 8 });
  assertEquals((await cluster.members()).length, 8);
});

Deno.test("others speak when all speakers have died, before their configuration is taken for dead", async () => {
  const cluster = new Cluster();
  const old = await cluster.start("a");
  const changes: string[] = [];
  const rollouts: Rollout[] = [];
  for (let index = 0; index < 12; index++) rollouts.push(await cluster.start("b", { processId: `${100 + index}` }));
  const observer = await cluster.start("a", { onChange: (hash) => changes.push(hash) });
  await cluster.clock.tick(2 * PERIOD_MS);
  for (const speaker of rollouts.slice(0, 8)) cluster.kill(speaker);
  await cluster.clock.tick(8 * PERIOD_MS);
  assertEquals([old.active, observer.active, changes], ["b", "b", ["b"]]);
});

Deno.test("a configuration that was given two ranks finds back to the lower one", async () => {
  const cluster = new Cluster();
  const fresh = await cluster.start("b", { processId: "1" });
  const old = await cluster.start("a", { processId: "2" });
  const value = { hash: "a", rank: 0, heartbeatAt: cluster.clock.now() }; // it was away for long
  await cluster.store.commit([], [{ key: ["member", "3"], value }]);
  await cluster.clock.tick(2 * PERIOD_MS);
  assertEquals([old.active, fresh.active], ["b", "b"]);
  assertEquals((await cluster.members()).map(({ rank }) => rank), [1, 0, 0]);
});

Deno.test("join() takes nobody's rank who is gone before it is written down", async () => {
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
  const late = { ...switchedStore(store).store, commit };
  const joining = cluster.start("a", { store: late, processId: "joins" });
  await retries(cluster.clock);
  await joining;
  assertEquals(await cluster.members(), [{ hash: "a", rank: 3 }, { hash: "b", rank: 2 }]);
});

Deno.test("a renewal that arrives late does not undo what was said since", async () => {
  const store = memoryStore();
  const held: (() => Promise<unknown>)[] = [];
  let isSlow = false;
  const commit: Store["commit"] = (checks, writes) => {
    if (!isSlow) return store.commit(checks, writes);
    held.push(() => store.commit(checks, writes));
    return Promise.reject(new StoreUnavailableError("Cannot use the store: no answer within 5000 ms"));
  };
  const cluster = new Cluster({ ...switchedStore(store).store, commit });
  const rollout = await cluster.start("a");
  isSlow = true;
  await cluster.clock.tick(PERIOD_MS);
  isSlow = false;
  await rollout.join("b");
  assertEquals(await Promise.all(held.map((arrive) => arrive())), [undefined]);
  assertEquals(await cluster.members(), [{ hash: "b", rank: 2 }]);
});

Deno.test("createRollout() works on Deno KV", async () => {
  const store = kvStore(await Deno.openKv(":memory:"));
  try {
    const cluster = new Cluster(store);
    const old = await cluster.start("a", { processId: "1" });
    const fresh = await cluster.start("b", { processId: "2", instanceId: "host:8080" });
    assertEquals([await old.refresh(), old.active, fresh.isActive], [false, "b", true]);
    await fresh.leave();
    assertEquals([await old.refresh(), old.active], [true, "a"]);
    await old.leave();
    assertEquals(await cluster.members(), [{ hash: "a", rank: 1 }, { hash: "b", rank: 2 }]);
    await settle();
  } finally {
    store.close();
  }
});
