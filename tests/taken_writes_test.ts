import { assertEquals, assertLess, assertStringIncludes } from "@std/assert";
import {
  listVariables,
  readHistory,
} from "../src/core/config/stored/stored_variables.ts";
import type { GatewayOptions } from "../src/options.ts";
import type { Member } from "../src/core/rollout/observation.ts";
import { memoryStore } from "../src/engines/memory.ts";
import type { Store } from "../src/core/store/store.ts";
import { FakeClock } from "../tools/fake_clock.ts";
import { runWith } from "./command/commands/_run.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { TempDirectory } from "./_temp.ts";
import { fallibleStore, remoteStore } from "./_store.ts";

const START = 1_700_000_000_000;
const NO_GATEWAY =
  "Written; no gateway with --hot-reload is running here (check --kv, --app and --port if one should), " +
  "and others, or one that has started with an invalid value in the store, do not report what they have taken";
/** Rejects letters for N. */
const STRICT = 'version: "0.1.0"\nvariables: {N: {tier: public, type: number}}';

/** Gateways and commands on one store. */
class World implements AsyncDisposable {
  readonly clock = new FakeClock(START);
  readonly store = memoryStore();
  /** Where commands look for a manifest. */
  directory = "no/";
  readonly #gates: TestGateway[] = [];

  async start(
    place: string,
    options: GatewayOptions = {},
  ) {
    const gate = await setUp({ REP_PUBLIC_A: "0" }, {
      store: remoteStore(this.store),
      clock: this.clock,
      instanceId: place,
      ...options,
    });
    this.#gates.push(gate);
    return gate;
  }

  /** Runs a command to its end. */
  async run(line: string, store: Store = this.store) {
    const running = this.#run(line, store, this.clock);
    return await this.clock.tickUntil(running, 50);
  }

  /** Runs a command for which no time passes: it never ends if it waits. */
  async runAtOnce(line: string) {
    return await this.#run(line, this.store, new FakeClock(START));
  }

  #run(line: string, store: Store, clock: FakeClock) {
    return runWith([...line.split(" "), "--kv=kv.sqlite3"], {
      openStore: () => Promise.resolve(remoteStore(store)),
      directory: this.directory,
      clock,
    });
  }

  /** Writes the entry of a process that was killed. */
  async addDead(heartbeatAt: number) {
    const member: Member = { hash: "x", rank: 0, heartbeatAt };
    await this.store.commit([], [{ key: ["member", "dead"], value: member }]);
  }

  async [Symbol.asyncDispose]() {
    for (const gate of this.#gates) await gate[Symbol.asyncDispose]();
  }
}

Deno.test("set says how many gateways have taken the write, as soon as all have", async () => {
  await using world = new World();
  await world.start("a:1");
  const { code, err } = await world.run("set B=1");
  assertEquals([code, err], [0, ["Taken by 1 gateway"]]);
  assertLess(world.clock.now(), START + 6_000);
  const second = await world.start("b:1");
  assertEquals((await world.run("set B=2")).err, ["Taken by 2 gateways"]);
  assertEquals(second.gateway.get("B"), "2");
  assertEquals((await world.run("unset B")).err, ["Taken by 2 gateways"]);
  assertEquals(second.gateway.get("B"), undefined);
});

Deno.test("set says that a gateway has taken a write whose value is the same", async () => {
  await using world = new World();
  await world.start("a:1");
  await world.run("set A=0");
  assertEquals((await world.run("set A=0")).err, ["Taken by 1 gateway"]);
});

Deno.test("set says that a gateway has taken the write whose sources are invalid", async () => {
  await using world = new World();
  const gate = await world.start("a:1");
  await gate.set({ REP_PUBLIC_A: "1", REP_SERVER_A: "1" }).catch(() => {}); // is rejected
  const { code, err } = await world.run("set B=banner");
  assertEquals([code, err], [0, ["Taken by 1 gateway"]]);
  assertEquals(gate.gateway.get("B"), "banner");
});

Deno.test("set exits with 3 and names the gateways if all that run reject the write", async () => {
  await using world = new World();
  await world.start("a:1", { manifest: STRICT });
  await world.start("b:1\x1b[31m", { manifest: STRICT });
  const { code, err } = await world.run("set N=one");
  const [{ id } = { id: 0 }] = await listVariables(world.store);
  assertEquals([code, err.slice(1)], [3, [
    `The first write that they have not taken is of REP_PUBLIC_N; to take that back, use: undo ${id}, or: unset REP_PUBLIC_N`,
  ]]);
  const [message = ""] = err;
  assertStringIncludes(message, "Written, but not taken by ");
  assertStringIncludes(message, "a:1");
  assertStringIncludes(message, "b:1\\u001b[31m");
  assertStringIncludes(
    message,
    " within 6 s: look for rep.config.rejected in the log there. The store has the new values until you set or unset them again",
  );
  assertEquals((await listVariables(world.store)).length, 1);
  assertEquals((await world.run("unset N")).err, ["Taken by 2 gateways"]);
});

Deno.test("set that exits with 3 names what the manifest rejects, also if somebody else wrote it, and undo mends it", async () => {
  await using world = new World();
  await using files = await TempDirectory.make({ "m.yaml": STRICT });
  await world.start("a:1", { manifest: STRICT });
  await world.run("set N=1");
  await world.run("set N=one");
  const ids = (await listVariables(world.store)).map(({ id }) => id);
  const manifest = `--manifest=${files.at("m.yaml")}`;
  const { code, err } = await world.run(`set B=2 ${manifest}`);
  assertEquals([code, err.length], [3, 3]); // B is not declared
  const [, rejected = ""] = err;
  assertStringIncludes(rejected, "Cannot use REP_PUBLIC_N: expected a number");
  assertStringIncludes(
    rejected,
    `; to take that back, use: undo ${ids[0]}, or: unset REP_PUBLIC_N`,
  );
  const undone = await world.run(`undo ${ids[0]} ${manifest}`);
  assertEquals([undone.code, undone.err.at(-1)], [0, "Taken by 1 gateway"]);
});

Deno.test("set that exits with 3 without the manifest names the first write that was not taken", async () => {
  await using world = new World();
  await world.start("a:1", { manifest: STRICT });
  await world.run("set C=1");
  await world.run("set N=one");
  await world.run("set B=1");
  const { code, err } = await world.run("set C=2");
  const stored = await listVariables(world.store);
  const id = stored.find(({ name }) => name === "N")?.id;
  assertEquals([code, err.slice(1)], [3, [
    `The first write that they have not taken is of REP_PUBLIC_N; to take that back, use: undo ${id}, or: unset REP_PUBLIC_N`,
  ]]);
  assertEquals((await world.run(`undo ${id}`)).code, 0);
});

Deno.test("unset that exits with 3 names its own write", async () => {
  await using world = new World();
  await world.run("set N=1");
  await world.start("b:1", {
    manifest: STRICT.replace("number", "number, required: true"),
  });
  const { code, err } = await world.run("unset N");
  const [{ id } = { id: 0 }] = await readHistory(world.store, 1);
  assertEquals([code, err.slice(1)], [3, [
    `To take this back, use: undo ${id}`,
  ]]);
});

Deno.test("set that exits with 3 recommends unset as well: undo may bring back what is just as invalid", async () => {
  await using world = new World();
  await using files = await TempDirectory.make({ ".rep.yaml": STRICT });
  await world.start("a:1", { manifest: STRICT });
  await world.run("set N=one");
  await world.run("set N=two");
  world.directory = `${files.path}/`;
  const { err } = await world.run("set B=1");
  const [, id, name] = /undo (\d+), or: (unset \w+)$/.exec(err[1] ?? "") ??
    [];
  assertEquals((await world.run(`undo ${id}`)).code, 1);
  assertEquals((await world.run(name ?? "")).err, ["Taken by 1 gateway"]);
});

Deno.test("set that exits with 3 names what strict gateways reject, but no quotes, which they do not reject", async () => {
  await using world = new World();
  const manifest = STRICT + "\nsettings: {strict_guardrails: true}";
  await using files = await TempDirectory.make({ ".rep.yaml": manifest });
  await world.start("a:1", { strict: true });
  await world.run(`set Q='a' K=ghp_${"a1B2".repeat(9)} --force`);
  world.directory = `${files.path}/`;
  const { code, err } = await world.run("set B=1");
  assertEquals([code, err.length], [3, 3]); // B is not declared
  assertStringIncludes(err[1] ?? "", "REP_PUBLIC_K");
});

Deno.test("set names what the manifest rejects also if no gateway reports, as after a start with an invalid value", async () => {
  await using world = new World();
  await using files = await TempDirectory.make({ ".rep.yaml": STRICT });
  await world.runAtOnce("set N=one");
  world.directory = `${files.path}/`;
  const { code, err } = await world.runAtOnce("set B=1");
  assertEquals([code, err.length], [0, 3]);
  assertStringIncludes(err[1] ?? "", "Cannot use REP_PUBLIC_N");
});

/** Manifests of whoever runs the command, and what is wrong with them. */
const BROKEN = {
  [STRICT.replace("N:", "M:").replace("number", "number, default: x")]:
    'Cannot use the default of REP_PUBLIC_M in the manifest ".rep.yaml": expected a number, got "x"',
  [STRICT.replace("0.1.0", "1")]:
    'Cannot use the manifest ".rep.yaml:1": version: expected a quoted version such as "0.1.0", got "1"',
};

for (const [manifest, issue] of Object.entries(BROKEN)) {
  Deno.test(`unset that exits with 3 names the first write that was not taken if nobody can use the manifest: ${issue}`, async () => {
    await using world = new World();
    await using files = await TempDirectory.make({ ".rep.yaml": manifest });
    await world.start("a:1", { manifest: STRICT });
    await world.run("set A=1 B=1");
    await world.run("set N=one");
    world.directory = `${files.path}/`;
    const { code, err } = await world.run("unset B");
    const [, { id } = { id: 0 }] = await readHistory(world.store, 2);
    const advice =
      `The first write that they have not taken is of REP_PUBLIC_N; to take that back, use: undo ${id}, or: unset REP_PUBLIC_N`;
    const named = issue.replace(".rep.yaml", `${files.path}/.rep.yaml`);
    assertEquals([code, err.slice(1)], [3, [named, advice]]);
  });
}

Deno.test("set exits with 0 and names the gateways if some reject the write", async () => {
  await using world = new World();
  await world.start("a:1", { manifest: STRICT });
  await world.start("b:1");
  const { code, err } = await world.run("set N=one");
  assertEquals([code, err], [0, [
    "Taken by 1 gateway, but not by a:1 within 6 s: look for rep.config.rejected in the log there. The store has the new values until you set or unset them again",
  ]]);
  const { out } = await world.run("set N=two --json");
  const [{ taken_by, not_taken_by }] = JSON.parse(out.join("\n"));
  assertEquals([taken_by, not_taken_by], [["b:1"], ["a:1"]]);
});

Deno.test("set does not wait where no gateway with hot reload is running, and exits with 0", async () => {
  await using world = new World();
  const gate = await world.start("a:1", { hotReload: false });
  const stopped = await world.start("b:1");
  await stopped.gateway.close();
  const { code, err } = await world.runAtOnce("set B=1");
  assertEquals([code, err], [0, [NO_GATEWAY]]);
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  gate.gateway.onChange("B", resolve);
  assertEquals(await world.clock.tickUntil(promise, 250), "1");
});

Deno.test("set does not count a gateway that was killed", async () => {
  await using world = new World();
  await world.start("a:1");
  await world.addDead(START);
  const { code, err } = await world.run("set B=1");
  assertEquals([code, err], [0, ["Taken by 1 gateway"]]);
});

Deno.test("set does not wait for a gateway that was killed long ago", async () => {
  await using world = new World();
  await world.addDead(START - 600_001);
  const { code, err } = await world.runAtOnce("set B=1");
  assertEquals([code, err], [0, [NO_GATEWAY]]);
});

Deno.test("set says that it does not know who has taken the write if the store then fails, and exits with 0", async () => {
  await using world = new World();
  await world.start("a:1");
  let hasWritten = false;
  const failing = fallibleStore(world.store, () => hasWritten);
  const commit: Store["commit"] = async (...args) => {
    const version = await failing.commit(...args);
    hasWritten = true;
    return version;
  };
  const { code, err } = await world.run("set B=1", { ...failing, commit });
  assertEquals([code, err], [0, [
    "Written; whether a gateway has taken it is unknown: Cannot use the store: down",
  ]]);
});
