import { assertEquals, assertRejects } from "@std/assert";
import { silentLog } from "../../../src/core/observe/log.ts";
import { MAX_REPRESENTATIVES } from "../../../src/core/rollout/election.ts";
import {
  Rollout,
  type RolloutOptions,
} from "../../../src/core/rollout/rollout.ts";
import type { Member } from "../../../src/core/rollout/observation.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import {
  type Check,
  type Store,
  StoreUnavailableError,
} from "../../../src/core/store/store.ts";
import { FakeClock, settle } from "../../../tools/fake_clock.ts";
import { delegate, fallibleStore } from "../../_store.ts";
import { announcementOf } from "./_process.ts";

const PERIOD_MS = 5_000;
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
  ) {
    const rollout = this.make(options);
    rollout.onActiveChange = () => onChange(rollout.active ?? "");
    await announce(rollout, hash);
    onChange(rollout.active ?? "");
    return rollout;
  }

  make(options: Partial<RolloutOptions> = {}) {
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
        revision: undefined,
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
  kill(rollout: Rollout) {
    const state = this.#running.get(rollout);
    if (state) state.isAlive = false;
  }

  async members(): Promise<Pick<Member, "hash" | "rank">[]> {
    const entries = await this.store.list<Member>(["member"]);
    return entries.map(({ value: { hash, rank } }) => ({ hash, rank }));
  }
}

/**
 * Announces a configuration until no other process has written in the meantime; a later heartbeat does if the store is
 * unavailable. Returns the fencing checks, if the configuration is active.
 */
async function announce(
  rollout: Rollout,
  hash: string,
): Promise<readonly Check[] | undefined> {
  try {
    while (true) {
      const result = await rollout.claimCommit(announcementOf(hash));
      if (typeof result === "string") return undefined;
      if (result !== undefined) return result;
    }
  } catch (error) {
    if (!(error instanceof StoreUnavailableError)) throw error;
    return undefined;
  }
}

/** A store that can be made unavailable, for every operation or for writes only. */
function switchableStore(...operations: "commit"[]) {
  const status = { isUp: true };
  const error = new StoreUnavailableError("Cannot use the store: off");
  const failure = operations.length === 0 ? { error } : { error, operations };
  const store = fallibleStore(memoryStore(), () => !status.isUp, failure);
  return { status, store };
}

/** Runs all retries of conflicting commits. */
async function runRetries(clock: FakeClock) {
  await settle();
  await clock.tick(1_000);
}

Deno.test("claimCommit() activates the configuration of a single process immediately, whatever it had before it was killed", async () => {
  const cluster = new Cluster();
  for (const hash of ["a", "a", "b", "b"]) {
    const rollout = await cluster.start(hash);
    assertEquals([rollout.active, rollout.isActive], [hash, true]);
    cluster.kill(rollout);
  }
});

Deno.test("claimCommit() assigns one rank per configuration when many processes start together", async () => {
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

Deno.test("claimCommit() activates the newest configuration immediately, and within a period on other processes", async () => {
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
  Deno.test(`claimCommit() does not reactivate an old configuration when its last replica restarts after ${ending}()`, async () => {
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

  Deno.test(`claimCommit() begins a rollout with an old configuration long after ${ending}() of its last replica`, async () => {
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

Deno.test("claimCommit() with another configuration begins a rollout", async () => {
  const cluster = new Cluster();
  const [first, second] = [await cluster.start("a"), await cluster.start("a")];
  await announce(first, "b");
  assertEquals(first.active, "b");
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(second.active, "b");
  await announce(second, "b");
  assertEquals([first.isActive, second.isActive], [true, true]);
});

Deno.test("claimCommit() waits until a newer configuration is found dead", async () => {
  const cluster = new Cluster();
  for (const hash of ["a", "b"]) cluster.kill(await cluster.start(hash));
  const rollout = await cluster.start("a");
  await cluster.clock.tick(DEAD_MS - PERIOD_MS - 1);
  assertEquals(rollout.active, "b");
  await cluster.clock.tick(PERIOD_MS + 1);
  assertEquals(rollout.active, "a");
});

Deno.test("claimCommit() activates nothing while the store is unavailable, and follows the others after that", async () => {
  const { status, store } = switchableStore();
  const cluster = new Cluster(store);
  const newer = await cluster.start("b");
  status.isUp = false;
  const late = await cluster.start("a", { processId: "late" });
  assertEquals([late.active, late.isActive], [undefined, false]);
  await announce(late, "c");
  assertEquals([late.active, late.isActive], [undefined, false]);
  await announce(late, "b");
  await cluster.clock.tick(60_000);
  assertEquals([late.active, newer.active], [undefined, "b"]);
  status.isUp = true;
  await cluster.clock.tick(PERIOD_MS);
  assertEquals([late.active, newer.active], ["b", "b"]);
  assertEquals((await cluster.members()).map(({ rank }) => rank), [1, 1]);
});

Deno.test("claimCommit() keeps the configuration of the others active while the store is unavailable", async () => {
  const { status, store } = switchableStore();
  const cluster = new Cluster(store);
  const [first, second] = [await cluster.start("a"), await cluster.start("a")];
  await cluster.clock.tick(PERIOD_MS);
  status.isUp = false;
  await announce(first, "b");
  assertEquals([first.active, first.isActive, second.active], [
    "a",
    false,
    "a",
  ]);
  status.isUp = true;
  await cluster.clock.tick(2 * PERIOD_MS);
  assertEquals([first.active, first.isActive, second.active], ["b", true, "b"]);
});

Deno.test("claimCommit() rethrows an error other than a store failure", async () => {
  const store = {
    ...memoryStore(),
    list: () => Promise.reject(new TypeError("a bug")),
    get: () => Promise.resolve(undefined),
    getMany: () => Promise.resolve([]),
  };
  const rollout = new Cluster(store).make();
  await assertRejects(() => announce(rollout, "a"), TypeError, "a bug");
  await assertRejects(() => rollout.leave(), TypeError, "a bug");
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

Deno.test("claimCommit() returns checks that fail once another rollout has begun", async () => {
  const cluster = new Cluster();
  const old = cluster.make();
  const checks = await announce(old, "old") ?? [];
  const next = cluster.make();
  const nextChecks = await announce(next, "new") ?? [];
  const writes = [{ key: ["x"], value: 1 }];
  assertEquals(await cluster.store.commit(checks, writes), undefined);
  assertEquals(await announce(old, "old"), undefined);
  const version = await cluster.store.commit(nextChecks, writes);
  assertEquals(typeof version, "string");
});

Deno.test("claimCommit() permits no commit after leave(), so that nothing is published over a later rollout", async () => {
  const cluster = new Cluster();
  const old = cluster.make();
  assertEquals((await announce(old, "a"))?.length, 1);
  await old.leave();
  await cluster.start("b"); // which the old process does not see any more
  assertEquals(await announce(old, "a"), undefined);
});

Deno.test("claimCommit() rejects while a new configuration cannot be announced, so that it does not count as superseded", async () => {
  const { status, store } = switchableStore("commit");
  const cluster = new Cluster(store);
  const [, changed] = [await cluster.start("a"), await cluster.start("a")];
  await cluster.clock.tick(PERIOD_MS);
  status.isUp = false;
  const announcement = announcementOf("b");
  await assertRejects(
    () => changed.claimCommit(announcement),
    StoreUnavailableError,
  );
  status.isUp = true;
  assertEquals((await changed.claimCommit(announcement))?.length, 1);
});

/** Processes on a store in memory, whose commits may fail. */
function interruptibleCluster() {
  const inner = memoryStore();
  const commits: { fail: Store["commit"] | undefined } = { fail: undefined };
  const store: Store = {
    ...delegate(inner),
    commit: (checks, writes) => (commits.fail ?? inner.commit)(checks, writes),
  };
  return { cluster: new Cluster(store), commits };
}

/** What may come before an attempt finds that a newer rollout has begun. */
const EARLIER_ATTEMPTS: Readonly<Record<string, Store["commit"]>> = {
  conflict: () => Promise.resolve(undefined),
  outage: () => Promise.reject(new StoreUnavailableError("off")),
};

for (const [name, fail] of Object.entries(EARLIER_ATTEMPTS)) {
  Deno.test(`claimCommit() begins no rollout of sources that were read before a newer one began, also after a failed attempt: ${name}`, async () => {
    const { cluster, commits } = interruptibleCluster();
    const slow = await cluster.start("a");
    const rankAtRead = slow.highestRank;
    const claim = () => slow.claimCommit(announcementOf("b"), rankAtRead);
    commits.fail = fail;
    await claim().catch(() => {});
    commits.fail = undefined;
    await cluster.start("c");
    const before = await cluster.members();
    assertEquals(await claim(), "outdated");
    assertEquals(await cluster.members(), before);
    for (let period = 0; period < 3; period++) {
      await cluster.clock.tick(PERIOD_MS); // heartbeats announce what was announced before
      assertEquals(await cluster.members(), before);
    }
    const again = announcementOf("b");
    assertEquals((await slow.claimCommit(again, slow.highestRank))?.length, 1);
  });

  Deno.test(`a scheduled heartbeat begins no rollout of sources that were read before a newer one began: ${name}`, async () => {
    const { cluster, commits } = interruptibleCluster();
    const slow = await cluster.start("a");
    commits.fail = fail;
    await slow.claimCommit(announcementOf("b"), slow.highestRank)
      .catch(() => {});
    commits.fail = undefined;
    await cluster.start("c");
    const before = await cluster.members();
    for (let period = 0; period < 3; period++) {
      await cluster.clock.tick(PERIOD_MS);
      assertEquals(await cluster.members(), before);
    }
  });
}

Deno.test("leave() completes while the store is unavailable", async () => {
  const { status, store } = switchableStore();
  const cluster = new Cluster(store);
  const rollout = await cluster.start("a");
  status.isUp = false;
  await rollout.leave();
  assertEquals(cluster.clock.waiting, 0);
});

Deno.test("claimCommit() detects immediately what others detect within a period", async () => {
  const cluster = new Cluster();
  const old = await cluster.start("a");
  await cluster.start("b");
  assertEquals(old.active, "a");
  await announce(old, "a");
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
