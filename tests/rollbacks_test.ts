import { assertEquals, assertStringIncludes } from "@std/assert";
import type { GatewayOptions } from "../src/options.ts";
import { memoryStore } from "../src/engines/memory.ts";
import { FakeClock } from "../tools/fake_clock.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { pageValues, shareStore } from "./_replicas.ts";
import { askStatus, readStatus } from "./_status.ts";
import { countedStore } from "./_store.ts";

const PERIOD_MS = 5_000;

/** Advances the time period by period. */
async function pass(clock: FakeClock, ms: number) {
  for (let passed = 0; passed < ms; passed += PERIOD_MS) {
    await clock.tick(PERIOD_MS);
  }
}

/** Starts gateways with the revision and the place of their version: `old` is `v-old`, at `old:8080`. */
async function startReplicas() {
  const replicas = await shareStore();
  const start = (version: string, more: GatewayOptions = {}) =>
    replicas.start({ REP_PUBLIC_A: version }, {
      revision: `v-${version}`,
      instanceId: `${version}:8080`,
      ...more,
    });
  return {
    clock: replicas.clock,
    store: replicas.store,
    start,
    /** Replaces the old version by the new one, so long ago that the store has no entry of the old one any more. */
    async rollOut() {
      const old = await start("old");
      await pass(replicas.clock, 10_000);
      const next = await start("new");
      await pass(replicas.clock, 10_000);
      await old.gateway.close();
      await pass(replicas.clock, 120_000);
      return next;
    },
    [Symbol.asyncDispose]: () => replicas[Symbol.asyncDispose](),
  };
}

/** Returns the log lines about rollbacks. */
function rollbacks({ logged }: TestGateway) {
  return logged("rep.rollout.rollback");
}

/** Returns by what the published variables have changed. */
function sourcesOf({ logged }: TestGateway) {
  return logged("rep.config.changed").map(({ source }) => source);
}

async function statusPage(gate: TestGateway) {
  return await (await askStatus(gate)).text();
}

Deno.test("an old replica that starts long after a rollout is named as a rollback, with when it was last active: log, status, metric", async () => {
  await using replicas = await startReplicas();
  await using next = await replicas.rollOut();
  const { hash } = (await readStatus(next)).configuration;
  assertEquals((await readStatus(next)).configuration.rollback, undefined);
  await using stray = await replicas.start("old");
  await pass(replicas.clock, PERIOD_MS);
  assertEquals(await pageValues(next), { A: "old" });
  assertEquals(
    [sourcesOf(next), sourcesOf(stray)],
    [["variables"], ["rollback"]],
  );

  for (const gate of [next, stray]) {
    const [line, ...more] = rollbacks(gate);
    const { configuration } = await readStatus(gate);
    const { rollback, active, active_revision } = configuration;
    assertEquals(more, []);
    assertEquals([active_revision, line?.active_revision], ["v-old", "v-old"]);
    const last = "2023-11-14T22:13:30.000Z"; // when the new version started
    const detail =
      `rollback from ${hash} (v-new) to ${active} (v-old), last active until ${last}; ` +
      "if not intended, stop the gateway at old:8080 and all others that have it";
    assertEquals(rollback, detail);
    assertEquals(
      [line?.level, line?.active, line?.replaces],
      ["WARN", active, hash],
    );
    assertEquals([line?.replaces_revision, line?.detail], ["v-new", detail]);
    const page = await statusPage(gate);
    assertStringIncludes(page, `This is a ${detail}.`);
    assertEquals(page.includes("newer configuration"), false);
    assertStringIncludes(
      await gate.metric("rep_rollout_active") ?? "",
      `{configuration="${active}",revision="v-old"}`,
    );
  }
  assertStringIncludes(
    await statusPage(next),
    "Pages have the PUBLIC values of an earlier configuration instead of this process&#39;s own.",
  );
  assertEquals(
    next.logged("rep.rollout.superseded").map((line) => [
      line.revision,
      line.active_revision,
    ]),
    [["v-new", "v-old"]],
  );
});

Deno.test("a newer configuration is no rollback: the status page calls it newer, and nothing warns", async () => {
  await using replicas = await startReplicas();
  await using old = await replicas.start("old");
  await pass(replicas.clock, 10_000);
  await using next = await replicas.start("new");
  await pass(replicas.clock, PERIOD_MS);
  assertEquals([rollbacks(old), rollbacks(next)], [[], []]);
  const { configuration, rollout } = await readStatus(old);
  assertEquals(
    [configuration.revision, configuration.active_revision],
    ["v-old", "v-new"],
  );
  assertEquals(configuration.rollback, undefined);
  assertEquals(rollout.map(({ revision }) => revision), ["v-new", "v-old"]);
  const page = await statusPage(old);
  assertStringIncludes(page, "a newer configuration than this process has");
  assertEquals(page.includes("Rollback"), false);
});

Deno.test("when the old replica stops again, the newer configuration goes on, and a third one ends the notice", async () => {
  await using replicas = await startReplicas();
  await using next = await replicas.rollOut();
  const stray = await replicas.start("old");
  await pass(replicas.clock, PERIOD_MS);
  await stray.gateway.close();
  await pass(replicas.clock, PERIOD_MS);
  assertEquals(await pageValues(next), { A: "new" });
  assertEquals(
    rollbacks(next).map(({ level, active_revision }) => [
      level,
      active_revision,
    ]),
    [["WARN", "v-old"], ["INFO", "v-new"]],
  );
  assertEquals(sourcesOf(next), ["variables", "rollback"]);
  await using third = await replicas.start("third");
  await pass(replicas.clock, PERIOD_MS);
  for (const gate of [next, third]) {
    assertEquals((await readStatus(gate)).configuration.rollback, undefined);
  }
});

Deno.test("a replica that starts after a rollback shows it, and does not warn of it again", async () => {
  await using replicas = await startReplicas();
  await using _next = await replicas.rollOut();
  await using _stray = await replicas.start("old");
  await pass(replicas.clock, 60_000);
  await using later = await replicas.start("old", { instanceId: "later:8080" });
  assertEquals(rollbacks(later), []);
  const { rollback } = (await readStatus(later)).configuration;
  assertStringIncludes(
    String(rollback),
    "last active until 2023-11-14T22:13:30.000Z",
  );
});

Deno.test("a reload of earlier variables is a rollback that somebody has asked for", async () => {
  await using replicas = await startReplicas();
  await using gate = await replicas.start("old");
  await pass(replicas.clock, 60_000);
  await gate.set({ REP_PUBLIC_A: "new" });
  assertEquals(rollbacks(gate), []);
  await pass(replicas.clock, 60_000);
  await gate.set({ REP_PUBLIC_A: "old" });
  const [line, ...more] = rollbacks(gate);
  assertEquals([line?.level, more], ["INFO", []]);
  assertEquals(sourcesOf(gate), Array(3).fill("variables"));
  assertStringIncludes(
    String(line?.detail),
    "last active until 2023-11-14T22:14:20.000Z; if not intended, correct the variables of the gateway at old:8080",
  );
});

Deno.test("a single process that stops and starts again has not rolled back", async () => {
  await using replicas = await startReplicas();
  for (const version of ["old", "new", "new"]) {
    await using gate = await replicas.start(version);
    await pass(replicas.clock, 10_000);
    assertEquals(rollbacks(gate), []);
    await gate.gateway.close();
    replicas.clock.pass(3_600_000);
  }
});

Deno.test("the revision is in every log line that has the hash of a configuration", async () => {
  await using replicas = await startReplicas();
  await using gate = await replicas.start("old");
  await gate.set({ REP_PUBLIC_A: "new" });
  const lines = gate.lines.filter((line) => "configuration" in line);
  assertEquals(lines.map(({ msg, revision }) => [msg, revision]), [
    ["rep.config.loaded", "v-old"],
    ["rep.rollout.active", "v-old"],
    ["rep.rollout.active", "v-old"],
    ["rep.config.reloaded", "v-old"],
  ]);
});

Deno.test("what was active is read and written by the operations of a publication, without one more", async () => {
  const store = countedStore(memoryStore());
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
    store,
    clock: new FakeClock(),
  });
  store.reset();
  await gate.set({ REP_PUBLIC_A: "2" });
  // Two gets say what the sources and the variables in the store are read after; five are the publication.
  assertEquals(store.counts, { get: 2, getMany: 1, list: 2, commit: 2 });
});

Deno.test("a rollout by a version that records nothing is no obstacle, and no rollback for anybody", async () => {
  await using replicas = await startReplicas();
  const { clock, store } = replicas;
  await using next = await replicas.rollOut();
  const member = { hash: "sha256-old", rank: 3, heartbeatAt: clock.now() };
  await store.commit([], [
    { key: ["rollout"], value: 3 },
    { key: ["member", "~before"], value: member },
  ]);
  await pass(clock, PERIOD_MS);
  assertEquals(rollbacks(next), []);
  assertEquals((await readStatus(next)).configuration.active, "old");
  await using stray = await replicas.start("old");
  const [line] = rollbacks(stray);
  assertEquals(
    [line?.active_revision, line?.replaces_revision],
    ["v-old", "v-new"], // the newest rollout that was recorded
  );
});

Deno.test("a rollback names the revision with which the rollout of the configuration that it replaces began", async () => {
  await using replicas = await startReplicas();
  await using old = await replicas.start("old");
  await pass(replicas.clock, 10_000);
  const next = await replicas.start("new");
  await pass(replicas.clock, 10_000);
  const rebuilt = await replicas.start("new", {
    revision: "v-rebuilt",
    instanceId: "rebuilt:8080",
  });
  await pass(replicas.clock, 10_000);
  await next.gateway.close();
  await rebuilt.gateway.close();
  await pass(replicas.clock, 30_000);
  const [line] = rollbacks(old);
  assertEquals([line?.active_revision, line?.replaces_revision], [
    "v-old",
    "v-new",
  ]);
});
