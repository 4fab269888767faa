import { assertEquals, assertRejects } from "@std/assert";
import { writeVariables } from "../src/stored/write_variables.ts";
import { ConfigurationError } from "../src/core/config/variables/snapshot.ts";
import type { GatewayOptions } from "../src/options.ts";
import type { Environment } from "../src/core/config/variables/tiers.ts";
import { memoryStore } from "../src/engines/memory.ts";
import type { Store } from "../src/core/store/store.ts";
import { FakeClock } from "../tools/fake_clock.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { delegate, replicatedStore } from "./_store.ts";

const COLLISION =
  "Cannot use REP_PUBLIC_S and REP_SENSITIVE_S: expected a name in one tier only";
const STORED_COLLISION =
  `${COLLISION}; REP_PUBLIC_S is in the store: set or unset it`;

Deno.test("a stored variable takes precedence over the environment, and becomes active by itself", async () => {
  const store = memoryStore();
  const clock = new FakeClock();
  const options = { clock, random: () => 0, ifId: undefined };
  await using gate = await setUp({
    REP_PUBLIC_A: "environment",
    REP_PUBLIC_B: "1",
  }, { store, clock, random: () => 0 });
  const reader = await gate.listen();
  const nextChange = async () =>
    (await reader.take(1)).map(({ data }) => [data.key, data.value]);
  await writeVariables(store, new Map([["A", "store"]]), options);
  await clock.tick(1_000);
  assertEquals(await nextChange(), [["A", "store"]]);
  await gate.set({ REP_PUBLIC_A: "environment 2", REP_PUBLIC_B: "2" });
  assertEquals(await nextChange(), [["B", "2"]]);
  await writeVariables(store, new Map([["A", undefined]]), options);
  await clock.tick(1_000);
  assertEquals(await nextChange(), [["A", "environment 2"]]);
  await reader.close();
});

Deno.test("rep.config.changed says by what a value changed, and who wrote it to the store", async () => {
  const store = memoryStore();
  const clock = new FakeClock();
  const write = async (name: string, value: string | undefined, by: string) => {
    await writeVariables(store, new Map([[name, value]]), {
      clock,
      random: () => 0,
      ifId: undefined,
      cause: { command: "set", by, why: "a test\n" },
    });
  };
  await write("OLD", "1", "al");
  await write("GONE", "1", "al");
  await write("GONE", undefined, "al");
  const variables = { REP_PUBLIC_A: "1", REP_PUBLIC_GONE: "2" };
  await using gate = await setUp(variables, { store, clock }, {
    sourceOf: (name) => `file of ${name}`,
  });
  const taken = () =>
    gate.lines.splice(0).filter(({ msg }) => msg === "rep.config.changed")
      .map(({ key, source, by, why }) => [key, source, by, why]);
  const [a, gone] = ["A", "GONE"].map((it) => `file of REP_PUBLIC_${it}`);
  assertEquals(taken(), [
    ["A", a, undefined, undefined],
    ["GONE", gone, undefined, undefined],
    ["OLD", "store", "al", "a test\n"],
  ]);
  await write("A", "2", "bo");
  await clock.tick(1_000);
  assertEquals(taken(), [["A", "store", "bo", "a test\n"]]);
  await write("A", undefined, "ci");
  await write("OLD", undefined, "di");
  await clock.tick(1_000);
  assertEquals(taken(), [
    ["A", "store", "ci", "a test\n"],
    ["OLD", "store", "di", "a test\n"],
  ]);
  await gate.set({ REP_PUBLIC_A: "3" });
  assertEquals(taken(), [
    ["A", a, undefined, undefined],
    ["GONE", gone, undefined, undefined],
  ]);
  await write("NEW", "1", "ed");
  await gate.set({ REP_PUBLIC_A: "3", REP_PUBLIC_OLD: "2" });
  assertEquals(taken(), [
    ["NEW", "store", "ed", "a test\n"],
    ["OLD", "file of REP_PUBLIC_OLD", undefined, undefined],
  ]);
});

Deno.test("rep.config.changed names who wrote the value, also if somebody writes while the history is read", async () => {
  const inner = memoryStore();
  const clock = new FakeClock();
  const write = async (value: string, by: string) => {
    await writeVariables(inner, new Map([["A", value]]), {
      clock,
      random: () => 0,
      ifId: undefined,
      cause: { by },
    });
  };
  let isLate = true;
  const list: Store["list"] = async <T>(
    ...[prefix, options]: Parameters<Store["list"]>
  ) => {
    const entries = await inner.list<T>(prefix, options);
    if (prefix[0] === "write" && isLate) {
      isLate = false;
      await write("3", "late");
    }
    return entries;
  };
  const store = { ...delegate(inner), list };
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, { store, clock });
  await write("2", "al");
  await gate.gateway.reload();
  await clock.tick(10_000);
  const [, ...lines] = gate.logged("rep.config.changed");
  assertEquals(lines.map(({ source, by }) => [source, by]), [
    ["store", "late"], // nobody has seen the value before
  ]);
});

Deno.test("rep.config.changed is logged although the history cannot be read", async () => {
  const inner = memoryStore();
  const clock = new FakeClock();
  let isBroken = false;
  const list: Store["list"] = (prefix, options) =>
    isBroken && prefix[0] === "write"
      ? Promise.reject(new Error("down"))
      : inner.list(prefix, options);
  const store = { ...delegate(inner), list };
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, { store, clock });
  const options = { clock, random: () => 0, ifId: undefined };
  await writeVariables(inner, new Map([["A", "2"]]), options);
  isBroken = true;
  await clock.tick(1_000);
  const [, line] = gate.logged("rep.config.changed");
  assertEquals([line?.key, line?.source], ["A", undefined]);
});

Deno.test("a stored variable that conflicts with the environment changes nothing", async () => {
  const store = memoryStore();
  const clock = new FakeClock();
  await using gate = await setUp({ REP_PUBLIC_A: "1", REP_SENSITIVE_S: "x" }, {
    store,
    clock,
    random: () => 0,
  });
  await writeVariables(store, new Map([["S", "public"]]), {
    clock,
    random: () => 0,
    ifId: undefined,
  });
  await clock.tick(1_000);
  const health = await (await gate.ask("/rep/health")).json();
  assertEquals([health.status, health.variables], ["degraded", {
    public: 1,
    sensitive: 1,
    server: 0,
  }]);
  const [rejected] = gate.logged("rep.config.rejected");
  assertEquals(rejected?.issues, [STORED_COLLISION]);
});

const SOURCES: Environment = { REP_PUBLIC_A: "file", REP_SENSITIVE_S: "x" };
const AWS_KEY = "AKIAIOSFODNN7EXAMPLE";

/** Replicas on one store, of which each test breaks the sources of the first. */
class World implements AsyncDisposable {
  readonly store: Store;
  readonly clock = new FakeClock(1_700_000_000_000);
  readonly gates: TestGateway[] = [];
  /** Reads the sources of the first gateway. */
  variables = () => SOURCES;

  constructor(store: Store = memoryStore()) {
    this.store = store;
  }

  async start(options: GatewayOptions = {}) {
    const isFirst = this.gates.length === 0;
    const variables = isFirst ? () => this.variables() : SOURCES;
    const { store, clock } = this;
    const gate = await setUp({}, { store, clock, variables, ...options });
    this.gates.push(gate);
    return gate;
  }

  /** Writes variables to the store, and waits until the first gateway has logged so many more reloads. */
  async write(
    values: Record<string, string | undefined>,
    reloads: number,
  ) {
    const [gate] = this.gates;
    const count = () => gate === undefined ? 0 : reloadsOf(gate).length;
    const end = count() + reloads;
    const options = { clock: this.clock, random: () => 0, ifId: undefined };
    const all = new Map(Object.entries(values));
    await writeVariables(this.store, all, options);
    while (count() < end) await this.clock.tick(250);
  }

  async [Symbol.asyncDispose]() {
    for (const gate of this.gates) await gate[Symbol.asyncDispose]();
  }
}

/** What the log says of reloads: the issues of those that were rejected, the details of others that changed something. */
function reloadsOf({ lines }: TestGateway): unknown[] {
  const found = lines.filter(({ msg, level }) =>
    /^rep\.config\.(rejected|reloaded)$/.test(String(msg)) && level !== "DEBUG"
  );
  return found.map(({ issues, detail }) => issues ?? detail);
}

async function healthOf(gate: TestGateway) {
  const { status, problems, guardrails } = await (await gate.ask("/rep/health"))
    .json();
  return [status, problems, guardrails.blocked];
}

const STORED_ONLY = "variables in the store only: see rep.config.rejected";

/** Sources that cannot be read, or are invalid, and the issue. */
const BROKEN: Record<string, readonly [() => Environment, string]> = {
  "cannot be read": [() => {
    throw new ConfigurationError(["no such file"]);
  }, "no such file"],
  "are invalid": [
    () => ({ ...SOURCES, REP_PUBLIC_S: "", REP_PUBLIC_A: "new" }),
    COLLISION,
  ],
  "have lost all variables": [
    () => ({}),
    "Cannot use the variables: expected some, as before, got none; to remove them all on purpose, restart",
  ],
};

for (const [kind, [broken, issue]] of Object.entries(BROKEN)) {
  Deno.test(`a stored variable applies while the sources ${kind}, over those that were last valid`, async () => {
    await using world = new World();
    const gate = await world.start();
    const stream = await gate.listen();
    world.variables = broken;
    await world.write({ B: "banner" }, 2);
    assertEquals(await stream.takeValues(1), ["banner"]);
    assertEquals(["A", "B"].map(gate.gateway.get), ["file", "banner"]);
    assertEquals(await healthOf(gate), ["degraded", ["config_rejected"], 0]);
    assertEquals(reloadsOf(gate), [[issue], STORED_ONLY]);
    await world.write({ A: "store", B: undefined }, 1);
    assertEquals(["A", "B"].map(gate.gateway.get), ["store", undefined]);
    assertEquals(reloadsOf(gate), [[issue], STORED_ONLY, STORED_ONLY]);
    world.variables = () => ({ ...SOURCES, REP_PUBLIC_C: "new" });
    await gate.gateway.reload();
    assertEquals(["A", "C"].map(gate.gateway.get), ["store", "new"]);
    assertEquals((await healthOf(gate))[0], "healthy");
    await stream.close();
  });
}

Deno.test("a reload of sources that are invalid rejects, also if a stored variable applies with it", async () => {
  await using world = new World();
  const gate = await world.start({ hotReload: false });
  const [broken = () => ({})] = BROKEN["cannot be read"] ?? [];
  world.variables = broken;
  const options = { clock: world.clock, random: () => 0, ifId: undefined };
  await writeVariables(world.store, new Map([["B", "1"]]), options);
  await assertRejects(() => gate.gateway.reload(), Error, "no such file");
  assertEquals(gate.gateway.get("B"), "1");
});

Deno.test("a stored variable that is invalid changes nothing while the sources are invalid, and both reasons are named", async () => {
  await using world = new World();
  const gate = await world.start();
  world.variables = () => {
    throw new ConfigurationError(["no such file"]);
  };
  await world.write({ S: "public", B: "1" }, 1);
  assertEquals(gate.gateway.get("B"), undefined);
  assertEquals(reloadsOf(gate), [["no such file", STORED_COLLISION]]);
  await world.write({ S: undefined }, 2);
  assertEquals(gate.gateway.get("B"), "1");
  assertEquals(reloadsOf(gate).slice(1), [
    ["no such file"],
    STORED_ONLY,
  ]);
});

Deno.test("a stored variable that was rejected applies with the next reload after the sources have made room for it", async () => {
  await using world = new World();
  const gate = await world.start();
  const stream = await gate.listen();
  await world.write({ S: "public" }, 1);
  await world.clock.tick(10_000);
  assertEquals([gate.gateway.get("S"), stream.arrived()], [undefined, []]);
  assertEquals(reloadsOf(gate), [[STORED_COLLISION]]);
  world.variables = () => ({ REP_PUBLIC_A: "file", REP_SENSITIVE_T: "x" });
  await gate.gateway.reload();
  assertEquals(await stream.takeValues(1), ["public"]);
  assertEquals(gate.gateway.get("S"), "public");
  await stream.close();
});

Deno.test("strict mode rejects a stored secret once, also while the sources are invalid", async () => {
  await using world = new World();
  const gate = await world.start({ strict: true });
  world.variables = () => ({ ...SOURCES, REP_PUBLIC_A: AWS_KEY });
  await world.write({ B: "1" }, 2);
  assertEquals(gate.gateway.get("B"), "1");
  assertEquals((await healthOf(gate))[2], 1);
  world.variables = () => SOURCES;
  await gate.gateway.reload();
  await world.write({ B: AWS_KEY }, 1);
  assertEquals(gate.gateway.get("B"), "1");
  assertEquals((await healthOf(gate))[2], 2);
});

Deno.test("a replica with invalid sources stays in the deployment of its last valid ones, and publishes nothing else", async () => {
  await using world = new World();
  const first = await world.start();
  const second = await world.start();
  const stream = await second.listen();
  world.variables = () => ({ ...SOURCES, REP_SERVER_A: "2" });
  await world.write({ B: "1" }, 2);
  await world.write({ B: "2" }, 1);
  const values = await world.clock.tickUntil(stream.takeValues(2), 250);
  assertEquals([values, stream.arrived()], [["1", "2"], []]);
  const configurations = world.gates.flatMap(({ lines }) =>
    lines.flatMap(({ configuration }) => configuration ?? [])
  );
  assertEquals(new Set(configurations).size, 1);
  assertEquals(first.gateway.get("B"), "2");
  await stream.close();
});

Deno.test("a gateway does not start with sources that are invalid, whatever is stored", async () => {
  await using world = new World();
  await world.write({ B: "1" }, 0);
  world.variables = () => ({ ...SOURCES, REP_PUBLIC_S: "" });
  await assertRejects(() => world.start(), Error, COLLISION);
});

Deno.test("events that the store has lost are published again while the sources are invalid", async () => {
  const store = replicatedStore();
  await using world = new World(store);
  const gate = await world.start();
  const stream = await gate.listen();
  store.stopReplication();
  world.variables = () => ({ ...SOURCES, REP_PUBLIC_A: "2" });
  await gate.gateway.reload();
  world.variables = () => ({});
  store.failOver();
  await world.clock.tick(2_000);
  const values = await stream.takeValues(2);
  assertEquals(values, ["2", "2"]);
  await stream.close();
});
