import { assertEquals } from "@std/assert";
import {
  elect,
  type ElectionInput,
  MAX_REPRESENTATIVES,
} from "../../../src/core/rollout/election.ts";
import type {
  Observation,
  Self,
} from "../../../src/core/rollout/observation.ts";

interface Fields extends Partial<Omit<Observation, "member">> {
  hash: string;
  rank: number;
  hasLeft?: boolean;
}

function observation(
  id: string,
  { hash, rank, hasLeft, ...rest }: Fields,
) {
  const member = {
    hash,
    rank,
    heartbeatAt: 0,
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
  const { id = "5", hash = "a", rank = 0, rankAtRead = Infinity } = own;
  const unused = {
    instanceId: undefined,
    revision: undefined,
    names: undefined,
    keyFingerprint: undefined,
    newestWrite: 0,
  };
  const decision = elect({
    self: { id, hash, ...unused },
    rank,
    rankAtRead,
    observations,
    highestRank: own.highestRank ?? 0,
    maxRepresentatives: own.maxRepresentatives ?? MAX_REPRESENTATIVES,
  });
  const { rankSource, ended, ...rest } = decision;
  const ids = (of: readonly Observation[]) => of.map(({ id }) => id).join();
  return {
    ...rest,
    rankSource: rankSource?.id,
    ended: ids(ended),
  };
}

Deno.test("elect() takes the rank of a living member with the same configuration, or else of a dead one", () => {
  const dead = observation("1", { hash: "a", rank: 2, unchangedPeriods: 9 });
  const living = observation("2", { hash: "a", rank: 3 });
  const newer = observation("1", { hash: "a", rank: 6 });
  const rankAmong = (...members: Observation[]) => {
    const { rank, isNew, rankSource } = electWith(members, { id: "0" });
    return [rank, isNew, rankSource];
  };
  assertEquals(rankAmong(dead, living), [3, false, "2"]);
  assertEquals(rankAmong(newer, living), [3, false, "2"]);
  assertEquals(rankAmong(dead), [2, false, "1"]);
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
  const ended = [0, 1, 2, 3, 4].flatMap((index) => {
    const member = { hash: "b", rank: 1, unchangedPeriods: 15 };
    return [
      observation(`8${index}`, { ...member, unchangedPeriods: 4 }),
      observation(`9${index}`, { ...member, hasLeft: true }),
    ];
  });
  const few = ended.slice(0, 2);
  const peer = (id: string) => observation(id, { hash: "a", rank: 2 });
  const cleanUp = (observations: Observation[]) =>
    electWith(observations, { rank: 2 }).ended;
  assertEquals(cleanUp(few), "80,90");
  assertEquals(cleanUp([...few, peer("6")]), "80,90");
  assertEquals(cleanUp([...few, peer("4")]), "");
  assertEquals(cleanUp(ended), "80,90,81,91,82,92,83,93");
});
