import { assertEquals } from "@std/assert";
import {
  isForgotten,
  isLive,
  isPunctual,
  isSilent,
  type Member,
  type Observation,
  observe,
} from "../../src/rollout/observation.ts";

const NOW = 1_700_000_000_000;
const MEMBER: Member = { hash: "a", rank: 1, heartbeatAt: NOW };

/** One look after the other at an entry with these versions; all are counted, unless a version says otherwise. */
function lookAt(versions: readonly (string | { version: string; isCounted: boolean })[], member = MEMBER): Observation {
  let before: ReadonlyMap<string, Observation> = new Map();
  for (const it of versions) {
    const { version, isCounted } = typeof it === "string" ? { version: it, isCounted: true } : it;
    before = observe([{ key: ["member", "1"], value: member, version }], { before, now: NOW, isCounted });
  }
  return before.get("1") as Observation;
}

function verdict(observation: Observation) {
  return [isLive, isPunctual, isSilent, isForgotten].map((is) => is(observation));
}

Deno.test("observe() finds a member dead after four periods of silence, and late after two", () => {
  const verdicts = [1, 2, 3, 4, 5].map((looks) => verdict(lookAt(Array(looks).fill("v"))).slice(0, 3));
  assertEquals(verdicts, [
    [true, true, false],
    [true, true, false],
    [true, false, false],
    [true, false, false],
    [false, false, true],
  ]);
});

Deno.test("observe() begins to count again at every change", () => {
  assertEquals(lookAt(["v", "v", "v", "v", "v", "w"]).unchanged, 0);
});

Deno.test("observe() counts periods, however often one looks in between", () => {
  const between = { version: "v", isCounted: false };
  assertEquals(lookAt([between, "v"]).unchanged, 0);
  assertEquals(lookAt(["v", between, between, between, "v"]).unchanged, 1);
  assertEquals(lookAt(["v", { version: "w", isCounted: false }, "w"]).unchanged, 0);
});

Deno.test("observe() takes one for living at first sight that is less than ten minutes old, or of the future", () => {
  const isLiveAt = (heartbeatAt: number) => isLive(lookAt(["v"], { ...MEMBER, heartbeatAt }));
  assertEquals([NOW - 600_001, NOW - 600_000, NOW + 600_000].map(isLiveAt), [false, true, true]);
});

Deno.test("observe() takes one for living that renews its entry, however wrong its clock", () => {
  const member = { ...MEMBER, heartbeatAt: NOW - 86_400_000 };
  assertEquals([["v"], ["v", "v"], ["v", "w"]].map((versions) => isLive(lookAt(versions, member))), [
    false,
    false,
    true,
  ]);
});

Deno.test("isLive() and isForgotten() believe a goodbye, the one at once and the other after fifteen periods", () => {
  const member = { ...MEMBER, hasLeft: true };
  const verdicts = [1, 15, 16].map((looks) => verdict(lookAt(Array(looks).fill("v"), member)));
  assertEquals(verdicts.map(([live, punctual, , forgotten]) => [live, punctual, forgotten]), [
    [false, false, false],
    [false, false, false],
    [false, false, true],
  ]);
});

Deno.test("isForgotten() waits for a goodbye", () => {
  assertEquals(isForgotten(lookAt(Array(100).fill("v"))), false);
});
