import { assertEquals } from "@std/assert";
import type { Member } from "../../../src/core/rollout/observation.ts";
import type { Rollout } from "../../../src/core/rollout/rollout.ts";
import { Cluster, PERIOD_MS, switchableStore } from "./_cluster.ts";

/** Starts a process that delivers a build. All have the same configuration unless it is named. */
function start(cluster: Cluster, build: string, hash = "a") {
  return cluster.start(hash, { build: () => build });
}

function startMany(cluster: Cluster, count: number, build: string) {
  const each = Array.from({ length: count }, (_, index) => index);
  return Array.fromAsync(each, () => start(cluster, build));
}

/** What a page with a build is told when it connects. */
async function told(rollout: Rollout, build: string) {
  await rollout.look().catch(() => {}); // during an outage, nothing is known
  return rollout.builds.replacementOf(build);
}

Deno.test("a page is told within two periods after the last process with its build has closed its port", async () => {
  const cluster = new Cluster();
  const old = await start(cluster, "A");
  await cluster.clock.tick(PERIOD_MS);
  const newer = await start(cluster, "B");
  await cluster.clock.tick(3 * PERIOD_MS);
  assertEquals([await told(old, "A"), await told(newer, "A")], [
    undefined,
    undefined,
  ]);
  await old.leave();
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(newer.builds.replacementOf("A"), "B");
  assertEquals(newer.builds.replacementOf("B"), undefined);
});

Deno.test("a process that stops counts until its port is closed, however long that takes, but not in the election", async () => {
  const cluster = new Cluster();
  const newer = await start(cluster, "B", "b");
  const old = await start(cluster, "A", "a");
  await old.stop();
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(newer.isActive, true);
  assertEquals(newer.builds.names, ["A", "B"]);
  for (let period = 0; period < 20; period++) {
    await cluster.clock.tick(PERIOD_MS);
    assertEquals(await told(newer, "A"), undefined);
  }
  const states = () => newer.members.map(({ state }) => state).sort();
  assertEquals(states(), ["stopping", "this process"]);
  await old.leave();
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(newer.builds.replacementOf("A"), "B");
  assertEquals(states(), ["left", "this process"]);
});

for (const isStopping of [false, true]) {
  const when = isStopping ? "while it stopped" : "";
  Deno.test(`a process that was killed ${when} counts for at most 30 s`, async () => {
    const cluster = new Cluster();
    const old = await start(cluster, "A");
    const newer = await start(cluster, "B");
    await cluster.clock.tick(PERIOD_MS);
    if (isStopping) await old.stop();
    cluster.kill(old);
    await cluster.clock.tick(2 * PERIOD_MS);
    assertEquals(await told(newer, "A"), undefined);
    await cluster.clock.tick(30_000 - 2 * PERIOD_MS);
    assertEquals(newer.builds.replacementOf("A"), "B");
  });
}

Deno.test("with 20 replicas, nobody is told before the last of them has closed its port, in whatever order they end", async () => {
  for (const direction of [1, -1]) {
    const cluster = new Cluster();
    const old = await startMany(cluster, 20, "A");
    const newer = await startMany(cluster, 8, "B");
    await cluster.clock.tick(2 * PERIOD_MS);
    const inOrder = direction === 1 ? old : old.toReversed();
    for (const [index, rollout] of inOrder.entries()) {
      assertEquals(await told(newer[0]!, "A"), undefined, `${index}`);
      await rollout.stop();
      await rollout.leave();
      if (index % 8 === 7) await cluster.clock.tick(PERIOD_MS); // eight end at once
    }
    await cluster.clock.tick(10_000);
    assertEquals(
      newer.map((it) => it.builds.replacementOf("A")),
      Array(8).fill("B"),
    );
  }
});

Deno.test("of 20 replicas that stop at once, the one that closes its port last counts, although others represented it", async () => {
  const cluster = new Cluster();
  const old = await startMany(cluster, 20, "A");
  const newer = await start(cluster, "B");
  await cluster.clock.tick(PERIOD_MS);
  for (const rollout of old) await rollout.stop();
  for (const rollout of old.slice(0, 19)) await rollout.leave();
  await cluster.clock.tick(4 * PERIOD_MS);
  assertEquals(await told(newer, "A"), undefined);
  await old[19]!.leave();
  await cluster.clock.tick(10_000);
  assertEquals(newer.builds.replacementOf("A"), "B");
});

Deno.test("while a gateway of ebbde15d lives, whose entry has no build, nobody is told", async () => {
  const cluster = new Cluster();
  const newer = await start(cluster, "B");
  const entry: Omit<Member, "heartbeatAt"> = { hash: "a", rank: 1 };
  const key = ["member", "0"];
  const beat = (more: Partial<Member> = {}) => {
    const value = { ...entry, heartbeatAt: cluster.clock.now(), ...more };
    return cluster.store.commit([], [{ key, value }]);
  };
  for (let period = 0; period < 5; period++) {
    await beat();
    await cluster.clock.tick(PERIOD_MS);
    assertEquals(await told(newer, "A"), undefined);
  }
  await beat({ hasLeft: true });
  assertEquals(await told(newer, "A"), "B");
});

Deno.test("a canary that stays is told of nothing, and neither are the pages beside it", async () => {
  const cluster = new Cluster();
  const stable = await start(cluster, "A");
  const canary = await start(cluster, "B", "b");
  for (let period = 0; period < 100; period++) {
    await cluster.clock.tick(PERIOD_MS);
    const pages = [stable, canary].flatMap((it) =>
      ["A", "B"].map((build) => it.builds.replacementOf(build))
    );
    assertEquals(pages, Array(4).fill(undefined));
  }
  assertEquals([await told(stable, "Z"), await told(canary, "Z")], ["A", "B"]);
});

Deno.test("while a reload may bring one of two builds, an older page is told of neither, before the update ends or has stopped for five minutes", async () => {
  const cluster = new Cluster();
  const page = "A";
  const first = await start(cluster, page);
  const second = await start(cluster, "B");
  for (let period = 0; period < 100; period++) { // the update to B has stopped
    await cluster.clock.tick(PERIOD_MS);
  }
  await first.leave();
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(await told(second, page), "B");
  const third = await start(cluster, "C"); // known before the next heartbeat
  assertEquals([await told(second, page), await told(third, page)], [
    undefined,
    undefined,
  ]);
  for (let period = 0; period < 58; period++) {
    await cluster.clock.tick(PERIOD_MS);
    assertEquals([
      second.builds.replacementOf(page),
      third.builds.replacementOf(page),
    ], [
      undefined,
      undefined,
    ]);
  }
  const fourth = await start(cluster, "C"); // which changes nothing
  for (let period = 0; period < 3; period++) {
    await cluster.clock.tick(PERIOD_MS);
  }
  assertEquals([
    second.builds.replacementOf(page),
    third.builds.replacementOf(page),
  ], [
    "B",
    "C",
  ]);
  assertEquals(await told(fourth, page), undefined); // it has not seen it for long
  await second.leave();
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(await told(fourth, page), "C");
});

Deno.test("a rollback tells the pages of the newer build, since builds have no order", async () => {
  const cluster = new Cluster();
  const first = await start(cluster, "A");
  const newer = await start(cluster, "B");
  await first.leave();
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(await told(newer, "A"), "B");
  const again = await start(cluster, "A");
  assertEquals([await told(newer, "A"), await told(newer, "B")], [
    undefined,
    undefined,
  ]);
  await newer.leave();
  await cluster.clock.tick(PERIOD_MS);
  assertEquals([await told(again, "A"), await told(again, "B")], [
    undefined,
    "A",
  ]);
});

Deno.test("a page that another process has just delivered is told of nothing, although the last heartbeat does not know its build", async () => {
  const cluster = new Cluster();
  const old = await start(cluster, "A");
  await cluster.clock.tick(PERIOD_MS);
  await start(cluster, "B"); // it announces its build before it is ready
  assertEquals(old.builds.replacementOf("B"), "A");
  assertEquals(await told(old, "B"), undefined);
});

Deno.test("announceBuild() announces a build that has replaced the one of a running process, before a page of it is sent", async () => {
  const cluster = new Cluster();
  let build = "A";
  const changing = await cluster.start("a", { build: () => build });
  const other = await start(cluster, "A");
  build = "B";
  await changing.announceBuild();
  assertEquals(await told(other, "B"), undefined);
  assertEquals(await told(other, "A"), undefined);
  assertEquals(await told(changing, "A"), undefined);
});

Deno.test("during an outage nobody is told, nor after it before all can have announced their builds", async () => {
  const { status, store } = switchableStore();
  const cluster = new Cluster(store);
  let build = "A";
  const changing = await cluster.start("a", { build: () => build });
  const other = await start(cluster, "A");
  status.isUp = false;
  build = "B";
  await changing.announceBuild();
  await cluster.clock.tick(10 * PERIOD_MS);
  assertEquals(await told(other, "B"), undefined);
  assertEquals(await told(other, "Z"), undefined);
  status.isUp = true;
  assertEquals(await told(other, "B"), undefined);
  await cluster.clock.tick(2 * PERIOD_MS);
  assertEquals(await told(other, "B"), undefined);
  assertEquals(await told(other, "Z"), undefined); // a reload may bring either
  await changing.leave();
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(await told(other, "Z"), "A");
});

Deno.test("a process that stops tells nobody during an outage, either", async () => {
  const { status, store } = switchableStore();
  const cluster = new Cluster(store);
  const rollout = await start(cluster, "A");
  await rollout.stop();
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(rollout.builds.replacementOf("Z"), "A");
  status.isUp = false;
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(rollout.builds.replacementOf("Z"), undefined);
});

Deno.test("a process that delivers no build neither tells of one nor keeps others from it", async () => {
  const cluster = new Cluster();
  const endpoints = await start(cluster, "");
  assertEquals(await told(endpoints, "A"), undefined);
  await start(cluster, "B");
  assertEquals(await told(endpoints, "A"), "B");
});

Deno.test("look() is shared until it begins, and the build of a process that stands apart does not count", async () => {
  const cluster = new Cluster();
  const rollout = await start(cluster, "A");
  const apart = { hash: "x", rank: 0, heartbeatAt: 0, build: "Z" };
  await cluster.store.commit([], [{ key: ["apart"], value: apart }]);
  await cluster.clock.tick(PERIOD_MS);
  assertEquals(rollout.look() === rollout.look(), true);
  await rollout.look();
  assertEquals(rollout.members.map(({ build }) => build), ["A"]);
  assertEquals(rollout.builds.names, ["A"]);
  assertEquals(rollout.builds.replacementOf("Z"), "A");
});

Deno.test("each build has representatives of its own, also if those of another one have lower ids", async () => {
  const cluster = new Cluster();
  const startAs = (processId: string, build: string) =>
    cluster.start("a", { processId, build: () => build });
  const newer = await startAs("0", "B");
  for (const id of "1234567") await startAs(id, "B");
  await startAs("8", "A");
  await cluster.clock.tick(2 * PERIOD_MS);
  assertEquals(await told(newer, "A"), undefined);
});

Deno.test("when all eight representatives end at once, nobody is told before another process has taken over", async () => {
  const cluster = new Cluster();
  const startAs = (processId: string, build: string) =>
    cluster.start("a", { processId, build: () => build });
  const newer = await startAs("B", "B");
  await cluster.clock.tick(4_000); // its heartbeats are a second after those of the others
  const old = await Array.fromAsync("012345678", (id) => startAs(id, "A"));
  await cluster.clock.tick(PERIOD_MS + 500);
  for (const rollout of old.slice(0, 8)) await rollout.leave();
  await cluster.clock.tick(600); // a heartbeat of the newer one only
  assertEquals(await told(newer, "A"), undefined);
  await cluster.clock.tick(2 * PERIOD_MS);
  assertEquals(await told(newer, "A"), undefined);
  await old[8]!.leave();
  await cluster.clock.tick(10_000);
  assertEquals(newer.builds.replacementOf("A"), "B");
});
