import { assertEquals, assertMatch } from "@std/assert";
import { memoryStore } from "../../../src/engines/memory.ts";
import type { Store } from "../../../src/core/store/store.ts";
import { publicHash, shortHash } from "../../../src/core/values/hash.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { setUp, type TestGateway } from "../../_gateway.ts";
import { delegate, fallibleStore } from "../../_store.ts";
import { until } from "../../_time.ts";

const PERIOD_MS = 5_000;

async function hashOf(values: Record<string, string>) {
  return shortHash(await publicHash(new Map(Object.entries(values))));
}

Deno.test("a replica logs that another configuration is active, and publishes its own again afterwards", async () => {
  const options = {
    store: memoryStore(),
    clock: new FakeClock(),
    random: () => 0,
  };
  await using own = await setUp({ REP_PUBLIC_A: "own" }, options);
  const stream = await own.listen();
  await stream.pull();
  const other = await setUp({ REP_PUBLIC_A: "other" }, options);
  await options.clock.tick(PERIOD_MS);
  const superseded = () =>
    own.logged("rep.rollout.superseded").map(
      ({ configuration, active }) => [configuration, active],
    );
  const expected = [await hashOf({ A: "own" }), await hashOf({ A: "other" })];
  assertEquals(superseded(), [expected]);
  assertEquals(other.logged("rep.rollout.superseded"), []);
  await other.gateway.close();
  await options.clock.tick(PERIOD_MS);
  assertEquals(await stream.takeValues(2), [
    "other",
    "own",
  ]);
  assertEquals(superseded(), [expected]);
  await stream.close();
});

Deno.test("a replica follows the rollout of another one within about a second: log, pages, open streams", async () => {
  const options = {
    store: memoryStore(),
    clock: new FakeClock(),
    random: () => 0,
  };
  await using old = await setUp({ REP_PUBLIC_A: "old" }, options);
  const stream = await old.listen();
  await stream.pull();
  await options.clock.tick(1_000);
  await using next = await setUp({ REP_PUBLIC_A: "new" }, options);
  assertEquals(old.logged("rep.rollout.superseded"), []);
  await options.clock.tick(1_100);
  const hashes = [await hashOf({ A: "old" }), await hashOf({ A: "new" })];
  const [line, ...more] = old.logged("rep.rollout.superseded");
  assertEquals([line?.configuration, line?.active], hashes);
  assertEquals(more, []);
  assertEquals(next.logged("rep.rollout.superseded"), []);
  assertEquals(
    await old.metric("rep_rollout_active"),
    `rep_rollout_active{configuration="${hashes[1]}"} 0`,
  );
  assertEquals(await stream.takeValues(1), ["new"]);
  await stream.close();
});

/** Returns the lines about which configuration is active. */
function standing(lines: readonly Record<string, unknown>[]): unknown[] {
  const events = [
    "rep.rollout.active",
    "rep.rollout.superseded",
    "rep.config.not_published",
  ];
  return lines.filter(({ msg, level }) =>
    events.includes(String(msg)) && level !== "DEBUG"
  )
    .map(({ msg, configuration, active }) => [msg, configuration, active]);
}

/** Returns the problems in the health report, and the metric of the active configuration. */
async function statusOf(gate: TestGateway) {
  const { problems } = await (await gate.ask("/rep/health")).json();
  return [problems, await gate.metric("rep_rollout_active")];
}

Deno.test("a replica does not say that a new configuration is superseded while the store is unavailable, but that the previous one stays active", async () => {
  const clock = new FakeClock();
  let isDown = false;
  const options = {
    store: fallibleStore(memoryStore(), () => isDown),
    clock,
    random: () => 0,
  };
  await using other = await setUp({ REP_PUBLIC_A: "old" }, options);
  await using gate = await setUp({ REP_PUBLIC_A: "old" }, options);
  const [old, next] = [await hashOf({ A: "old" }), await hashOf({ A: "new" })];
  await clock.tick(PERIOD_MS);
  isDown = true;
  await clock.tick(PERIOD_MS);
  await gate.set({ REP_PUBLIC_A: "new" });
  const before = ["rep.rollout.active", old, undefined];
  const failure = ["rep.config.not_published", next, old];
  assertEquals(standing(gate.lines), [before, failure]);
  const [{ detail } = {}] = gate.logged("rep.config.not_published");
  assertMatch(
    String(detail),
    /^Cannot use the store: /,
  );
  assertEquals(await statusOf(gate), [
    ["store_unavailable", "change_waiting"],
    `rep_rollout_active{configuration="${old}"} 0`,
  ]);

  isDown = false;
  await clock.tick(1_000); // the store is probed, and everything is read again, which takes real time
  await until(() => gate.logged("rep.config.changed").length > 0);
  await clock.tick(2 * PERIOD_MS);
  assertEquals(standing(gate.lines), [before, failure, [
    "rep.rollout.active",
    next,
    undefined,
  ]]);
  assertEquals(standing(other.lines), [before, [
    "rep.rollout.superseded",
    old,
    next,
  ]]);
  assertEquals(await statusOf(gate), [
    undefined,
    `rep_rollout_active{configuration="${next}"} 1`,
  ]);
});

Deno.test("a replica warns that its configuration replaces a newer one whose processes are dead, but not of one that was stopped", async () => {
  const [old, newer] = [
    await hashOf({ A: "old" }),
    await hashOf({ A: "newer" }),
  ];
  const detail =
    `rollback from ${newer} to ${old}, last active until 2023-11-14T22:13:20.000Z; ` +
    "if not intended, start the processes of the former again";
  for (
    const [ending, expected] of [
      ["stop", ["INFO", old, newer, detail]],
      ["kill", ["WARN", old, newer, detail]],
    ] as const
  ) {
    const [clock, store] = [new FakeClock(), memoryStore()];
    let isCutOff = false;
    const options = { store, clock, random: () => 0 };
    await using gate = await setUp({ REP_PUBLIC_A: "old" }, options);
    await using other = await setUp({ REP_PUBLIC_A: "newer" }, {
      ...options,
      store: fallibleStore(store, () => isCutOff),
      instanceId: "vm 127.0.0.1:18080",
    });
    await clock.tick(PERIOD_MS);
    if (ending === "stop") await other.gateway.close();
    isCutOff = true;
    for (let periods = 0; periods < 6; periods++) await clock.tick(PERIOD_MS);
    const found = gate.logged("rep.rollout.rollback").map((
      { level, active, replaces, detail },
    ) => [level, active, replaces, detail]);
    assertEquals(found, [[...expected]], ending);
  }
});

Deno.test("a replica logs an unexpected error of a heartbeat", async () => {
  const clock = new FakeClock();
  const inner = memoryStore();
  let isBroken = false;
  const list: Store["list"] = async (prefix, options) => {
    const entries = await inner.list<never>(prefix, options);
    return isBroken && prefix[0] === "member" ? [undefined as never] : entries;
  };
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
    store: { ...delegate(inner), list },
    clock,
  });
  isBroken = true;
  await clock.tick(PERIOD_MS);
  isBroken = false;
  const failed = gate.logged("rep.task.failed");
  assertEquals(failed.map(({ task }) => task), ["rollout"]);
});
