import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { setStoredVariables } from "../src/stored/set_stored_variables.ts";
import {
  listVariables,
  readHead,
  readHistory,
  VARIABLES_HEAD_KEY,
} from "../src/core/config/stored/stored_variables.ts";
import type { GatewayOptions } from "../src/options.ts";
import { memoryStore } from "../src/engines/memory.ts";
import { type Store, StoreUnavailableError } from "../src/core/store/store.ts";
import { FakeClock } from "../tools/fake_clock.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { fallibleStore, testWithStores } from "./_store.ts";

// What running gateways do when their store comes back empty. postgres_test.ts does the same on a real server.

const VARIABLES = { REP_PUBLIC_A: "file", REP_SENSITIVE_S: "secret" };
const PREFIXES = [
  "event",
  "state",
  "variable",
  "write",
  "cause",
  "member",
  "rate",
];
const KEYS = ["head", "variables", "rollout", "activations", "master-key"];

/** Deletes everything. */
async function empty(store: Store) {
  for (const prefix of PREFIXES) {
    const entries = await store.list([prefix]);
    await store.commit([], entries.map(({ key }) => ({ key })));
  }
  await store.commit([], KEYS.map((key) => ({ key: [key] })));
}

/** Gateways on one store that gives no hints. */
class World implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly store: Store;
  readonly gates: TestGateway[] = [];
  /** Whether commits fail. */
  isReadOnly = false;

  constructor(store: Store) {
    const isDown = () => this.isReadOnly;
    this.store = fallibleStore(store, isDown, { operations: ["commit"] });
  }

  async start(options: GatewayOptions = {}): Promise<TestGateway> {
    const { store, clock } = this;
    const gate = await setUp(VARIABLES, { store, clock, ...options });
    this.gates.push(gate);
    return gate;
  }

  async set(values: Record<string, string | undefined>) {
    const { store, clock } = this;
    const writes = await setStoredVariables(store, values, { clock });
    await this.wait(2);
    return writes;
  }

  async wait(seconds: number) {
    for (let count = 0; count < 4 * seconds; count++) {
      await this.clock.tick(250);
    }
  }

  async [Symbol.asyncDispose]() {
    for (const gate of this.gates) await gate[Symbol.asyncDispose]();
  }
}

/** Returns the PUBLIC values of a page. */
async function publicValues({ gateway }: TestGateway) {
  const json = />({.*})</.exec(await gateway.configScript())?.[1];
  return JSON.parse(json ?? "null").public;
}

/** Returns the problems in the health report, and the gauge of this one. */
async function healthOf(gate: TestGateway) {
  const { problems = [] } = await (await gate.ask("/rep/health")).json();
  const gauge = await gate.metric(
    'rep_health_problem{type="store_emptied"}',
  );
  return [problems, gauge?.at(-1)];
}

/** Returns the key of the epoch in which a test starts. */
async function keyOf(gate: TestGateway) {
  const response = await gate.ask("/rep/session-key");
  return (await response.json()).key;
}

const HEALTHY = [[], "0"];
const EMPTIED = [["store_emptied"], "1"];

testWithStores(
  "what was set survives a store that comes back empty: no page and no stream gets another value",
  async (inner) => {
    await using world = new World(inner);
    const { store, clock } = world;
    await world.set({ A: "set", B: "set", GONE: "1" });
    await world.set({ GONE: undefined });
    const one = await world.start();
    const other = await world.start();
    const streams = [await one.listen(), await other.listen()];
    const before = await listVariables(store);

    await empty(store);
    const seen = new Set<string>();
    for (let count = 0; count < 40; count++) {
      await clock.tick(250);
      for (const gate of world.gates) {
        seen.add(JSON.stringify(await publicValues(gate)));
      }
    }
    assertEquals([...seen], ['{"A":"set","B":"set"}']);
    assertEquals(await listVariables(store), before);
    const history = await readHistory(store, 10);
    assertEquals(history.map(({ name }) => name), ["B", "A"]); // of GONE, nothing is known

    await world.set({ A: "newer" });
    for (const stream of streams) {
      // What the store has lost of the log is published again; GONE was not delivered.
      assertEquals(await stream.takeValues(3), ["set", "set", "newer"]);
      await stream.close();
    }
  },
);

Deno.test("a store that came back empty is reported once, until somebody asks for a reload", async () => {
  await using world = new World(memoryStore());
  await world.set({ A: "set" });
  const gate = await world.start();
  assertEquals(await healthOf(gate), HEALTHY);
  await empty(world.store);
  await world.wait(10);
  assertEquals(await healthOf(gate), EMPTIED);
  const [line, ...more] = gate.logged("rep.store.emptied");
  assertEquals([line?.level, line?.variables, more], ["ERROR", 1, []]);
  assertMatch(String(line?.detail), /send SIGHUP once you have seen this$/);
  const lost = await gate.metric("rep_store_lost_events_total");
  assertEquals(lost, "rep_store_lost_events_total 1");

  await gate.gateway.reload(); // as a changed file does
  assertEquals(await healthOf(gate), EMPTIED);
  await gate.gateway.reload({ isRequested: true }); // as SIGHUP does
  assertEquals(await healthOf(gate), HEALTHY);
});

Deno.test("a reload that somebody asks for does not hide the loss that it finds", async () => {
  await using world = new World(memoryStore());
  await world.set({ A: "set" });
  const gate = await world.start({ hotReload: false });
  await empty(world.store);
  const reload = gate.gateway.reload({ isRequested: true });
  await world.wait(1);
  await reload;
  assertEquals(await healthOf(gate), EMPTIED);
});

Deno.test("until the variables can be written back, pages keep them, whatever else changes", async () => {
  await using world = new World(memoryStore());
  await world.set({ A: "set" });
  const gate = await world.start();
  await empty(world.store);
  world.isReadOnly = true;
  await world.wait(10);
  assertEquals(await publicValues(gate), { A: "set" });
  await gate.set({ ...VARIABLES, REP_PUBLIC_C: "new" });
  assertEquals(gate.gateway.get("A"), "set");
  assertEquals(gate.logged("rep.store.emptied").length, 1);
  world.isReadOnly = false;
  await world.wait(10);
  assertEquals(await publicValues(gate), { A: "set", C: "new" });
  assertEquals((await listVariables(world.store)).length, 1);
});

Deno.test("a gateway without hot reload writes the variables back as well", async () => {
  await using world = new World(memoryStore());
  await world.set({ A: "set" });
  const gate = await world.start({ hotReload: false });
  await empty(world.store);
  await world.wait(3);
  assertEquals(await publicValues(gate), { A: "set" });
  assertEquals((await listVariables(world.store)).length, 1);
});

Deno.test("a store that comes back empty gets its master key back, so that a replica that restarts has the same", async () => {
  await using world = new World(memoryStore());
  const one = await world.start();
  const key = await keyOf(one);
  await empty(world.store);
  await world.wait(2);
  const other = await world.start();
  assertEquals(await keyOf(other), key);
  assertEquals([await healthOf(one), await healthOf(other)], [
    HEALTHY, // no variable was ever set, so that none is lost
    HEALTHY,
  ]);
});

Deno.test("a store that is older than what was read, but not empty, is believed", async () => {
  await using world = new World(memoryStore());
  await world.set({ A: "older" });
  const gate = await world.start();
  const keys = [VARIABLES_HEAD_KEY, ["variable", "A"]];
  const backup = await world.store.getMany(keys);
  await world.set({ A: "newer", B: "newer" });
  assertEquals(await publicValues(gate), { A: "newer", B: "newer" });
  await empty(world.store);
  await world.store.commit([], backup.map((entry) => entry!));
  await world.wait(10);
  assertEquals(await publicValues(gate), { A: "older" });
  assertEquals([await healthOf(gate), gate.logged("rep.store.emptied")], [
    HEALTHY,
    [],
  ]);
});

/** Checks that both gateways have the values, and say that the store had lost some. */
async function assertRestored(
  { gates, store }: World,
  values: Record<string, string>,
) {
  const states = [];
  for (const gate of gates) {
    states.push([await publicValues(gate), await healthOf(gate)]);
    assertEquals(gate.logged("rep.store.emptied").length, 1);
  }
  assertEquals(states, gates.map(() => [values, EMPTIED]));
  const stored = await listVariables(store);
  const entries = stored.map(({ name, value }) => [name, value]);
  assertEquals(Object.fromEntries(entries), values);
}

const BEFORE = { A: "set", B: "set" };

/** What is written to the store after it was emptied and before a gateway has looked, and what is stored in the end. */
const FIRST_WRITES: Record<
  string,
  [(Record<string, string | undefined>)[], Record<string, string>]
> = {
  "another variable": [[{ C: "new" }], { ...BEFORE, C: "new" }],
  "a lost variable": [[{ A: "new" }], { A: "new", B: "set" }],
  "all lost variables": [[{ A: "new", B: "new" }], { A: "new", B: "new" }],
  "more variables than were lost": [
    [{ C: "1", D: "1", E: "1", F: "1" }],
    { ...BEFORE, C: "1", D: "1", E: "1", F: "1" },
  ],
  "several writes": [
    [{ C: "1" }, { C: "2" }, { D: "1" }],
    { ...BEFORE, C: "2", D: "1" },
  ],
  "a lost variable, which is removed again": [
    [{ B: "1" }, { B: undefined }],
    { A: "set" },
  ],
};

for (const [what, [writes, values]] of Object.entries(FIRST_WRITES)) {
  for (const options of [{ hotReload: true }, { hotReload: false }]) {
    const mode = options.hotReload ? "" : ", without hot reload";
    testWithStores(
      `a set that arrives first in an emptied store does not hide the loss: ${what}${mode}`,
      async (inner) => {
        await using world = new World(inner);
        const { store, clock } = world;
        await world.set({ OLD: "1" });
        await world.set({ OLD: undefined });
        await world.set(BEFORE);
        await world.start(options);
        await world.start(options);
        await empty(store);
        for (const values of writes) {
          await setStoredVariables(store, values, { clock });
        }
        await world.wait(8);
        await assertRestored(world, values);
        await world.gates[0]?.gateway.reload({ isRequested: true });
        await world.wait(8);
        assertEquals(await healthOf(world.gates[0]!), HEALTHY);
      },
    );
  }
}

/** Clocks of who writes first, in milliseconds after that of who wrote before. */
const SKEWS = [-86_400_000, 86_400_000];

for (const skew of SKEWS) {
  testWithStores(
    `a set that arrives first hides no loss, whatever its clock says: ${skew} ms`,
    async (inner) => {
      await using world = new World(inner);
      const { store, clock } = world;
      await world.set(BEFORE);
      await world.start();
      await world.start();
      await empty(store);
      const other = new FakeClock(clock.now() + skew);
      await setStoredVariables(store, { C: "new" }, { clock: other });
      await world.wait(8);
      await assertRestored(world, { ...BEFORE, C: "new" });
      await world.set({ C: "newer" });
      assertEquals(await publicValues(world.gates[1]!), {
        ...BEFORE,
        C: "newer",
      });
    },
  );
}

testWithStores(
  "each replica reports the loss, also one that looks when another has written the variables back, and what was unset since stays so",
  async (inner) => {
    await using world = new World(inner);
    await world.set(BEFORE);
    await world.start();
    let isCutOff = false;
    const late = fallibleStore(world.store, () => isCutOff);
    await world.start({ store: late });
    isCutOff = true;
    await empty(world.store);
    await world.wait(4);
    await world.set({ A: undefined });
    isCutOff = false;
    await world.wait(10);
    const values = { A: "file", B: "set" };
    for (const gate of world.gates) {
      assertEquals(await publicValues(gate), values);
      assertEquals(await healthOf(gate), EMPTIED);
    }
    const names = (await listVariables(world.store)).map(({ name }) => name);
    assertEquals(names, ["B"]);
  },
);

testWithStores(
  "the loss of a store that an older version has written is found as well, and that version's writes are no loss",
  async (inner) => {
    await using world = new World(inner);
    const { store, clock } = world;
    /** Writes the head as versions before the lineage do. */
    const writeAsBefore = async (values: Record<string, string>) => {
      await setStoredVariables(store, values, { clock });
      const { id, writes } = (await readHead(store))!.value;
      const value = { id, writes };
      await store.commit([], [{ key: VARIABLES_HEAD_KEY, value }]);
      await world.wait(4);
    };
    await world.set({ A: "set" });
    await world.start();
    await writeAsBefore({ B: "older" });
    await world.set({ B: "set" });
    await writeAsBefore({ B: "set" });
    await world.start();
    for (const gate of world.gates) {
      assertEquals(await healthOf(gate), HEALTHY);
      assertEquals(await publicValues(gate), BEFORE);
    }
    await empty(store);
    await world.set({ C: "new" });
    await world.wait(8);
    await assertRestored(world, { ...BEFORE, C: "new" });
  },
);

Deno.test("nothing is written to a store that lacks what a gateway has read, until that is written back", async () => {
  await using world = new World(memoryStore());
  const { store, clock } = world;
  await world.set({ A: "set" });
  await world.start();
  await store.commit([], [
    { key: VARIABLES_HEAD_KEY },
    { key: ["variable", "A"] },
    ...(await store.list(["write"])).map(({ key }) => ({ key })),
  ]);
  for (const values of [{ B: "1" }, { A: undefined }]) {
    await assertRejects(
      () => setStoredVariables(store, values, { clock }),
      StoreUnavailableError,
      "it came back without its variables, and the gateways are writing them back; some of it may have been written: repeat it",
    );
  }
  await world.wait(4);
  await world.set({ B: "1" });
  assertEquals(await publicValues(world.gates[0]!), { A: "set", B: "1" });
});
