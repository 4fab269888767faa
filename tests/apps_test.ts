import { pageValues, shareStore } from "./_replicas.ts";
import { assertEquals, assertRejects } from "@std/assert";
import { setUp } from "./_gateway.ts";
import { indexedApps } from "../src/core/store/app_index.ts";
import { readStatus } from "./_status.ts";
import { fallibleStore } from "./_store.ts";

Deno.test("a gateway with the name of an app adds it to the index of its store at each start, and starts without it", async () => {
  await using shared = await shareStore();
  const start = async (app: string | undefined) => {
    await using _gate = await shared.start({ REP_PUBLIC_A: "1" }, { app });
  };
  const { store, clock } = shared;
  await start(undefined);
  assertEquals(await indexedApps(store), []);
  await start("shop");
  await start("blog");
  const first = clock.now();
  await clock.tick(60_000);
  await start("shop");
  assertEquals(await indexedApps(store), [
    { name: "blog", at: first },
    { name: "shop", at: first + 60_000 },
  ]);
  const readOnly = fallibleStore(store, () => true, { operations: ["commit"] });
  await using gate = await setUp({}, { store: readOnly, clock, app: "other" });
  assertEquals((await gate.ask("/rep/health")).status, 200);
});

Deno.test("two apps with names share a store: each has its own values, rollout, stored variables, keys and limits", async () => {
  await using shared = await shareStore();
  const limit = { sessionKeyMaxRate: 1 };
  const secret = { REP_SENSITIVE_KEY: "k" };
  await using shop = await shared.start(
    { REP_PUBLIC_THEME: "light", ...secret },
    { app: "shop", ...limit },
  );
  await using blog = await shared.start(
    { REP_PUBLIC_THEME: "dark", ...secret },
    { app: "blog", ...limit },
  );
  await shared.clock.tick(30_000);
  assertEquals([await pageValues(shop), await pageValues(blog)], [
    { THEME: "light" },
    { THEME: "dark" },
  ]);
  assertEquals(
    [(await readStatus(shop)).rollout, (await readStatus(blog)).rollout].map(
      (members) => members.map(({ state, rank }) => ({ state, rank })),
    ),
    [[{ state: "this process", rank: 1 }], [{
      state: "this process",
      rank: 1,
    }]],
  );
  const { setStoredVariables } = await import(
    "../src/stored/set_stored_variables.ts"
  );
  await setStoredVariables(shared.store, { THEME: "sepia" }, {
    app: "blog",
    environment: {},
    clock: shared.clock,
    random: () => 0,
  });
  await shared.clock.tick(2_000);
  assertEquals([await pageValues(shop), await pageValues(blog)], [
    { THEME: "light" },
    { THEME: "sepia" },
  ]);
  const statuses = [];
  for (const gate of [shop, shop, blog]) {
    statuses.push(
      (await gate.ask("/rep/session-key", {
        headers: { origin: "http://gateway.test" },
      })).status,
    );
  }
  assertEquals(statuses, [200, 429, 200]);
});

Deno.test("createGateway() rejects a name that no app can have", async () => {
  await assertRejects(
    () => setUp({}, { app: "my/shop" }),
    RangeError,
    'Cannot use app: expected a host, or 1 to 253 letters, digits, . _ and -, of which the first is a letter or a digit, got "my/shop"',
  );
});
