import { assertEquals } from "@std/assert";
import { writeVariables } from "../src/stored/write_variables.ts";
import { FakeClock } from "../tools/fake_clock.ts";
import { setUp } from "./_gateway.ts";
import { fallibleStore, replicatedStore } from "./_store.ts";

/** A gateway on a store whose primary fails after its replica has fallen behind. */
async function setUpFailover(variables: Record<string, string>) {
  const clock = new FakeClock(1_700_000_000_000);
  const replicated = replicatedStore();
  let isDown = false;
  const store = fallibleStore(replicated, () => isDown);
  const gate = await setUp(variables, { store, clock, random: () => 0 });
  return {
    clock,
    gate,
    store: replicated,
    async failOver(meanwhile: () => Promise<void> = () => Promise.resolve()) {
      isDown = true;
      await meanwhile();
      await clock.tick(3_000);
      replicated.failOver();
      isDown = false;
      await clock.tick(10_000);
    },
  };
}

Deno.test("a change that a failover has lost is published again, with an id that rises", async () => {
  const { clock, gate, store, failOver } = await setUpFailover({
    REP_PUBLIC_A: "1",
    REP_PUBLIC_B: "1",
  });
  await using _ = gate;
  const reader = await gate.listen();
  store.stopReplication();
  await gate.set({ REP_PUBLIC_A: "2", REP_PUBLIC_C: "new" });
  const lost = await reader.take(3);
  await failOver();
  const again = await reader.take(3);
  assertEquals(again.map(({ data }) => [data.key, data.value]), [["A", "2"], [
    "C",
    "new",
  ], ["B", undefined]]);
  assertEquals(again.every(({ id }) => id > Number(lost.at(-1)?.id)), true);
  const [event] = gate.logged("rep.store.lost_events");
  assertEquals(event?.delivered, lost.at(-1)?.id);
  await clock.tick(5_000);
  await gate.set({ REP_PUBLIC_A: "3", REP_PUBLIC_C: "new" });
  assertEquals(await reader.takeValues(1), ["3"]); // nothing in between
  await reader.close();
});

Deno.test("after a failover, events of other replicas arrive even while the sources cannot be read", async () => {
  const clock = new FakeClock(1_700_000_000_000);
  const store = replicatedStore();
  const read = Promise.withResolvers<Record<string, string>>();
  let isHanging = false;
  let variables = { REP_PUBLIC_A: "1" };
  const options = { store, clock, random: () => 0 };
  await using gate = await setUp({}, {
    ...options,
    variables: () => isHanging ? read.promise : variables,
  });
  const reader = await gate.listen();
  store.stopReplication();
  variables = { REP_PUBLIC_A: "2" };
  await gate.gateway.reload();
  assertEquals(await reader.takeValues(1), ["2"]);
  isHanging = true;
  store.failOver();
  await clock.tick(5_000);
  await using other = await setUp({ REP_PUBLIC_A: "3" }, options);
  await clock.tick(5_000);
  assertEquals(await reader.takeValues(1), ["3"]);
  await reader.close();
  assertEquals(other.logged("rep.config.not_published"), []);
  read.resolve(variables);
});

Deno.test("clients return to the previous value of a stored variable whose last write a failover has lost", async () => {
  const { clock, gate, store, failOver } = await setUpFailover({
    REP_PUBLIC_A: "environment",
  });
  await using _ = gate;
  const reader = await gate.listen();
  const options = { clock, random: () => 0, ifId: undefined };
  await writeVariables(store, new Map([["C", "kept"]]), options);
  store.stopReplication();
  const lost = new Map([["A", "lost"], ["B", "lost"]]);
  await writeVariables(store, lost, options);
  await clock.tick(1_000);
  assertEquals(await reader.takeValues(3), ["lost", "lost", "kept"]);
  await failOver();
  await clock.tick(5_000);
  assertEquals(await reader.takeChanges(3), [
    ["A", "environment"],
    ["C", "kept"],
    ["B", undefined],
  ]);
  await reader.close();
});

Deno.test("deletions that the store has lost are published again, once, although there is no PUBLIC variable", async () => {
  const { clock, gate, store, failOver } = await setUpFailover({
    REP_SERVER_X: "1",
  });
  await using _ = gate;
  store.stopReplication();
  await gate.set({ REP_SERVER_X: "1", REP_PUBLIC_A: "1" });
  const reader = await gate.listen({ "last-event-id": "0" });
  const [added] = await reader.take(1);
  await gate.set({ REP_SERVER_X: "1", REP_SENSITIVE_A: "1" }); // no longer PUBLIC
  assertEquals((await reader.take(1)).map(({ event }) => event), [
    "rep:config:delete",
  ]);
  await failOver();
  await clock.tick(10_000);
  assertEquals(
    gate.logged("rep.store.lost_events").length,
    1,
  );
  const reloads = () => gate.logged("rep.config.reloaded").length;
  const before = reloads();
  await clock.tick(10_000);
  assertEquals(reloads(), before);
  // A client that was not connected when the variable was deleted has it still.
  const late = await gate.listen({ "last-event-id": String(added?.id) });
  assertEquals(
    (await late.take(1)).map(({ event, data }) => [event, data.key]),
    [["rep:config:delete", "A"]],
  );
  await late.close();
  await reader.close();
});

Deno.test("a change that was undone is published again if the store has lost both: a client may have it still", async () => {
  const { clock, gate, store, failOver } = await setUpFailover({
    REP_PUBLIC_A: "1",
  });
  await using _ = gate;
  const reader = await gate.listen();
  store.stopReplication();
  await gate.set({ REP_PUBLIC_A: "2" });
  const [undone] = await reader.take(1);
  await gate.set({ REP_PUBLIC_A: "1" });
  await failOver();
  await clock.tick(5_000);
  await gate.set({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" });
  await reader.close();
  await using other = await setUp({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" }, {
    store,
    clock,
  });
  const late = await other.listen({ "last-event-id": String(undone?.id) });
  assertEquals(await late.takeChanges(2), [
    ["A", "1"],
    ["B", "1"],
  ]);
  await late.close();
});

Deno.test("an outage without loss publishes nothing again", async () => {
  const { gate, failOver } = await setUpFailover({ REP_PUBLIC_A: "1" });
  await using _ = gate;
  const reader = await gate.listen();
  await failOver();
  await gate.set({ REP_PUBLIC_A: "2" });
  assertEquals(await reader.takeValues(1), ["2"]); // nothing in between
  assertEquals(
    gate.logged("rep.store.lost_events"),
    [],
  );
  await reader.close();
});

Deno.test("values that a failover has lost are not replayed if their variable became SENSITIVE meanwhile", async () => {
  const { clock, gate, store, failOver } = await setUpFailover({
    REP_PUBLIC_B: "1",
  });
  await using _ = gate;
  store.stopReplication();
  await gate.set({ REP_PUBLIC_B: "1", REP_PUBLIC_A: "leaked" });
  await gate.set({ REP_PUBLIC_B: "1" });
  const sensitive = { REP_PUBLIC_B: "1", REP_SENSITIVE_A: "secret" };
  await failOver(() => gate.set(sensitive));
  const reader = await gate.listen({ "last-event-id": "0" });
  // The publication of what was lost may still wait for its next attempt, and this one for it.
  const ended = gate.set({ ...sensitive, REP_PUBLIC_END: "1" });
  await clock.tickUntil(ended, 100);
  assertEquals(await reader.takeChanges(3), [
    ["B", "1"],
    ["A", undefined],
    ["END", "1"],
  ]);
  await reader.close();
});
