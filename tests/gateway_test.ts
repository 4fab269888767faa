import { assertEquals } from "@std/assert";
import { writeVariables } from "../src/stored/write_variables.ts";
import { memoryStore } from "../src/engines/memory.ts";
import type { Store } from "../src/core/store/store.ts";
import { FakeClock, settle } from "../tools/fake_clock.ts";
import { answerOf } from "./_answer.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import {
  delegate,
  fallibleStore,
  interceptedStore,
  remoteStore,
} from "./_store.ts";

/** The start of the clock. */
const T = 1_700_000_000_000;

/** A store that can be down. */
function setUpStore(isDown: boolean) {
  const clock = new FakeClock(T);
  const inner = memoryStore();
  const state = { isDown };
  const store: Store = fallibleStore(inner, () => state.isDown);
  return { clock, inner, store, state };
}

async function cursorOfPage({ gateway }: TestGateway): Promise<string | null> {
  const page = new Response("<head></head>", {
    headers: { "content-type": "text/html" },
  });
  const html = await (await gateway.inject(page)).text();
  return /last_event_id=(\d+)/.exec(html)?.[1] ?? null;
}

Deno.test("when the store returns, a change that waits is published within a second, not after its pause", async () => {
  const { clock, store, state } = setUpStore(false);
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
    store,
    clock,
    random: () => 0,
  });
  const stream = await gate.listen();
  await stream.pull();
  state.isDown = true;
  await gate.set({ REP_PUBLIC_A: "2" });
  await clock.tick(21_000); // the retries are at 5, 10, 15 and 20 s, the next one is at 25 s
  assertEquals(
    (await (await gate.ask("/rep/health")).json()).status,
    "degraded",
  );
  state.isDown = false;
  await clock.tick(1_000);
  const [message] = await stream.take(1);
  assertEquals([message?.data.value, message?.id], ["2", (T + 22_000) * 1_000]);
  assertEquals(
    (await (await gate.ask("/rep/health")).json()).status,
    "healthy",
  );
  await stream.close();
});

/** Returns the PUBLIC values of a page. */
async function valuesOfPage({ gateway }: TestGateway): Promise<unknown> {
  const script = await gateway.configScript();
  const json = /<script id="__rep__"[^>]*>([^<]*)</.exec(script)?.[1];
  return JSON.parse(json ?? "").public;
}

async function healthOf(gate: TestGateway): Promise<unknown> {
  return (await (await gate.ask("/rep/health")).json()).problems;
}

Deno.test("while the store is unavailable, pages keep what is published, and an edit waits: health and the log say so", async () => {
  const { clock, store, state } = setUpStore(false);
  const variables = { REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" };
  await using gate = await setUp(variables, { store, clock });
  state.isDown = true;
  await gate.set({ REP_PUBLIC_A: "2", REP_PUBLIC_B: "1", REP_PUBLIC_C: "new" });
  assertEquals(await valuesOfPage(gate), { A: "1", B: "1" });
  assertEquals([gate.gateway.get("A"), gate.gateway.get("C")], ["2", "new"]);
  assertEquals(await healthOf(gate), ["store_unavailable", "change_waiting"]);
  const failures = () => gate.logged("rep.config.not_published");
  for (const expected of [2, 3]) { // two more attempts
    await clock.tick(5_000);
    while (failures().length < expected) await settle();
  }
  const failed = failures();
  assertEquals(failed.map(({ level }) => level), ["ERROR", "DEBUG", "DEBUG"]);
  const cursor = await cursorOfPage(gate);
  state.isDown = false;
  await clock.tick(2_000);
  assertEquals(await healthOf(gate), undefined);
  assertEquals(await valuesOfPage(gate), { A: "2", B: "1", C: "new" });
  const stream = await gate.listen({ "last-event-id": String(cursor) });
  assertEquals(await stream.takeChanges(2), [["A", "2"], ["C", "new"]]);
  await stream.close();
});

Deno.test("an edit that is undone before it could be published does not wait any more, and nothing is published", async () => {
  const { clock, store, state } = setUpStore(false);
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, { store, clock });
  state.isDown = true;
  await gate.set({ REP_PUBLIC_A: "2" });
  await gate.set({ REP_PUBLIC_A: "1" });
  assertEquals(await healthOf(gate), ["store_unavailable"]);
  state.isDown = false;
  await clock.tick(10_000);
  assertEquals(gate.logged("rep.config.changed").length, 1);
});

Deno.test("a removal waits for the store as any other edit does", async () => {
  const { clock, store, state } = setUpStore(false);
  const variables = { REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" };
  await using gate = await setUp(variables, { store, clock });
  state.isDown = true;
  await gate.set({ REP_PUBLIC_B: "1" });
  assertEquals(await valuesOfPage(gate), { A: "1", B: "1" });
  assertEquals(await healthOf(gate), ["store_unavailable", "change_waiting"]);
  state.isDown = false;
  await clock.tick(6_000);
  assertEquals(await valuesOfPage(gate), { B: "1" });
});

Deno.test("a variable that was removed and restored while the store fails is on all pages, although another change waits", async () => {
  const { clock, store, state } = setUpStore(false);
  const variables = { REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" };
  await using gate = await setUp(variables, { store, clock });
  state.isDown = true;
  await gate.set({ REP_PUBLIC_B: "1" });
  await gate.set(variables);
  await gate.set({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "2" });
  assertEquals(await valuesOfPage(gate), { A: "1", B: "1" });
  state.isDown = false;
  await clock.tick(6_000);
  assertEquals(await valuesOfPage(gate), { A: "1", B: "2" });
  const changes = gate.logged("rep.config.changed").map(({ key }) => key);
  assertEquals(changes, ["A", "B", "B"]);
});

Deno.test("while a change waits, it is read again every 5 s, and health says so also during a commit; no reload is counted", async () => {
  const clock = new FakeClock(T);
  const inner = memoryStore();
  const commits = { isDown: false, held: [] as (() => void)[] };
  const store: Store = {
    ...delegate(inner),
    async commit(checks, writes) {
      const hasEvents = writes.some(({ key }) => key[0] === "event");
      if (hasEvents && commits.isDown) throw new Error("down");
      if (hasEvents && value === "3") {
        await new Promise<void>((resolve) => commits.held.push(resolve));
      }
      return await inner.commit(checks, writes);
    },
  };
  let value = "1";
  const variables = () => ({ REP_PUBLIC_A: value });
  await using gate = await setUp({}, { store, clock, variables });
  commits.isDown = true;
  value = "2";
  await gate.gateway.reload();
  const reloads = async () => {
    const health = new Request("http://health.test/metrics");
    const text = await (await gate.gateway.fetchHealth(health)).text();
    return text.match(/^rep_config_reloads_total.*$/gm)?.join();
  };
  const before = await reloads();
  for (let retries = 0; retries < 3; retries++) await clock.tick(5_000);
  assertEquals(await reloads(), before);
  commits.isDown = false;
  value = "3"; // which the next attempt finds
  while (commits.held.length === 0) await clock.tick(1_000);
  assertEquals(await healthOf(gate), ["change_waiting"]);
  for (const release of commits.held) release();
  while (await healthOf(gate) !== undefined) await settle();
  assertEquals(await valuesOfPage(gate), { A: "3" });
  const changed = await reloads();
  assertEquals(changed === before, false); // it has changed, so it counts
});

for (
  const [change, variables] of [
    ["SENSITIVE", { REP_SENSITIVE_A: "secret" }],
    ["SERVER", { REP_SERVER_A: "secret" }],
  ] as const
) {
  Deno.test(`a variable that is ${change} now is on no page while that waits for the store, and comes back with an event`, async () => {
    const { clock, store, state } = setUpStore(false);
    const published = { REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" };
    await using gate = await setUp(published, { store, clock });
    state.isDown = true;
    await gate.set({ ...variables, REP_PUBLIC_B: "1" });
    assertEquals(await valuesOfPage(gate), { B: "1" });
    const cursor = await cursorOfPage(gate); // of a page without A
    await gate.set({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" });
    assertEquals(await valuesOfPage(gate), { A: "1", B: "1" });
    state.isDown = false;
    await clock.tick(6_000);
    const stream = await gate.listen({ "last-event-id": String(cursor) });
    assertEquals(await stream.takeChanges(1), [["A", "1"]]);
    await gate.set({ REP_PUBLIC_A: "2", REP_PUBLIC_B: "1" });
    assertEquals(await stream.takeChanges(1), [["A", "2"]]);
    assertEquals(stream.arrived(), []); // it was published again once
    await stream.close();
  });
}

Deno.test("a process that stands apart serves its own values, also edited ones, and does not say that they wait", async () => {
  const options = { store: memoryStore(), clock: new FakeClock(T) };
  await using _other = await setUp({ REP_PUBLIC_OTHER: "1" }, options);
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, options);
  await gate.set({ REP_PUBLIC_A: "2" });
  assertEquals(await valuesOfPage(gate), { A: "2" });
  assertEquals([await healthOf(gate), await cursorOfPage(gate)], [
    undefined,
    "0",
  ]);
});

Deno.test("a page of a superseded process has what is PUBLIC in the active configuration, whatever it is in its own: its stream would not bring it", async () => {
  const options = { store: memoryStore(), clock: new FakeClock(T) };
  const old = {
    REP_SENSITIVE_A: "secret",
    REP_SERVER_C: "secret",
    REP_PUBLIC_B: "1",
  };
  await using gate = await setUp(old, options);
  await using active = await setUp({
    REP_PUBLIC_A: "2",
    REP_PUBLIC_B: "2",
    REP_PUBLIC_C: "2",
  }, options);
  await options.clock.tick(2_000);
  assertEquals(await valuesOfPage(active), { A: "2", B: "2", C: "2" });
  assertEquals(await valuesOfPage(gate), { A: "2", B: "2", C: "2" });
});

Deno.test("a page of a superseded process lacks nothing that is published, although a reload without a change meets an outage", async () => {
  const { clock, inner, store, state } = setUpStore(false);
  await using gate = await setUp(
    { REP_SENSITIVE_A: "secret", REP_PUBLIC_B: "1" },
    { store, clock },
  );
  const active = { REP_PUBLIC_A: "2", REP_PUBLIC_B: "2" };
  await using _active = await setUp(active, { store: inner, clock });
  await clock.tick(2_000);
  state.isDown = true;
  await gate.gateway.reload();
  assertEquals(await valuesOfPage(gate), { A: "2", B: "2" });
});

Deno.test("a variable that is SENSITIVE now is on no page while its removal is being published", async () => {
  const clock = new FakeClock(T);
  const commits = { isHeld: false, release: () => {} };
  const store = interceptedStore(memoryStore(), async (operation) => {
    if (operation !== "commit" || !commits.isHeld) return;
    await new Promise<void>((resolve) => commits.release = resolve);
  });
  const published = { REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" };
  await using gate = await setUp(published, { store, clock });
  commits.isHeld = true;
  const edit = gate.set({ REP_SENSITIVE_A: "secret", REP_PUBLIC_B: "1" });
  await settle();
  const values = await valuesOfPage(gate);
  commits.isHeld = false;
  commits.release();
  await edit;
  assertEquals(values, { B: "1" });
});

Deno.test("a restart while the store cannot be written reports a change that waits only if there is one", async () => {
  const { clock, inner } = setUpStore(false);
  const first = await setUp({ REP_PUBLIC_A: "1" }, {
    store: remoteStore(inner),
    clock,
  });
  await first.gateway.close();
  const options = { operations: ["commit"] } as const;
  const store = fallibleStore(inner, () => true, options);
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, { store, clock });
  assertEquals(await healthOf(gate), ["store_unavailable"]);
  await gate.set({ REP_PUBLIC_A: "2" });
  assertEquals(await healthOf(gate), ["store_unavailable", "change_waiting"]);
});

Deno.test("pages have the process's own values until anything was ever published, and then what was missed", async () => {
  const clock = new FakeClock(T);
  let isReadOnly = true;
  const store = fallibleStore(memoryStore(), () => isReadOnly, {
    operations: ["commit"],
  });
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, { store, clock });
  assertEquals(await valuesOfPage(gate), { A: "1" });
  await gate.set({ REP_PUBLIC_A: "2" });
  assertEquals(await valuesOfPage(gate), { A: "2" });
  const cursor = await cursorOfPage(gate);
  await gate.set({ REP_PUBLIC_A: "3" });
  isReadOnly = false;
  await clock.tick(6_000);
  const stream = await gate.listen({}, `?last_event_id=${cursor}`);
  assertEquals(await stream.takeChanges(1), [["A", "3"]]);
  await stream.close();
});

Deno.test("when the store returns, a client's next session key counts those that were issued meanwhile there", async () => {
  const { clock, inner, store, state } = setUpStore(false);
  const variables = { REP_SENSITIVE_S: "x" };
  await using gate = await setUp(variables, { store, clock });
  state.isDown = true;
  const request = async (from: TestGateway) =>
    (await answerOf(await from.ask("/rep/session-key"))).status;
  for (let issued = 0; issued < 9; issued++) {
    assertEquals(await request(gate), 200);
  }
  state.isDown = false;
  await clock.tick(1_000);
  assertEquals(await request(gate), 200);
  await using other = await setUp(variables, { store: inner, clock });
  assertEquals(await request(other), 429);
});

Deno.test("variables in the store that could not be read at the start are served when it returns", async () => {
  const { clock, inner, store, state } = setUpStore(true);
  await writeVariables(inner, new Map([["A", "stored"]]), {
    clock,
    random: () => 0,
    ifId: undefined,
  });
  await using gate = await setUp({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" }, {
    store,
    clock,
  });
  state.isDown = false;
  await clock.tick(2_000);
  const stream = await gate.listen({ "last-event-id": "0" });
  assertEquals(
    await stream.takeChanges(2),
    [["A", "stored"], ["B", "1"]],
  );
  assertEquals(stream.arrived(), []); // the value of the environment was never published
  await stream.close();
});

Deno.test("a stream that is opened before the store has ever answered is told to reconnect, whatever its cursor", async () => {
  const { clock, store, state } = setUpStore(true);
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
    store,
    clock,
    random: () => 0,
  });
  for (const cursor of ["", "0", String(T * 1_000), "x"]) {
    const headers = { "last-event-id": cursor };
    const asked = gate.ask("/rep/changes", { headers });
    await clock.tick(50); // between two reads of the store for clients
    const response = await asked;
    assertEquals([response.status, await response.text()], [
      200,
      "retry: 5000\n: the store is unavailable; reconnect later\n\n",
    ]);
  }
  state.isDown = false;
  await clock.tick(2_000);
  const stream = await gate.listen({ "last-event-id": "0" });
  assertEquals(await stream.takeValues(1), ["1"]);
  await stream.close();
});

Deno.test("after a restart, a page's stream begins after the newest event, not at the beginning of the log", async () => {
  const store = memoryStore();
  const clock = new FakeClock(T);
  const variables = { REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" };
  await using first = await setUp(variables, { store, clock });
  assertEquals(await cursorOfPage(first), String((T + 1) * 1_000));
  await first.gateway.close();
  clock.jump(60_000);
  await using second = await setUp(variables, { store, clock });
  assertEquals(await cursorOfPage(second), String((T + 1) * 1_000));
});

Deno.test("a shutdown does not wait for a reload whose sources never answer", async () => {
  const clock = new FakeClock(T);
  let answer: Promise<Record<string, string>> = Promise.resolve({
    REP_PUBLIC_A: "1",
  });
  const gate = await setUp({}, { clock, variables: () => answer });
  const late = Promise.withResolvers<Record<string, string>>();
  answer = late.promise;
  const reload = gate.gateway.reload();
  await settle();
  const closed = gate.gateway.close();
  await clock.tick(1_000);
  await closed;
  late.resolve({ REP_PUBLIC_A: "2" });
  await reload;
  assertEquals(
    gate.logged("rep.config.reloaded"),
    [],
  );
});

const VARIABLES = {
  REP_PUBLIC_A: "1",
  REP_SENSITIVE_B: "2",
  REP_SERVER_C: "3",
};

Deno.test("get() returns PUBLIC values only, and getPrivate() those of the other tiers only", async () => {
  await using gate = await setUp(VARIABLES);
  const { get, getPrivate } = gate.gateway;
  assertEquals(["A", "B", "C"].map(get), ["1", undefined, undefined]);
  assertEquals(["A", "B", "C"].map(getPrivate), [undefined, "2", "3"]);
});

Deno.test("onChange() calls back after a reload that changes the variable, in any tier, until it is ended", async () => {
  await using gate = await setUp(VARIABLES);
  const heard: unknown[] = [];
  const ends = ["A", "B", "C", "D"].map((name) =>
    gate.gateway.onChange(name, (...values) => heard.push([name, ...values]))
  );
  await gate.set({
    REP_PUBLIC_A: "1",
    REP_SENSITIVE_B: "changed",
    REP_SERVER_OTHER: "3",
    REP_PUBLIC_D: "new",
  });
  assertEquals(heard.splice(0), [
    ["B", "changed", "2"],
    ["C", undefined, "3"],
    ["D", "new", undefined],
  ]);
  ends.forEach((end) => end());
  await gate.set({ ...VARIABLES, REP_PUBLIC_A: "again" });
  assertEquals(heard, []);
});

Deno.test("onChange() logs the error of a listener, and calls the others", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1" });
  const heard: unknown[] = [];
  gate.gateway.onChange("A", () => {
    throw new Error("mine");
  });
  gate.gateway.onChange("A", (value) => heard.push(value));
  await gate.set({ REP_PUBLIC_A: "2" });
  assertEquals(heard, ["2"]);
  const failure = gate.logged("rep.task.failed")[0];
  assertEquals(failure?.task, "onChange");
  assertEquals(String(failure?.detail).startsWith("Error: mine\n"), true);
});
