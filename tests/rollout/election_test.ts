import { assertEquals } from "@std/assert";
import {
  elect,
  type ElectionInput,
  MAX_REPRESENTATIVES,
} from "../../src/rollout/election.ts";
import type { Observation, Self } from "../../src/rollout/observation.ts";

interface Fields extends Partial<Omit<Observation, "member">> {
  hash: string;
  rank: number;
  instanceId?: string;
  hasLeft?: boolean;
}

function observation(
  id: string,
  { hash, rank, instanceId, hasLeft, ...rest }: Fields,
) {
  const member = {
    hash,
    rank,
    heartbeatAt: 0,
    ...instanceId ? { instanceId } : {},
    ...hasLeft ? { hasLeft } : {},
  };
  return {
    id,
    member,
    version: `version of ${id}`,
    unchangedPeriods: 0,
    isOld: false,
    clockSkewMs: 0,
    ...rest,
  };
}

function electWith(
  observations: readonly Observation[],
  own: Partial<ElectionInput & Self> = {},
) {
  const { id = "5", hash = "a", rank, instanceId, highestRank = 0 } = own;
  const unused = {
    revision: undefined,
    names: undefined,
    keyFingerprint: undefined,
    newestWrite: 0,
  };
  const decision = elect({
    self: { id, hash, instanceId, ...unused },
    rank,
    observations,
    highestRank,
    maxRepresentatives: own.maxRepresentatives ?? MAX_REPRESENTATIVES,
  });
  const { rankSource, dead, removed, ...rest } = decision;
  const ids = (of: readonly Observation[]) => of.map(({ id }) => id).join();
  return {
    ...rest,
    rankSource: rankSource?.id,
    dead: ids(dead),
    removed: ids(removed),
  };
}

const FIRST = {
  rank: 1,
  isNew: true,
  rankSource: undefined,
  isRepresentative: true,
  isFirst: true,
  active: "a",
  dead: "",
  removed: "",
};

Deno.test("elect() assigns a new configuration a rank above all others, including those of dead members", () => {
  assertEquals(electWith([], { highestRank: 7 }), { ...FIRST, rank: 8 });
  assertEquals(
    electWith([observation("1", { hash: "b", rank: 9, hasLeft: true })], {
      highestRank: 7,
    }),
    {
      ...FIRST,
      rank: 10,
    },
  );
});

Deno.test("elect() takes the rank of a living member with the same configuration, or else of a dead one", () => {
  const dead = observation("1", { hash: "a", rank: 2, unchangedPeriods: 9 });
  const living = observation("2", { hash: "a", rank: 3 });
  const livingAndDead = electWith([dead, living], { id: "0" });
  assertEquals([
    livingAndDead.rank,
    livingAndDead.isNew,
    livingAndDead.rankSource,
  ], [3, false, "2"]);
  const twoLiving = electWith([
    observation("1", { hash: "a", rank: 6 }),
    living,
  ], { id: "0" });
  assertEquals([twoLiving.rank, twoLiving.isNew, twoLiving.rankSource], [
    3,
    false,
    "2",
  ]);
  const onlyDead = electWith([dead], { id: "0" });
  assertEquals([onlyDead.rank, onlyDead.isNew, onlyDead.rankSource], [
    2,
    false,
    "1",
  ]);
});

Deno.test("elect() activates the configuration with the highest rank among those with a living process", () => {
  const active = (...members: Fields[]) =>
    electWith(members.map((it, id) => observation(`${id}`, it)), { rank: 2 })
      .active;
  assertEquals(active({ hash: "b", rank: 3 }, { hash: "c", rank: 1 }), "b");
  assertEquals(active({ hash: "b", rank: 1 }), "a");
  assertEquals(active({ hash: "b", rank: 3, hasLeft: true }), "a");
  assertEquals(active({ hash: "b", rank: 3, unchangedPeriods: 4 }), "a");
  assertEquals(active({ hash: "b", rank: 3, isOld: true }), "a");
  assertEquals(active({ hash: "b", rank: 9 }, { hash: "b", rank: 1 }), "a");
  assertEquals(
    [active({ hash: "A", rank: 2 }), active({ hash: "b", rank: 2 })],
    ["a", "b"],
  );
});

Deno.test("elect() waits for a predecessor with the same instance ID until it is late, for others until they are dead", () => {
  const peer = observation("2", { hash: "a", rank: 1 });
  const onTime = observation("1", {
    hash: "b",
    rank: 2,
    instanceId: "here",
    unchangedPeriods: 1,
  });
  assertEquals(electWith([onTime, peer], { instanceId: "here" }).active, "b");
  const predecessor = observation("1", {
    hash: "b",
    rank: 2,
    instanceId: "here",
    unchangedPeriods: 2,
  });
  const same = electWith([predecessor, peer], { instanceId: "here" });
  assertEquals([same.active, same.dead], ["a", "1"]);
  const other = electWith([predecessor, peer], { instanceId: "there" });
  assertEquals([other.active, other.dead], ["b", ""]);
});

Deno.test("elect() makes a process a representative unless enough peers with lower ids are on time", () => {
  const isRepresentative = (members: Fields[], id = "5") => {
    const observations = members.map((it, index) =>
      observation(`${index}`, it)
    );
    const own = { id, rank: 1, highestRank: 1, maxRepresentatives: 2 };
    return electWith(observations, own).isRepresentative;
  };
  const [peer, latePeer, other] = [
    { hash: "a", rank: 1 },
    { hash: "a", rank: 1, unchangedPeriods: 2 },
    { hash: "b", rank: 2 },
  ];
  assertEquals(isRepresentative([peer, peer]), false);
  assertEquals(isRepresentative([peer, latePeer]), true);
  assertEquals(isRepresentative([peer, other]), true);
  assertEquals(isRepresentative([peer, peer], "0-"), true);
});

Deno.test("elect() lets the first living process clean up for all, with at most ten checks in a commit", () => {
  const timedOut = (index: number) =>
    observation(`8${index}`, { hash: "b", rank: 1, unchangedPeriods: 4 });
  const left = (index: number) =>
    observation(`9${index}`, {
      hash: "b",
      rank: 1,
      unchangedPeriods: 15,
      hasLeft: true,
    });
  const few = [timedOut(0), left(0)];
  const cleanUp = (observations: Observation[]) => {
    const { dead, removed } = electWith(observations, { rank: 2 });
    return [dead, removed];
  };
  assertEquals(cleanUp(few), ["80", "90"]);
  assertEquals(cleanUp([...few, observation("6", { hash: "a", rank: 2 })]), [
    "80",
    "90",
  ]);
  assertEquals(cleanUp([...few, observation("4", { hash: "a", rank: 2 })]), [
    "",
    "",
  ]);
  assertEquals(
    cleanUp([0, 1, 2, 3, 4].flatMap((index) => [timedOut(index), left(index)])),
    [
      "80,81,82,83,84",
      "90,91",
    ],
  );
});
