import { assertEquals, assertRejects } from "@std/assert";
import { silentLog } from "../../src/observe/log.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { openRateLimitStores } from "../../src/store/open_rate_limit_stores.ts";
import { findPostgres, PostgresServer } from "../../tools/postgres.ts";
import { FAST, MISSING } from "../_postgres.ts";
import { TempDirectory } from "../_temp.ts";

const MAIN = { kv: undefined, store: memoryStore() };

Deno.test("openRateLimitStores() opens each store by its name, and uses the main store again", async () => {
  await using directory = await TempDirectory.make();
  const [kv, other] = [directory.at("kv.sqlite3"), directory.at("other.sqlite3")];
  const main = { kv, store: memoryStore() };
  const stores = await openRateLimitStores([other, kv, ":memory:"], main, silentLog);
  assertEquals([...stores.keys()], [other, kv, ":memory:"]);
  assertEquals(stores.get(kv), main.store);
  assertEquals([...stores.values()].map(({ maxChecks }) => maxChecks), [100, 100, 100]);
  for (const store of stores.values()) store.close();
});

Deno.test("openRateLimitStores() rejects a store that is named twice, and one that cannot be opened, without credentials", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("kv.sqlite3");
  await assertRejects(
    () => openRateLimitStores([path, path], MAIN, silentLog),
    TypeError,
    `Cannot use --rate-limit-kv "${path}" twice: expected different databases`,
  );
  await assertRejects(
    () => openRateLimitStores([path, "postgres://me:s3cret@/db"], MAIN, silentLog),
    TypeError,
    'Cannot open --rate-limit-kv "postgres://…@/db": expected postgres://USER',
  );
});

const bin = await findPostgres();

Deno.test({
  name: bin === undefined
    ? `without ${MISSING}: openRateLimitStores() distinguishes schemas of one PostgreSQL server`
    : "openRateLimitStores() distinguishes schemas of one PostgreSQL server, whatever the credentials",
  ignore: bin === undefined,
  async fn() {
    await using server = await PostgresServer.create(bin ?? "", FAST);
    const urls = [server.url("schema=a"), server.url("schema=b&pool=1")];
    const stores = await openRateLimitStores(urls, MAIN, silentLog);
    const at = `127.0.0.1:${server.port}`;
    assertEquals([...stores.keys()], ["a", "b"].map((schema) => `postgres://${at}/postgres?schema=${schema}`));
    const [a, b] = [...stores.values()];
    await a?.commit([], [{ key: ["rate", "x"], value: [1] }]);
    assertEquals([(await a?.list(["rate"]))?.length, (await b?.list(["rate"]))?.length], [1, 0]);
    assertEquals([a?.maxChecks, b?.maxChecks], [50, 50]);
    await assertRejects(
      () => openRateLimitStores([...urls, server.url("schema=a&pool=2")], MAIN, silentLog),
      TypeError,
      "twice: expected different databases",
    );
    for (const store of stores.values()) store.close();
  },
});
