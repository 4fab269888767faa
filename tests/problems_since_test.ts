/** Since when there is each problem, in `GET /rep/health`. */
import { assertEquals } from "@std/assert";
import { memoryStore } from "../src/engines/memory.ts";
import { type GatewayOptions, UNKNOWN_PROCESS } from "../src/options.ts";
import { setStoredVariables } from "../src/stored/set_stored_variables.ts";
import { FakeClock } from "../tools/fake_clock.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { fallibleStore } from "./_store.ts";

const START = Date.UTC(2026, 0, 2);
const MINUTE = 60_000;
const VALID = { REP_PUBLIC_A: "1", REP_SENSITIVE_S: "1" };

/** A gateway to which everything can happen. */
class World {
  readonly clock = new FakeClock(START);
  readonly inner = memoryStore();
  isDown = false;
  isReadOnly = false;
  notAfter = START + 365 * 24 * 60 * MINUTE;
  readonly #down = fallibleStore(this.inner, () => this.isDown);
  readonly store = fallibleStore(this.#down, () => this.isReadOnly, {
    operations: ["commit"],
  });

  start(options: GatewayOptions = {}): Promise<TestGateway> {
    const { store, clock } = this;
    const notAfter = () => this.notAfter / 1_000;
    const certificate = { ...UNKNOWN_PROCESS.certificate, notAfter };
    return setUp(VALID, { store, clock, ...options }, { certificate });
  }
}

async function sinceOf(gate: TestGateway): Promise<Record<string, string>> {
  const { problems = [], problems_since = {} } =
    await (await gate.ask("/rep/health")).json();
  assertEquals(Object.keys(problems_since), problems);
  return problems_since;
}

/** How a problem begins, begins for another reason, and ends. */
interface Course {
  readonly begin: (world: World, gate: TestGateway) => unknown;
  readonly again: (world: World, gate: TestGateway) => unknown;
  readonly end: (world: World, gate: TestGateway) => unknown;
}

const rejected = (name: string) => (_world: World, gate: TestGateway) =>
  gate.set({ [`REP_PUBLIC_${name}`]: "1", [`REP_SERVER_${name}`]: "1" })
    .catch(() => {});
const askKey = async (gate: TestGateway) =>
  await (await gate.ask("/rep/session-key")).body?.cancel();

const edit = ({ clock }: World, gate: TestGateway) =>
  gate.set({ ...VALID, REP_PUBLIC_A: `${clock.now()}` });

const COURSES: Readonly<Record<string, Course>> = {
  config_rejected: {
    begin: rejected("A"),
    again: rejected("B"),
    end: (_world, gate) => gate.set(VALID),
  },
  store_unavailable: {
    async begin(world, gate) {
      world.isDown = true;
      await askKey(gate);
    },
    again: (_world, gate) => askKey(gate),
    async end(world) {
      world.isDown = false;
      await world.clock.tick(MINUTE);
    },
  },
  change_waiting: {
    async begin(world, gate) {
      world.isReadOnly = true;
      await edit(world, gate);
    },
    again: edit,
    async end(world) {
      world.isReadOnly = false;
      await world.clock.tick(MINUTE);
    },
  },
  store_emptied: {
    async begin(world, gate) {
      const { clock, inner } = world;
      await setStoredVariables(inner, { A: "set" }, { clock });
      await clock.tickUntil(gate.gateway.reload(), 0);
      const lost = [{ key: ["variables"] }, { key: ["variable", "A"] }];
      await inner.commit([], lost);
      await clock.tickUntil(gate.gateway.reload(), 0);
    },
    again: (_world, gate) => gate.gateway.reload(),
    end: (_world, gate) => gate.gateway.reload({ isRequested: true }),
  },
};

for (const [type, { begin, again, end }] of Object.entries(COURSES)) {
  Deno.test(`${type} has been there since it began, whenever anybody asks, until it ends; later, it is new`, async () => {
    const world = new World();
    const { clock } = world;
    await using gate = await world.start();
    const since = async () => (await sinceOf(gate))[type];
    assertEquals(await since(), undefined);
    for (let round = 1; round <= 2; round++) {
      clock.pass(MINUTE);
      const began = new Date(clock.now()).toISOString();
      await begin(world, gate);
      clock.pass(MINUTE);
      assertEquals(await since(), began); // nobody has asked before
      await again(world, gate);
      clock.pass(MINUTE);
      assertEquals(await since(), began);
      await end(world, gate);
      assertEquals(await since(), undefined);
    }
  });
}

Deno.test("certificate_ended has been there since the certificate's end, but not since before the start", async () => {
  const world = new World();
  const { clock } = world;
  world.notAfter = START + MINUTE;
  await using running = await world.start();
  clock.pass(3 * MINUTE);
  await using started = await world.start();
  clock.pass(MINUTE);
  assertEquals([await sinceOf(running), await sinceOf(started)], [
    { certificate_ended: "2026-01-02T00:01:00.000Z" },
    { certificate_ended: "2026-01-02T00:03:00.000Z" },
  ]);
  world.notAfter = clock.now() + MINUTE;
  assertEquals(await sinceOf(running), {});
  clock.pass(2 * MINUTE);
  assertEquals(await sinceOf(running), {
    certificate_ended: "2026-01-02T00:05:00.000Z",
  });
});

Deno.test("store_unavailable has a time also while the gateway is starting, and none while it is stopping", async () => {
  const world = new World();
  world.isDown = true;
  await using gate = await world.start();
  await world.clock.tick(MINUTE);
  const report = await (await gate.ask("/rep/health")).json();
  assertEquals([report.status, report.problems_since], ["starting", {
    store_unavailable: "2026-01-02T00:00:00.000Z",
  }]);
  gate.gateway.beginShutdown();
  assertEquals(await sinceOf(gate), {});
});

Deno.test("change_waiting begins with the edit, not with the outage that a restart without a change has survived", async () => {
  const world = new World();
  const { clock } = world;
  await (await world.start()).gateway.close();
  world.isReadOnly = true;
  await using gate = await world.start(); // its values are those in the log
  await clock.tick(MINUTE);
  assertEquals((await sinceOf(gate)).change_waiting, undefined);
  const began = new Date(clock.now()).toISOString();
  await gate.set({ ...VALID, REP_PUBLIC_A: "2" });
  await clock.tick(MINUTE);
  assertEquals((await sinceOf(gate)).change_waiting, began);
});
