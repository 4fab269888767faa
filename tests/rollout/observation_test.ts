import { assertEquals } from "@std/assert";
import {
  isDead,
  isLive,
  isOnTime,
  isRemovable,
  type Member,
  NEVER_OBSERVED,
  type Observation,
  observe,
} from "../../src/rollout/observation.ts";

const NOW = 1_700_000_000_000;
const MEMBER: Member = { hash: "a", rank: 1, heartbeatAt: NOW };

/** Observes an entry with these versions one after the other; scheduled unless stated otherwise. */
function observeAll(
  versions: readonly (string | { version: string; isScheduled: boolean })[],
  member = MEMBER,
) {
  let previous = NEVER_OBSERVED;
  for (const it of versions) {
    const { version, isScheduled } = typeof it === "string"
      ? { version: it, isScheduled: true }
      : it;
    previous = observe([{ key: ["member", "1"], value: member, version }], {
      previous,
      now: NOW,
      isScheduled,
    });
  }
  return previous.members.get("1") as Observation;
}

function classify(observation: Observation) {
  return [isLive, isOnTime, isDead, isRemovable].map((is) => is(observation));
}

Deno.test("observe() detects a late member after two periods without a heartbeat and a dead one after four", () => {
  const states = [1, 2, 3, 4, 5].map((count) =>
    classify(observeAll(Array(count).fill("v"))).slice(0, 3)
  );
  assertEquals(states, [
    [true, true, false],
    [true, true, false],
    [true, false, false],
    [true, false, false],
    [false, false, true],
  ]);
});

Deno.test("observe() counts periods, however many unscheduled observations there are", () => {
  const between = { version: "v", isScheduled: false };
  assertEquals(observeAll([between, "v"]).unchangedPeriods, 0);
  assertEquals(
    observeAll(["v", between, between, between, "v"]).unchangedPeriods,
    1,
  );
  assertEquals(
    observeAll(["v", { version: "w", isScheduled: false }, "w"])
      .unchangedPeriods,
    0,
  );
});

Deno.test("observe() presumes a member alive whose heartbeat is at most ten minutes old, or in the future", () => {
  const isLiveAt = (heartbeatAt: number) =>
    isLive(observeAll(["v"], { ...MEMBER, heartbeatAt }));
  assertEquals([NOW - 600_001, NOW - 600_000, NOW + 600_000].map(isLiveAt), [
    false,
    true,
    true,
  ]);
});

Deno.test("observe() presumes a member alive that sends heartbeats, however wrong its clock is", () => {
  const member = { ...MEMBER, heartbeatAt: NOW - 86_400_000 };
  assertEquals(
    [["v"], ["v", "v"], ["v", "w"]].map((versions) =>
      isLive(observeAll(versions, member))
    ),
    [
      false,
      false,
      true,
    ],
  );
});
