import { assertEquals } from "@std/assert";
import { writeVariables } from "../../../src/stored/write_variables.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { setUp } from "../../_gateway.ts";
import { countedStore } from "../../_store.ts";

/** A gateway on a store that counts; nothing happens but what a test does. */
async function start(variables: Record<string, string>) {
  const clock = new FakeClock();
  const inner = memoryStore();
  const store = countedStore(inner);
  const gate = await setUp(variables, { store, clock });
  const started = { ...store.counts };
  store.reset();
  return { clock, inner, store, gate, started };
}

Deno.test("a start on an empty store takes fourteen operations", async () => {
  const { gate, started } = await start({ REP_PUBLIC_A: "1" });
  await using _closed = gate;
  assertEquals(started, { get: 5, getMany: 1, list: 5, commit: 3 });
});

Deno.test("a change of a variable takes seven operations", async () => {
  const { store, gate } = await start({ REP_PUBLIC_A: "1" });
  await using _closed = gate;
  await gate.set({ REP_PUBLIC_A: "2" });
  assertEquals(store.counts, { get: 2, getMany: 1, list: 2, commit: 2 });
});

Deno.test("a reload without a change takes six operations", async () => {
  const { store, gate } = await start({ REP_PUBLIC_A: "1" });
  await using _closed = gate;
  await gate.gateway.reload();
  assertEquals(store.counts, { get: 3, getMany: 1, list: 1, commit: 1 });
});

Deno.test("a write to a variable in the store takes eleven operations of the reader that publishes it, two of them for the log", async () => {
  const { clock, inner, store, gate } = await start({ REP_PUBLIC_A: "1" });
  await using _closed = gate;
  const options = { clock, random: () => 0, ifId: undefined };
  await writeVariables(inner, new Map([["A", "2"]]), options);
  await clock.tick(0); // it is noticed
  await clock.tick(0); // it is read and published
  assertEquals(store.counts, { get: 3, getMany: 1, list: 5, commit: 2 });
});
