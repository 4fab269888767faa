import { assertEquals } from "@std/assert";
import { elect, type ElectionInput } from "../../src/rollout/election.ts";
import type { Observation } from "../../src/rollout/observation.ts";

interface Person extends Partial<Omit<Observation, "member">> {
  hash: string;
  rank: number;
  instanceId?: string;
  hasLeft?: boolean;
}

function seen(id: string, { hash, rank, instanceId, hasLeft, ...observation }: Person): Observation {
  const member = { hash, rank, heartbeatAt: 0, ...instanceId ? { instanceId } : {}, ...hasLeft ? { hasLeft } : {} };
  return { id, member, version: `version of ${id}`, unchanged: 0, isStale: false, ...observation };
}

function decided(observations: readonly Observation[], own: Partial<ElectionInput> = {}) {
  const decision = elect({
    id: "5",
    hash: "a",
    rank: undefined,
    instanceId: undefined,
    highest: 0,
    ...own,
    observations,
  });
  const { rankSource, dead, removed, ...rest } = decision;
  const ids = (of: readonly Observation[]) => of.map(({ id }) => id).join();
  return { ...rest, rankSource: rankSource?.id, dead: ids(dead), removed: ids(removed) };
}

const FIRST = {
  rank: 1,
  isNew: true,
  rankSource: undefined,
  isRepresentative: true,
  active: "a",
  dead: "",
  removed: "",
};

Deno.test("elect() puts the first process into force with the first rank", () => {
  assertEquals(decided([]), FIRST);
});

Deno.test("elect() gives a new configuration a rank above all that were ever given, those of the dead included", () => {
  assertEquals(decided([], { highest: 7 }), { ...FIRST, rank: 8 });
  assertEquals(decided([seen("1", { hash: "b", rank: 9, hasLeft: true })], { highest: 7 }), { ...FIRST, rank: 10 });
});

Deno.test("elect() takes the rank of the living of its kind, and else that of the dead", () => {
  const dead = seen("1", { hash: "a", rank: 2, unchanged: 9 });
  const living = seen("2", { hash: "a", rank: 3 });
  const both = decided([dead, living], { id: "0" });
  assertEquals([both.rank, both.isNew, both.rankSource], [3, false, "2"]);
  const two = decided([seen("1", { hash: "a", rank: 6 }), living], { id: "0" });
  assertEquals([two.rank, two.isNew, two.rankSource], [3, false, "2"]);
  const one = decided([dead], { id: "0" });
  assertEquals([one.rank, one.isNew, one.rankSource], [2, false, "1"]);
});

Deno.test("elect() keeps a rank that was told, unless one of its kind has a lower one", () => {
  const ranks = [
    seen("1", { hash: "a", rank: 1 }),
    seen("1", { hash: "a", rank: 9 }),
    seen("1", { hash: "b", rank: 1 }),
  ]
    .map((other) => decided([other], { rank: 4 }))
    .map(({ rank, rankSource }) => [rank, rankSource]);
  assertEquals(ranks, [[1, undefined], [4, undefined], [4, undefined]]);
});

Deno.test("elect() puts the configuration with the highest rank into force that lives", () => {
  const active = (...people: Person[]) => decided(people.map((it, id) => seen(`${id}`, it)), { rank: 2 }).active;
  assertEquals(active({ hash: "b", rank: 3 }, { hash: "c", rank: 1 }), "b");
  assertEquals(active({ hash: "b", rank: 1 }), "a");
  assertEquals(active({ hash: "b", rank: 3, hasLeft: true }), "a");
  assertEquals(active({ hash: "b", rank: 3, unchanged: 4 }), "a");
  assertEquals(active({ hash: "b", rank: 3, isStale: true }), "a");
  assertEquals(active({ hash: "b", rank: 9 }, { hash: "b", rank: 1 }), "a");
  assertEquals([active({ hash: "A", rank: 2 }), active({ hash: "b", rank: 2 })], ["a", "b"]);
});

Deno.test("elect() does not wait for a predecessor in its instanceId, but for one in another", () => {
  const other = (
    instanceId: string,
  ) => [seen("1", { hash: "b", rank: 2, instanceId }), seen("2", { hash: "a", rank: 1 })];
  const here = decided(other("here"), { instanceId: "here" });
  assertEquals([here.active, here.dead], ["a", "1"]);
  const there = decided(other("there"), { instanceId: "here" });
  assertEquals([there.active, there.dead], ["b", ""]);
});

Deno.test("elect() lets a process speak unless enough punctual ones of its kind stand before it", () => {
  const others = (people: Person[]) => people.map((it, index) => seen(`${index}`, it));
  const isRepresentative = (people: Person[], id = "5") =>
    elect({
      ...{ id, hash: "a", rank: 1, instanceId: undefined, highest: 1 },
      observations: others(people),
    }, 2).isRepresentative;
  const [one, late, stranger] = [
    { hash: "a", rank: 1 },
    { hash: "a", rank: 1, unchanged: 2 },
    { hash: "b", rank: 2 },
  ];
  assertEquals(isRepresentative([one, one]), false);
  assertEquals(isRepresentative([one, late]), true);
  assertEquals(isRepresentative([one, stranger]), true);
  assertEquals(isRepresentative([one, one], "0-"), true);
});

Deno.test("elect() lets the first of the living tidy up for all, with ten checks in a commit at the most", () => {
  const silent = (index: number) => seen(`8${index}`, { hash: "b", rank: 1, unchanged: 4 });
  const gone = (index: number) => seen(`9${index}`, { hash: "b", rank: 1, unchanged: 15, hasLeft: true });
  const few = [silent(0), gone(0)];
  const tidied = (observations: Observation[]) => {
    const { dead, removed } = decided(observations, { rank: 2 });
    return [dead, removed];
  };
  assertEquals(tidied(few), ["80", "90"]);
  assertEquals(tidied([...few, seen("6", { hash: "a", rank: 2 })]), ["80", "90"]);
  assertEquals(tidied([...few, seen("4", { hash: "a", rank: 2 })]), ["", ""]);
  assertEquals(tidied([0, 1, 2, 3, 4].flatMap((index) => [silent(index), gone(index)])), [
    "80,81,82,83,84",
    "90,91,92",
  ]);
});
