import { assertEquals } from "@std/assert";
import { decide, type Situation } from "../../src/rollout/rule.ts";
import type { Sighting } from "../../src/rollout/sighting.ts";

interface Person extends Partial<Omit<Sighting, "member">> {
  hash: string;
  rank: number;
  slot?: string;
  hasLeft?: boolean;
}

function seen(id: string, { hash, rank, slot, hasLeft, ...sighting }: Person): Sighting {
  const member = { hash, rank, renewedAt: 0, ...slot ? { slot } : {}, ...hasLeft ? { hasLeft } : {} };
  return { id, member, version: `version of ${id}`, unchanged: 0, isStale: false, ...sighting };
}

function decided(sightings: readonly Sighting[], own: Partial<Situation> = {}) {
  const decision = decide({
    id: "5",
    hash: "a",
    rank: undefined,
    startsIn: undefined,
    highest: 0,
    ...own,
    sightings,
  });
  const { witness, dead, removed, ...rest } = decision;
  const ids = (of: readonly Sighting[]) => of.map(({ id }) => id).join();
  return { ...rest, witness: witness?.id, dead: ids(dead), removed: ids(removed) };
}

const FIRST = { rank: 1, isNew: true, witness: undefined, speaks: true, inForce: "a", dead: "", removed: "" };

Deno.test("decide() puts the first process into force with the first rank", () => {
  assertEquals(decided([]), FIRST);
});

Deno.test("decide() gives a new configuration a rank above all that were ever given, those of the dead included", () => {
  assertEquals(decided([], { highest: 7 }), { ...FIRST, rank: 8 });
  assertEquals(decided([seen("1", { hash: "b", rank: 9, hasLeft: true })], { highest: 7 }), { ...FIRST, rank: 10 });
});

Deno.test("decide() takes the rank of the living of its kind, and else that of the dead", () => {
  const dead = seen("1", { hash: "a", rank: 2, unchanged: 9 });
  const living = seen("2", { hash: "a", rank: 3 });
  const both = decided([dead, living], { id: "0" });
  assertEquals([both.rank, both.isNew, both.witness], [3, false, "2"]);
  const two = decided([seen("1", { hash: "a", rank: 6 }), living], { id: "0" });
  assertEquals([two.rank, two.isNew, two.witness], [3, false, "2"]);
  const one = decided([dead], { id: "0" });
  assertEquals([one.rank, one.isNew, one.witness], [2, false, "1"]);
});

Deno.test("decide() keeps a rank that was told, unless one of its kind has a lower one", () => {
  const ranks = [
    seen("1", { hash: "a", rank: 1 }),
    seen("1", { hash: "a", rank: 9 }),
    seen("1", { hash: "b", rank: 1 }),
  ]
    .map((other) => decided([other], { rank: 4 }))
    .map(({ rank, witness }) => [rank, witness]);
  assertEquals(ranks, [[1, undefined], [4, undefined], [4, undefined]]);
});

Deno.test("decide() puts the configuration with the highest rank into force that lives", () => {
  const inForce = (...people: Person[]) => decided(people.map((it, id) => seen(`${id}`, it)), { rank: 2 }).inForce;
  assertEquals(inForce({ hash: "b", rank: 3 }, { hash: "c", rank: 1 }), "b");
  assertEquals(inForce({ hash: "b", rank: 1 }), "a");
  assertEquals(inForce({ hash: "b", rank: 3, hasLeft: true }), "a");
  assertEquals(inForce({ hash: "b", rank: 3, unchanged: 4 }), "a");
  assertEquals(inForce({ hash: "b", rank: 3, isStale: true }), "a");
  assertEquals(inForce({ hash: "b", rank: 9 }, { hash: "b", rank: 1 }), "a");
  assertEquals([inForce({ hash: "A", rank: 2 }), inForce({ hash: "b", rank: 2 })], ["a", "b"]);
});

Deno.test("decide() does not wait for a predecessor in its slot, but for one in another", () => {
  const other = (slot: string) => [seen("1", { hash: "b", rank: 2, slot }), seen("2", { hash: "a", rank: 1 })];
  const here = decided(other("here"), { startsIn: "here" });
  assertEquals([here.inForce, here.dead], ["a", "1"]);
  const there = decided(other("there"), { startsIn: "here" });
  assertEquals([there.inForce, there.dead], ["b", ""]);
});

Deno.test("decide() lets a process speak unless enough punctual ones of its kind stand before it", () => {
  const others = (people: Person[]) => people.map((it, index) => seen(`${index}`, it));
  const speaks = (people: Person[], id = "5") =>
    decide({
      ...{ id, hash: "a", rank: 1, startsIn: undefined, highest: 1 },
      sightings: others(people),
    }, 2).speaks;
  const [one, late, stranger] = [
    { hash: "a", rank: 1 },
    { hash: "a", rank: 1, unchanged: 2 },
    { hash: "b", rank: 2 },
  ];
  assertEquals(speaks([one, one]), false);
  assertEquals(speaks([one, late]), true);
  assertEquals(speaks([one, stranger]), true);
  assertEquals(speaks([one, one], "0-"), true);
});

Deno.test("decide() lets the first of the living tidy up for all, with ten checks in a commit at the most", () => {
  const silent = (index: number) => seen(`8${index}`, { hash: "b", rank: 1, unchanged: 4 });
  const gone = (index: number) => seen(`9${index}`, { hash: "b", rank: 1, unchanged: 15, hasLeft: true });
  const few = [silent(0), gone(0)];
  const tidied = (sightings: Sighting[]) => {
    const { dead, removed } = decided(sightings, { rank: 2 });
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
