import { assertEquals, assertStringIncludes } from "@std/assert";
import { memoryStore } from "../../../src/engines/memory.ts";
import type { Environment } from "../../../src/core/config/variables/tiers.ts";
import type { Store } from "../../../src/core/store/store.ts";
import { setStoredVariables } from "../../../src/stored/set_stored_variables.ts";
import { fromUtf8 } from "../../../src/core/values/utf8.ts";
import { FakeClock, settle } from "../../../tools/fake_clock.ts";
import { setUp } from "../../_gateway.ts";
import { delegate, fallibleStore, remoteStore } from "../../_store.ts";

/** More variables than one commit holds. */
const MANY = Object.fromEntries(
  Array.from({ length: 400 }, (_, index) => [`REP_PUBLIC_V${index}`, "1"]),
);

/** A store that calls back before the second commit of events. */
function interruptedStore(
  beforeSecond: (store: Store) => Promise<unknown>,
): Store {
  const inner = memoryStore();
  let commits = 0;
  return {
    ...delegate(inner),
    async commit(checks, writes) {
      if (writes.some(({ key }) => key[0] === "event") && ++commits === 2) {
        await beforeSecond(inner);
      }
      return await inner.commit(checks, writes);
    },
  };
}

Deno.test("a publication whose commits all conflict is repeated every 5 s, until one does not", async () => {
  const clock = new FakeClock();
  const inner = memoryStore();
  let isContended = false;
  const commit: Store["commit"] = (checks, writes) =>
    isContended && writes.some(({ key }) => key[0] === "event")
      ? Promise.resolve(undefined)
      : inner.commit(checks, writes);
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
    store: { ...delegate(inner), commit },
    clock,
  });
  const failures = () => gate.logged("rep.config.not_published").length;
  isContended = true;
  const reload = gate.set({ REP_PUBLIC_A: "2" });
  for (const expected of [1, 2, 3]) {
    while (failures() < expected) await clock.tick(0); // random() is 0, and so is the pause after a conflict
    await clock.tick(4_999);
    assertEquals(failures(), expected);
    isContended = expected < 3;
    await clock.tick(1);
  }
  await reload;
  const changes = gate.logged("rep.config.changed");
  assertEquals([failures(), changes.length], [3, 2]);
});

Deno.test("a publication makes 40 attempts in all, whether its heartbeats or its commits conflict", async () => {
  const clock = new FakeClock();
  const inner = memoryStore();
  let isContended = false;
  let attempts = 0;
  const commit: Store["commit"] = (checks, writes) => {
    if (!isContended) return inner.commit(checks, writes);
    if (writes.some(({ key }) => key[0] === "event")) {
      return Promise.resolve(undefined);
    }
    return ++attempts % 10 === 0
      ? inner.commit(checks, writes)
      : Promise.resolve(undefined);
  };
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
    store: { ...delegate(inner), commit },
    clock,
  });
  isContended = true;
  const reload = gate.set({ REP_PUBLIC_A: "2" });
  const failures = () => gate.logged("rep.config.not_published");
  while (failures().length === 0) await clock.tick(0);
  const made = attempts;
  isContended = false;
  await clock.tick(5_000);
  await reload;
  assertEquals(made, 40);
});

/** Writes the head of the log, as any commit of another process does. */
async function writeHead(store: Store): Promise<void> {
  const head = await store.get(["head"]);
  await store.commit([], [{ key: ["head"], value: head?.value }]);
}

for (
  const [what, interrupt] of [
    ["conflicts", writeHead],
    ["fails", () => Promise.reject(new Error("down"))],
  ] as const
) {
  Deno.test(`Publisher logs every change once if the second commit of a publication ${what}`, async () => {
    const clock = new FakeClock();
    const starting = setUp(MANY, { store: interruptedStore(interrupt), clock });
    await using gate = await clock.tickUntil(starting, 100); // the attempt after a conflict begins after a pause
    await clock.tick(5_000);
    const changes = gate.logged("rep.config.changed");
    const keys = changes.map(({ key }) => `REP_PUBLIC_${key}`);
    assertEquals(keys.sort(), Object.keys(MANY).sort());
  });
}

Deno.test("a variable that pages had before anything could be published, and that was removed since, is deleted on them", async () => {
  const clock = new FakeClock();
  let isFull = true;
  const store = fallibleStore(memoryStore(), () => isFull, {
    operations: ["commit"],
  });
  const both = { REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" };
  await using gate = await setUp(both, { store, clock });
  const page = await gate.gateway.configScript();
  assertStringIncludes(page, '"B":"1"');
  await gate.set({ REP_PUBLIC_A: "1" });
  isFull = false;
  await clock.tick(1_000);
  while (gate.logged("rep.config.changed").length < 2) await settle();
  const changes = gate.logged("rep.config.changed");
  assertEquals(changes.map(({ key, action }) => [key, action]), [
    ["A", "update"],
    ["B", "delete"],
  ]);
  await gate.set({ REP_PUBLIC_A: "2" }); // no second deletion
  assertEquals(gate.logged("rep.config.changed").length, 3);
});

Deno.test("such a variable is deleted also if another process has published before", async () => {
  const clock = new FakeClock();
  const inner = memoryStore();
  let isFull = true;
  const store = fallibleStore(inner, () => isFull, { operations: ["commit"] });
  const both = { REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" };
  await using gate = await setUp(both, { store, clock });
  const page = await gate.gateway.configScript();
  assertStringIncludes(page, '"B":"1"');
  await using other = await setUp({ REP_PUBLIC_A: "1" }, {
    store: remoteStore(inner),
    clock,
  });
  await clock.tick(1_000);
  isFull = false;
  await gate.set({ REP_PUBLIC_A: "1" });
  await clock.tick(6_000);
  assertEquals(other.logged("rep.config.changed").length, 1);
  const changes = gate.logged("rep.config.changed");
  assertEquals(changes.map(({ key, action }) => [key, action]), [
    ["B", "delete"],
  ]);
});

Deno.test("an edit in an outage is an error, and no more once it is taken back", async () => {
  const clock = new FakeClock();
  let isFull = false;
  const store = fallibleStore(memoryStore(), () => isFull, {
    operations: ["commit"],
  });
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, { store, clock });
  isFull = true;
  for (const value of ["2", "1"]) await gate.set({ REP_PUBLIC_A: value });
  const lines = gate.logged("rep.config.not_published");
  assertEquals(lines.map(({ level }) => level), ["ERROR", "DEBUG"]);
});

Deno.test("of two edits of a file that two replicas read, the older one is never published over the newer one", async () => {
  const store = memoryStore();
  const file = { value: "0" };
  const hasRead = Promise.withResolvers<void>();
  const goesOn = Promise.withResolvers<void>();
  let isSlow = false;
  const read = () => ({ REP_PUBLIC_A: file.value });
  await using slow = await setUp({}, {
    store,
    async variables() {
      const variables = read();
      if (!isSlow) return variables;
      hasRead.resolve();
      await goesOn.promise;
      return variables;
    },
  });
  await using fast = await setUp({}, { store, variables: read });
  isSlow = true;
  file.value = "1";
  const slowReload = slow.gateway.reload();
  await hasRead.promise;
  file.value = "2";
  await fast.gateway.reload();
  isSlow = false;
  goesOn.resolve();
  await slowReload;
  assertEquals(await publishedIn(store), ["0", "2"]);
  assertEquals(slow.logged("rep.rollout.superseded").length, 1);
  const page = await slow.gateway.configScript();
  assertStringIncludes(page, '"A":"2"');
  await slow.gateway.reload();
  assertEquals(slow.logged("rep.rollout.active").length, 2);
  assertEquals(slow.logged("rep.rollout.rollback"), []);
  file.value = "1";
  await slow.gateway.reload();
  assertEquals(await publishedIn(store), ["0", "2", "1"]);
});

Deno.test("a gateway that starts publishes nothing older than what another one has read since", async () => {
  const store = memoryStore();
  const file = { value: "1" };
  const hasRead = Promise.withResolvers<void>();
  const goesOn = Promise.withResolvers<void>();
  const read = () => ({ REP_PUBLIC_A: file.value });
  await using running = await setUp({}, { store, variables: read });
  file.value = "2";
  const starting = setUp({}, {
    store,
    async variables() {
      const variables = read();
      hasRead.resolve();
      await goesOn.promise;
      return variables;
    },
  });
  await hasRead.promise;
  file.value = "3";
  await running.gateway.reload();
  goesOn.resolve();
  await using started = await starting;
  assertEquals(await publishedIn(store), ["1", "3"]);
  assertEquals(started.logged("rep.rollout.rollback"), []);
  file.value = "4";
  await started.gateway.reload();
  assertEquals(await publishedIn(store), ["1", "3", "4"]);
});

Deno.test("a replica whose file broke after it read an edit that another one had replaced publishes neither, until it is the last one", async () => {
  const clock = new FakeClock();
  const store = memoryStore();
  const file = { environment: { REP_PUBLIC_A: "0" } as Environment };
  const hasRead = Promise.withResolvers<void>();
  const goesOn = Promise.withResolvers<void>();
  let isSlow = false;
  await using slow = await setUp({}, {
    store,
    clock,
    async variables() {
      const { environment } = file;
      if (!isSlow) return environment;
      hasRead.resolve();
      await goesOn.promise;
      return environment;
    },
  });
  const read = () => file.environment;
  await using fast = await setUp({}, { store, clock, variables: read });
  isSlow = true;
  file.environment = { REP_PUBLIC_A: "1" };
  const slowReload = slow.gateway.reload();
  await hasRead.promise;
  file.environment = { REP_PUBLIC_A: "2" };
  await fast.gateway.reload();
  file.environment = { REP_PUBLIC_A: "3", REP_SERVER_A: "3" };
  isSlow = false;
  goesOn.resolve();
  await slowReload;
  await slow.gateway.reload().catch(() => {});
  await clock.tick(15_000);
  assertEquals(await publishedIn(store), ["0", "2"]);
  await fast.gateway.close();
  await clock.tick(5_000);
  while ((await publishedIn(store)).length < 3) await settle();
  assertEquals(await publishedIn(store), ["0", "2", "1"]);
  assertEquals(slow.logged("rep.rollout.rollback"), []);
  await setStoredVariables(store, { B: "set" }, { clock });
  for (let seconds = 0; seconds < 3; seconds++) await clock.tick(1_000);
  while ((await publishedIn(store)).length < 4) await settle();
  assertEquals(await publishedIn(store), ["0", "2", "1", "set"]);
  file.environment = { REP_PUBLIC_A: "4" };
  await slow.gateway.reload();
  assertEquals((await publishedIn(store)).slice(4), ["4"]);
});

Deno.test("of two replicas that have different files, and reload them at once, the first to reach the store wins", async () => {
  const store = memoryStore();
  await using one = await setUp({ REP_PUBLIC_A: "0" }, { store });
  await using other = await setUp({ REP_PUBLIC_A: "0" }, { store });
  await Promise.all([
    one.set({ REP_PUBLIC_A: "1" }),
    other.set({ REP_PUBLIC_A: "2" }),
  ]);
  const [, winner, ...more] = await publishedIn(store);
  assertEquals(more, []);
  const loser = winner === "1" ? other : one;
  assertEquals(loser.logged("rep.rollout.superseded").length, 1);
});

/** Returns the published values of the only variable, in order. */
async function publishedIn(store: Store): Promise<string[]> {
  const events = await store.list<{ value: Uint8Array }>(["event"]);
  return events.map(({ value }) => fromUtf8(value.value));
}
