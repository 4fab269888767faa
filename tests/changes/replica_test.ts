import { assertEquals } from "@std/assert";
import type { Member } from "../../src/rollout/observation.ts";
import { memoryStore } from "../../src/store/memory.ts";
import type { Store } from "../../src/store/store.ts";
import { configurationHash, shortHash } from "../../src/values/hash.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { setUp } from "../_gateway.ts";
import { delegate } from "../_store.ts";

const PERIOD_MS = 5_000;

async function hashOf(values: Record<string, string>): Promise<string> {
  return shortHash(await configurationHash(new Map(Object.entries(values))));
}

function superseded(lines: readonly Record<string, unknown>[]): number {
  return lines.filter(({ msg }) => msg === "rep.rollout.superseded").length;
}

Deno.test("Replica logs that another configuration is active, and publishes its own again afterwards", async () => {
  const options = { store: memoryStore(), clock: new FakeClock(), random: () => 0 };
  await using own = await setUp({ REP_PUBLIC_A: "own" }, options);
  const stream = await own.listen();
  await stream.pull();
  const other = await setUp({ REP_PUBLIC_A: "other" }, options);
  await options.clock.tick(PERIOD_MS);
  assertEquals([superseded(own.lines), superseded(other.lines)], [1, 0]);
  const { configuration, active } = own.lines.find(({ msg }) => msg === "rep.rollout.superseded") ?? {};
  assertEquals([configuration, active], [await hashOf({ A: "own" }), await hashOf({ A: "other" })]);
  await other.gateway.close();
  await options.clock.tick(PERIOD_MS);
  assertEquals((await stream.take(2)).map(({ data }) => data.value), ["other", "own"]);
  assertEquals(superseded(own.lines), 1);
  await stream.close();
});

Deno.test("Replica logs once that another configuration is active if it is already when it joins", async () => {
  const options = { store: memoryStore(), clock: new FakeClock(), random: () => 0 };
  await using _old = await setUp({ REP_PUBLIC_A: "old" }, options);
  await using _next = await setUp({ REP_PUBLIC_A: "next" }, options);
  await using again = await setUp({ REP_PUBLIC_A: "old" }, options);
  assertEquals(superseded(again.lines), 1);
});

Deno.test("Replica announces its instance ID, if it has one", async () => {
  for (const instanceId of ["host:8080", undefined]) {
    const store = memoryStore();
    await using _gate = await setUp({}, { store, clock: new FakeClock(), instanceId });
    const members = await store.list<Member>(["member"]);
    assertEquals(members.map(({ value }) => value.instanceId), [instanceId]);
  }
});

Deno.test("Replica logs an unexpected error of a heartbeat", async () => {
  const clock = new FakeClock();
  const inner = memoryStore();
  let isBroken = false;
  const list: Store["list"] = async (prefix, options) => {
    const entries = await inner.list<never>(prefix, options);
    return isBroken && prefix[0] === "member" ? [undefined as never] : entries;
  };
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, { store: { ...delegate(inner), list }, clock });
  isBroken = true;
  await clock.tick(PERIOD_MS);
  isBroken = false;
  const failed = gate.lines.filter(({ msg }) => msg === "rep.task.failed");
  assertEquals(failed.map(({ task }) => task), ["rollout"]);
});
