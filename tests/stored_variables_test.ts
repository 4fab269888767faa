import { assertEquals } from "@std/assert";
import { writeVariables } from "../src/config/stored/stored_variables.ts";
import { memoryStore } from "../src/store/memory.ts";
import { FakeClock } from "../tools/fake_clock.ts";
import { setUp } from "./_gateway.ts";

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
  const rejected = gate.lines.find(({ msg }) => msg === "rep.config.rejected");
  assertEquals(rejected?.issues, [
    "Cannot use REP_PUBLIC_S and REP_SENSITIVE_S: expected a name in one tier only",
  ]);
});
