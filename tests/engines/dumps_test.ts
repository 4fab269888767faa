import { DatabaseSync } from "node:sqlite";
import { assertEquals } from "@std/assert";
import type { Payload } from "../../src/core/pages/payload.ts";
import { createSensitiveReader } from "../../src/client/sensitive.ts";
import { readHistory } from "../../src/core/config/stored/stored_variables.ts";
import { writeVariables } from "../../src/stored/write_variables.ts";
import { indexedApps } from "../../src/core/store/app_index.ts";
import { storeOfApp } from "../../src/core/store/app_store.ts";
import { silentLog } from "../../src/core/observe/log.ts";
import { openStore } from "../../src/engines/open.ts";
import { PostgresPool } from "../../src/engines/postgres/connection.ts";
import { parsePostgresUrl } from "../../src/engines/postgres/url.ts";
import type { Store } from "../../src/core/store/store.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { findPostgres, PostgresServer } from "../../tools/postgres.ts";
import { setUp, type TestGateway } from "../_gateway.ts";
import { FAST, MISSING } from "../_postgres.ts";
import { TempDirectory } from "../_temp.ts";

// Every later version opens the stores of the versions in `dumps/`; tools/store_dump.ts made them, and says with which
// values. `273fc5b_shop` is the part of the app "shop".

const DUMPS = new URL("dumps/", import.meta.url);
const VERSIONS = Array.from(Deno.readDirSync(DUMPS), ({ name }) => name);

const HOUR_MS = 3_600_000;

function readDump(version: string, name: string): Promise<string> {
  return Deno.readTextFile(new URL(`${version}/${name}`, DUMPS));
}

/** Checks a store that a gateway of the version filled, which also served a page with this payload. */
async function checkStore(
  shared: Store,
  version: string,
  page: string,
): Promise<void> {
  const [, app] = version.split("_");
  const store = storeOfApp(shared, app);
  const indexed = await indexedApps(shared);
  assertEquals(indexed.map(({ name }) => name), app === undefined ? [] : [app]);
  const payload = JSON.parse(page);
  const clock = new FakeClock(
    Date.parse(payload._meta.injected_at) + HOUR_MS,
  );
  const random = () => 0;
  await using gate = await setUp({
    REP_PUBLIC_COLOR: "blue",
    REP_SENSITIVE_TOKEN: "a test value",
  }, { store: shared, clock, app });

  assertEquals(gate.gateway.get("TITLE"), "Grüße 2");
  const history = await readHistory(store, 10);
  assertEquals(history.map(({ value }) => value), ["Grüße 2", "Grüße"]);
  assertEquals(await decrypt(payload, gate), "a test value");

  const [, query] = payload._meta.hot_reload.split("/rep/changes");
  const stream = await gate.listen({}, query);
  assertEquals(await stream.takeChanges(3), [
    ["COLOR", "blue"],
    ["TITLE", "Grüße 2"],
    ["GONE", undefined],
  ]);
  const change = new Map([["TITLE", "new"]]);
  await writeVariables(store, change, { clock, random, ifId: undefined });
  await gate.gateway.reload();
  assertEquals(await stream.takeChanges(1), [["TITLE", "new"]]);
  await stream.close();
}

/** Decrypts the SENSITIVE values of a page as its client does. */
async function decrypt(payload: Payload, gate: TestGateway): Promise<string> {
  const browser = {
    crypto,
    location: { origin: "http://gateway.test" },
    fetch: (url: string) =>
      gate.ask(new URL(url).pathname + new URL(url).search),
  };
  return await createSensitiveReader(payload, browser as never)("TOKEN");
}

for (const version of VERSIONS) {
  Deno.test(`a SQLite file of ${version} can be read and written`, async () => {
    await using directory = await TempDirectory.make();
    const path = directory.at("kv.sqlite3");
    {
      using database = new DatabaseSync(path);
      database.exec(await readDump(version, "sqlite.sql"));
    }
    const store = await openStore(path, silentLog);
    await checkStore(store, version, await readDump(version, "sqlite.json"));
    store.close();
  });
}

const bin = await findPostgres();
const without = bin === undefined ? `without ${MISSING}: ` : "";

Deno.test({
  name:
    `${without}a PostgreSQL schema of each version can be read and written with the documented privileges, and stays as it is`,
  ignore: bin === undefined,
  async fn() {
    await using server = await PostgresServer.create(String(bin), FAST);
    const sql = await openConnection(server);
    await sql.query("CREATE ROLE gateway_role LOGIN PASSWORD 'pw'");
    for (const version of VERSIONS) {
      const schema = `of_${version}`;
      const inSchema = (text: string) => text.replaceAll("rep_gateway", schema);
      await sql.query(inSchema(await readDump(version, "postgres.sql")));
      await sql.query(inSchema(await documentedPrivileges()));
      const before = await sql.query(tableColumns(schema));
      const url = server.url(`schema=${schema}`)
        .replace(/\/\/.*@/, "//gateway_role:pw@");
      const store = await openStore(url, silentLog);
      const page = await readDump(version, "postgres.json");
      await checkStore(store, version, page);
      store.close();
      assertEquals(await sql.query(tableColumns(schema)), before);
    }
    sql.close();
  },
});

function openConnection(server: PostgresServer): Promise<PostgresPool> {
  const target = parsePostgresUrl(server.url());
  return PostgresPool.open(target);
}

/** The statements of docs/stores.md, for the role of this test. */
async function documentedPrivileges(): Promise<string> {
  const page = await Deno.readTextFile("docs/stores.md");
  const [, statements = ""] = /^```sql\n(GRANT.*?)^```$/ms.exec(page) ?? [];
  return statements.replaceAll("TO gateway;", "TO gateway_role;");
}

function tableColumns(schema: string): string {
  return `SELECT table_name::text, column_name::text FROM information_schema.columns
    WHERE table_schema = '${schema}' ORDER BY 1, 2`;
}
