import { assertEquals, assertGreater } from "@std/assert";
import { forgetApp } from "../../src/stored/forget_app.ts";
import { indexedApps } from "../../src/core/store/app_index.ts";
import { storeOfApp } from "../../src/core/store/app_store.ts";
import type { Store } from "../../src/core/store/store.ts";
import { kvStore } from "../../src/engines/kv.ts";
import { writeVariables } from "../../src/stored/write_variables.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { setUp } from "../_gateway.ts";

/** Uses a store as an app does in its life: a rollout, events, a key, a master key, and a history that is full. */
async function use(store: Store, app: string): Promise<void> {
  const clock = new FakeClock(1_700_000_000_000);
  const variables = { REP_PUBLIC_A: "1", REP_SENSITIVE_B: "2" };
  {
    await using gate = await setUp(variables, { store, app, clock });
    await gate.set({ REP_PUBLIC_A: "2", REP_SENSITIVE_B: "2" });
    await (await gate.ask("/rep/session-key")).body?.cancel();
    await clock.tick(5_000);
  }
  const names = Array.from({ length: 650 }, (_, index) => `V${index}`);
  for (const value of ["1", "2"]) {
    const values = new Map(names.map((name) => [name, value]));
    const options = { clock, random: () => 0, ifId: undefined };
    await writeVariables(storeOfApp(store, app), values, options);
  }
}

/** The first parts of all keys of a database that belong to an app. */
async function keysOf(kv: Deno.Kv, app: string): Promise<string[]> {
  const parts = new Set<string>();
  for await (const { key } of kv.list({ prefix: [] })) {
    const [, first] = key;
    if (String(first).startsWith(`${app}/`)) parts.add(String(first));
  }
  return [...parts];
}

Deno.test("forgetApp() deletes every key of an app, also of a long history, and nothing of any other", async () => {
  const kv = await Deno.openKv(":memory:");
  const store = kvStore(kv);
  for (const app of ["shop", "shop.example"]) await use(store, app);
  const others = await keysOf(kv, "shop.example");
  assertGreater((await keysOf(kv, "shop")).length, 10);
  assertEquals(await forgetApp(store, "shop"), true);
  assertEquals(await keysOf(kv, "shop"), []);
  assertEquals(await keysOf(kv, "shop.example"), others);
  assertEquals((await indexedApps(store)).map(({ name }) => name), [
    "shop.example",
  ]);
  assertEquals(await forgetApp(store, "shop"), false);
  store.close();
});

Deno.test("an app that is forgotten starts as one that has never been there", async () => {
  const kv = await Deno.openKv(":memory:");
  const store = kvStore(kv);
  await use(store, "shop");
  await forgetApp(store, "shop");
  {
    await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
      store,
      app: "shop",
    });
    const health = await (await gate.ask("/rep/health")).json();
    assertEquals([health.status, health.variables.public], ["healthy", 1]);
  }
  store.close();
});
