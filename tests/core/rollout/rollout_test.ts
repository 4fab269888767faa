import { assertEquals, assertRejects } from "@std/assert";
import type { Rollout } from "../../../src/core/rollout/rollout.ts";
import type { Member } from "../../../src/core/rollout/observation.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import {
  type Store,
  StoreUnavailableError,
} from "../../../src/core/store/store.ts";
import { delegate } from "../../_store.ts";
import {
  announce,
  Cluster,
  DEAD_MS,
  PERIOD_MS,
  runRetries,
  switchableStore,
} from "./_cluster.ts";
import { announcementOf } from "./_process.ts";

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
  await rollout.leave();
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

/** What may come before the attempt that succeeds. */
const EARLIER_ATTEMPTS: Readonly<Record<string, Store["commit"]>> = {
  conflict: () => Promise.resolve(undefined),
  outage: () => Promise.reject(new StoreUnavailableError("off")),
};

/** Returns the ranks of all entries, by the values that were announced, and the highest rank. */
async function ranksIn({ store }: Cluster) {
  const ranks: Record<string, number> = {};
  for (const { value } of await store.list<Member>(["member"])) {
    ranks[value.hash.replace(/@.*/, "")] = value.rank;
  }
  const highest = await store.get<number>(["rollout"]);
  return [ranks, highest?.value];
}

for (const [name, fail] of Object.entries(EARLIER_ATTEMPTS)) {
  for (const by of ["claimCommit()", "a scheduled heartbeat"]) {
    Deno.test(`${by} announces sources that were read before a newer rollout below it, also after a failed attempt: ${name}`, async () => {
      const { cluster, commits } = interruptibleCluster();
      const slow = await cluster.start("a");
      const own = announcementOf("b", await slow.readHighestRank());
      commits.fail = fail;
      await slow.claimCommit(own).catch(() => {});
      commits.fail = undefined;
      await cluster.start("c");
      if (by === "claimCommit()") {
        assertEquals(await slow.claimCommit(own), "superseded");
      }
      for (let period = 0; period < 3; period++) {
        await cluster.clock.tick(PERIOD_MS);
        assertEquals(await ranksIn(cluster), [{ b: 1.5, c: 2 }, 2]);
        assertEquals([slow.active, slow.isActive], ["c", false]);
      }
      const again = announcementOf("b", await slow.readHighestRank());
      assertEquals((await slow.claimCommit(again))?.length, 1);
      assertEquals(await ranksIn(cluster), [{ b: 3, c: 2 }, 3]);
    });
  }
}

/** A replica that lost a race: it read b, and before it announced that, another one began a rollout with c. */
async function loseRace() {
  const cluster = new Cluster();
  const start = (processId: string) => cluster.start("a", { processId });
  const winner = await start("1");
  const losers = [await start("2"), await start("3"), await start("4")];
  const rankAtRead = await winner.readHighestRank();
  await announce(winner, "c");
  for (const loser of losers) await announce(loser, "b", rankAtRead);
  await cluster.clock.tick(PERIOD_MS);
  const hashes = [winner, ...losers].map(({ active }) => active);
  assertEquals(hashes, ["c", "c", "c", "c"]);
  assertEquals(await ranksIn(cluster), [{ b: 1.5, c: 2 }, 2]);
  return { cluster, winner, losers };
}

/** How a replica may come to read the same values again, later than the newest rollout. */
const LATER_READINGS: Readonly<
  Record<string, (cluster: Cluster, losers: Rollout[]) => Promise<Rollout>>
> = {
  "reads them again": async (_cluster, losers) => {
    const rank = await losers[1]!.readHighestRank();
    await announce(losers[1]!, "b", rank);
    return losers[1]!;
  },
  "restarts after a kill": async (cluster, losers) => {
    cluster.kill(losers[1]!);
    const rankAtRead = await losers[1]!.readHighestRank();
    return await cluster.start("b", {}, () => {}, rankAtRead);
  },
  "restarts after it has left, alone": async (cluster, losers) => {
    for (const loser of losers) await loser.leave();
    return await cluster.start("b");
  },
  "is a further one": async (cluster) => await cluster.start("b"),
};

for (const [what, read] of Object.entries(LATER_READINGS)) {
  Deno.test(`of three replicas that lost a race, one that ${what} begins a rollout, and the others follow`, async () => {
    const { cluster, winner, losers } = await loseRace();
    const later = await read(cluster, losers);
    assertEquals([later.active, later.isActive], ["b", true]);
    assertEquals(later.rollback, undefined);
    await cluster.clock.tick(PERIOD_MS);
    assertEquals([winner.active, winner.isActive], ["b", false]);
    await cluster.clock.tick(25 * PERIOD_MS);
    assertEquals(await ranksIn(cluster), [{ b: 3, c: 2 }, 3]);
    for (const loser of what.endsWith("alone") ? [] : [losers[0], losers[2]]) {
      assertEquals([loser?.active, loser?.isActive], ["b", true]);
    }
  });
}

Deno.test("sources that were read before a rollout are active once its processes have left, which nobody calls a rollback", async () => {
  const { cluster, winner, losers } = await loseRace();
  await winner.leave();
  await cluster.clock.tick(PERIOD_MS);
  for (const { active = "", isActive, rollback } of losers) {
    assertEquals([active.slice(0, 1), isActive, rollback], [
      "b",
      true,
      undefined,
    ]);
  }
  const returned = await cluster.start("c", {}, () => {}, 2);
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(returned.active, "c");
  for (const { active, rollback } of losers) {
    assertEquals([active, rollback], ["c", undefined]);
  }
});

for (const isReload of [false, true]) {
  const begin = isReload ? "reloaded" : "started";
  Deno.test(`the rollback of a process that lost a race, and ${begin} with what it reads again, says so`, async () => {
    const cluster = new Cluster();
    await (await cluster.start("a")).leave();
    await cluster.start("b");
    await cluster.clock.tick(25 * PERIOD_MS); // until the entry of a is deleted
    const rankAtRead = 1;
    const late = isReload
      ? await cluster.start("0")
      : await cluster.start("a", {}, () => {}, rankAtRead);
    if (isReload) await announce(late, "a", rankAtRead);
    assertEquals(late.isActive, false);
    await announce(late, "a", await late.readHighestRank());
    assertEquals([late.isActive, late.rollback?.isReload], [true, isReload]);
  });
}

Deno.test("a gateway of ebbde15d beside replicas that lost a race agrees with them, whoever reads the same values first", async () => {
  for (const isOlderFirst of [false, true]) {
    const { cluster, losers } = await loseRace();
    /** As `elect()` and `tryHeartbeat()` of ebbde15d: the lowest rank of a configuration counts. */
    const older = async () => {
      const members = await cluster.members();
      const peers = members.filter(({ hash }) => hash === "b");
      const highest = await cluster.store.get<number>(["rollout"]);
      const rank = peers.length > 0
        ? Math.min(...peers.map(({ rank }) => rank))
        : highest!.value + 1;
      const heartbeatAt = cluster.clock.now();
      await cluster.store.commit([], [
        { key: ["member", "0-older"], value: { hash: "b", rank, heartbeatAt } },
        { key: ["rollout"], value: Math.max(rank, highest!.value) },
      ]);
      return rank;
    };
    if (isOlderFirst) assertEquals(await older(), 3);
    await LATER_READINGS["reads them again"]!(cluster, losers);
    assertEquals(await older(), 3);
    await cluster.clock.tick(PERIOD_MS);
    assertEquals(await ranksIn(cluster), [{ b: 3, c: 2 }, 3]);
    for (const loser of losers) assertEquals(loser.isActive, true);
  }
});

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
