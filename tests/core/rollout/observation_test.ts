import { assertEquals } from "@std/assert";
import {
  isLive,
  type Member,
  observe,
  type Observed,
} from "../../../src/core/rollout/observation.ts";

const NOW = 1_700_000_000_000;
const MEMBER: Member = { hash: "a", rank: 1, heartbeatAt: NOW };

/** Observes an entry with these versions one after the other: a version ending with "?" outside of the schedule. */
function observeAll(versions: readonly string[], member = MEMBER) {
  let previous: Observed | undefined;
  for (const version of versions) {
    const entry = {
      key: ["member", "1"],
      value: member,
      version: version.replace("?", ""),
    };
    const isScheduled = !version.endsWith("?");
    previous = observe([entry], previous, { now: NOW, isScheduled });
  }
  return previous!.members[0]!;
}

Deno.test("observe() counts periods, however many unscheduled observations there are", () => {
  const periods = (...versions: string[]) =>
    observeAll(versions).unchangedPeriods;
  assertEquals(periods("v?", "v"), 0);
  assertEquals(periods("v", "v?", "v?", "v?", "v"), 1);
  assertEquals(periods("v", "w?", "w"), 0);
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
