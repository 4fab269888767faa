/** A gateway that starts while a value in its store is invalid under its manifest. */
import {
  assertEquals,
  assertLess,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { ConfigurationError } from "../src/core/config/variables/snapshot.ts";
import type { Member } from "../src/core/rollout/observation.ts";
import type { Store } from "../src/core/store/store.ts";
import { memoryStore } from "../src/engines/memory.ts";
import { undoWrite } from "../src/stored/undo_write.ts";
import { writeVariables } from "../src/stored/write_variables.ts";
import { FakeClock } from "../tools/fake_clock.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { fallibleStore } from "./_store.ts";

const START = 1_700_000_000_000;
const MANIFEST = `version: "0.1.0"
variables:
  PLAN: { tier: public, type: enum, values: [free, pro] }
  N: { tier: public, type: number, default: "1" }
`;

/** One store, and the gateways on it, whose env file says `free`. */
class World {
  readonly clock = new FakeClock(START);
  readonly store: Store = memoryStore();
  /** From when until when gateways cannot use the store. */
  outage = { from: 0, until: 0 };

  async start(
    manifest = MANIFEST,
    { hotReload = true, startWithoutStore = false } = {},
  ): Promise<TestGateway> {
    const starting = setUp({ REP_PUBLIC_PLAN: "free" }, {
      store: fallibleStore(this.store, () => this.#isDown),
      clock: this.clock,
      manifest,
      hotReload,
      startWithoutStore,
    });
    return await this.clock.tickUntil(starting, 250);
  }

  get #isDown(): boolean {
    const now = this.clock.now();
    return this.outage.from <= now && now < this.outage.until;
  }

  async set(name: string, value: string): Promise<number> {
    const [write] = await writeVariables(
      this.store,
      new Map([[name, value]]),
      { clock: this.clock, random: () => 0, ifId: undefined },
    );
    return write?.id ?? 0;
  }

  async undo(id: number): Promise<void> {
    const undoing = undoWrite(this.store, {
      id,
      cause: { command: "undo" },
      clock: this.clock,
      random: () => 0,
      validate: () => Promise.resolve(),
    });
    await this.clock.tickUntil(undoing, 50);
  }

  /** What a gateway has published, which is closed then. */
  async publish(...values: string[]): Promise<void> {
    const gate = await this.start();
    for (const value of values) {
      await this.set("PLAN", value);
      await gate.gateway.reload();
      assertEquals(await planOf(gate), value);
    }
    await gate.gateway.close();
  }

  /** Adds the entry of another process. */
  async addMember(heartbeatAt = this.clock.now()): Promise<void> {
    const member: Member = { hash: "x", rank: 0, heartbeatAt };
    await this.store.commit([], [{ key: ["member", "x"], value: member }]);
  }

  async entries(): Promise<number> {
    return (await this.store.list(["event"])).length;
  }
}

async function planOf({ gateway }: TestGateway): Promise<unknown> {
  const headers = { "content-type": "text/html" };
  const page = new Response("<head></head>", { headers });
  const text = await (await gateway.inject(page)).text();
  const [, payload = ""] = /<script[^>]*>(.*)<\/script>/.exec(text) ?? [];
  return JSON.parse(payload).public.PLAN;
}

async function healthOf(gate: TestGateway): Promise<unknown[]> {
  const { status, problems } = await (await gate.ask("/rep/health")).json();
  return [status, problems];
}

Deno.test("a start with an invalid value in the store has what was published before, publishes nothing, and recovers", async () => {
  const world = new World();
  await world.publish("pro");
  const id = await world.set("PLAN", "premium");
  const events = await world.entries();
  await using gate = await world.start();
  assertLess(world.clock.now(), START + 6_000); // nobody may live, so it does not wait
  assertEquals(await planOf(gate), "pro");
  assertEquals(gate.gateway.get("PLAN"), "pro");
  assertEquals(await healthOf(gate), ["degraded", ["config_rejected"]]);
  const [{ detail, level } = {}] = gate.logged("rep.start.warning");
  assertEquals(level, "WARN");
  assertStringIncludes(String(detail), "undo ID");
  const [rejected] = gate.logged("rep.config.rejected");
  assertStringIncludes(JSON.stringify(rejected), "REP_PUBLIC_PLAN");
  for (let i = 0; i < 60; i++) await world.clock.tick(250);
  assertEquals(await world.entries(), events);
  assertEquals((await world.store.list(["member"])).length, 1); // that of the gateway before

  await world.undo(id);
  for (let i = 0; i < 12; i++) await world.clock.tick(250);
  assertEquals(await healthOf(gate), ["healthy", undefined]);
  await world.set("PLAN", "free");
  for (let i = 0; i < 12; i++) await world.clock.tick(250);
  assertEquals(await planOf(gate), "free");
  assertEquals(await world.entries() > events, true);
});

Deno.test("a value that was never published is left out", async () => {
  const world = new World();
  await world.publish("pro");
  await world.set("N", "many");
  await using gate = await world.start();
  assertEquals([gate.gateway.get("N"), gate.gateway.get("PLAN")], ["1", "pro"]);
});

Deno.test("such a start fails while another process lives, and not because of one that was killed", async () => {
  const world = new World();
  await world.publish("pro");
  await world.set("PLAN", "premium");
  await world.addMember();
  const beat = world.clock.after(5_000, () => void world.addMember());
  const error = await assertRejects(() => world.start(), ConfigurationError);
  assertStringIncludes(error.message, "REP_PUBLIC_PLAN is in the store");
  beat();
  await using gate = await world.start(); // its heartbeats have ended
  assertEquals(await healthOf(gate), ["degraded", ["config_rejected"]]);
});

/** A world with an invalid value, whose store fails while a start waits for heartbeats. */
async function failingWorld(): Promise<World> {
  const world = new World();
  await world.publish("pro");
  await world.set("PLAN", "premium");
  await world.addMember();
  const now = world.clock.now();
  world.outage = { from: now + 3_000, until: now + 20_000 };
  return world;
}

Deno.test("such a start waits until the store says whether another process lives, or says at once what is invalid if it may start without it", async () => {
  for (const isLiving of [false, true]) {
    const world = await failingWorld();
    const beat = () => isLiving ? world.addMember() : undefined;
    const beats = [5_000, 24_000].map((ms) => world.clock.after(ms, beat));
    await using gate = await world.start();
    assertEquals(gate.logged("rep.start.waiting").length, 1);
    assertEquals((await gate.ask("/rep/health")).status, 503);
    const ready = world.clock.tickUntil(gate.gateway.ready, 250);
    if (isLiving) await assertRejects(() => ready, ConfigurationError);
    else await ready;
    beats.forEach((stop) => stop());
  }
  const other = await failingWorld();
  const start = () => other.start(MANIFEST, { startWithoutStore: true });
  await assertRejects(start, ConfigurationError, "PLAN");
});

Deno.test("such a start fails at once if nothing valid was published, or if something else is invalid, or without hot reload", async () => {
  const world = new World();
  await world.set("PLAN", "premium");
  await assertRejects(() => world.start(), ConfigurationError);
  const other = new World();
  await other.publish("pro");
  await other.set("PLAN", "premium");
  await other.addMember(); // a start that waits for others would move the clock
  const required = `${MANIFEST}  X: { tier: server, required: true }\n`;
  await assertRejects(() => other.start(required), ConfigurationError);
  const free = MANIFEST.replace(", pro", "");
  await assertRejects(() => other.start(free), ConfigurationError);
  await assertRejects(
    () => other.start(MANIFEST, { hotReload: false }),
    ConfigurationError,
  );
  assertLess(other.clock.now(), START + 6_000);
});
