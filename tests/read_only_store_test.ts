import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { delay } from "@std/async/delay";
import { silentLog } from "../src/core/observe/log.ts";
import { type Store, StoreUnavailableError } from "../src/core/store/store.ts";
import { openStore } from "../src/engines/open.ts";
import { PostgresPool } from "../src/engines/postgres/connection.ts";
import { parsePostgresUrl } from "../src/engines/postgres/url.ts";
import { setStoredVariables } from "../src/stored/set_stored_variables.ts";
import { findPostgres, PostgresServer } from "../tools/postgres.ts";
import { runCommand } from "./_command.ts";
import { captureLog, setUp, type TestGateway } from "./_gateway.ts";
import { FAST, MISSING } from "./_postgres.ts";
import { TempDirectory } from "./_temp.ts";
import { until } from "./_time.ts";

// What gateways do with a store that can be read and not written: a PostgreSQL server that is read-only, and a SQLite
// file on a full disk.

const OWN = { REP_PUBLIC_A: "own", REP_SENSITIVE_S: "secret" };

/** Starts a gateway on a store, and closes both in the end. */
async function start(kv: string, variables: Record<string, string> = OWN) {
  const opening = captureLog();
  const store = await openStore(kv, opening.log);
  const gate = await setUp(variables, { store });
  return {
    ...gate,
    opened: opening.lines,
    async [Symbol.asyncDispose]() {
      await gate[Symbol.asyncDispose]();
      store.close();
    },
  };
}

/** Fills a store as a gateway and `set` do. */
async function fill(kv: string): Promise<void> {
  await using gate = await start(kv);
  assertEquals((await gate.ask("/rep/session-key")).status, 200);
  await withStore(kv, (store) => setStoredVariables(store, { B: "set" }));
  await until(async () => (await publicValues(gate))["B"] === "set");
}

async function withStore<T>(kv: string, run: (store: Store) => Promise<T>) {
  const store = await openStore(kv, silentLog);
  try {
    return await run(store);
  } finally {
    store.close();
  }
}

async function publicValues({ gateway }: TestGateway) {
  const json = />({.*})</.exec(await gateway.configScript())?.[1];
  return JSON.parse(json ?? "null").public;
}

async function healthOf(gate: TestGateway) {
  const response = await gate.ask("/rep/health");
  const { status, problems = [] } = await response.json();
  return [response.status, status, ...problems];
}

const isHealthy = async (gate: TestGateway) =>
  (await healthOf(gate))[1] === "healthy";

/** Checks a gateway that was started on what `fill()` has left, with other values of its own. */
async function assertServesStored(
  gate: TestGateway,
  cause: RegExp,
): Promise<void> {
  assertEquals(await publicValues(gate), { A: "own", B: "set" });
  assertEquals((await gate.ask("/rep/session-key")).status, 200);
  assertEquals(await healthOf(gate), [
    200,
    "degraded",
    "store_unavailable",
    "change_waiting",
  ]);
  const [down, ...more] = gate.logged("rep.store.down");
  assertMatch(String(down?.["detail"]), cause);
  assertEquals(more, []);
  assertMatch(
    String(gate.logged("rep.config.not_published")[0]?.["detail"]),
    cause,
  );
}

const NEW = { ...OWN, REP_PUBLIC_A: "new" };

/** The two files beside a database, of which one has 32 KiB and the other grows with each commit. */
const SQLITE_OPEN_BYTES = 40_000;

Deno.test({
  name:
    "a gateway that starts on a full disk serves what its SQLite file has, and publishes when there is room",
  ignore: Deno.build.os !== "linux" || Deno.uid() !== 0, // mounts a file system
  async fn() {
    await using directory = await TempDirectory.make();
    const mount = (...args: string[]) =>
      new Deno.Command(args[0] ?? "", { args: args.slice(1) }).output();
    const { success } = await mount(
      ...["mount", "-t", "tmpfs", "-o", "size=1m", "rep", directory.path],
    );
    assert(success);
    try {
      const kv = directory.at("kv.sqlite3");
      await fill(kv);
      const filler = directory.at("filler");
      using file = await Deno.open(filler, { write: true, create: true });
      const full = async () => {
        for (;;) await file.write(new Uint8Array(4_096));
      };
      await assertRejects(full, Error, "No space left");
      // SQLite needs this much to open a file that was closed.
      const { size } = await file.stat();
      await file.truncate(size - SQLITE_OPEN_BYTES);
      await using gate = await start(kv, NEW);
      await assertServesStored(gate, /database or disk is full/);
      await Deno.truncate(filler);
      await until(() => isHealthy(gate));
      assertEquals(await publicValues(gate), { A: "new", B: "set" });
    } finally {
      await mount("umount", "--lazy", directory.path);
    }
  },
});

const bin = await findPostgres();
const READ_ONLY =
  /the server is read-only \(default_transaction_read_only\), as managed services make it when the storage is full/;

function testPostgres(
  name: string,
  run: (server: PostgresServer) => Promise<void>,
) {
  Deno.test({
    name: bin === undefined ? `without ${MISSING}: ${name}` : name,
    ignore: bin === undefined,
    async fn() {
      await using server = await PostgresServer.create(String(bin), FAST);
      await run(server);
    },
  });
}

/** Runs statements, each in a transaction of its own that may write whatever the default is. */
async function runSql(server: PostgresServer, ...statements: string[]) {
  const pool = await PostgresPool.open(parsePostgresUrl(server.url()));
  const client = await pool.connect();
  await client.query("SET default_transaction_read_only = off");
  for (const statement of statements) await client.query(statement);
  client.release();
  pool.close();
}

/** What makes a server read-only, and what ends that. */
const WAYS: Record<string, [on: string[], off: string[]]> = {
  "ALTER SYSTEM, which open connections follow": [
    [
      "ALTER SYSTEM SET default_transaction_read_only = on",
      "SELECT pg_reload_conf()",
    ],
    [
      "ALTER SYSTEM RESET default_transaction_read_only",
      "SELECT pg_reload_conf()",
    ],
  ],
  "ALTER DATABASE, which counts for new connections": [
    ["ALTER DATABASE postgres SET default_transaction_read_only = on"],
    ["ALTER DATABASE postgres RESET default_transaction_read_only"],
  ],
  "ALTER ROLE, which counts for new connections": [
    ["ALTER ROLE gateway SET default_transaction_read_only = on"],
    ["ALTER ROLE gateway RESET default_transaction_read_only"],
  ],
};

for (const [way, [on, off]] of Object.entries(WAYS)) {
  testPostgres(
    `a gateway that starts on a read-only server serves what is stored, and publishes when it is writable (${way})`,
    async (server) => {
      const kv = server.url();
      await fill(kv);
      await runSql(server, ...on);
      await using gate = await start(kv, NEW);
      assertEquals(gate.opened, []);
      await assertServesStored(gate, READ_ONLY);
      const set = await runCommand(["set", "B=2", "--kv", kv]);
      assertEquals(set.code, 1);
      assertMatch(set.stderr, READ_ONLY);
      assertMatch((await runCommand(["list", "--kv", kv])).stdout, /B .*set/);

      await runSql(server, ...off);
      await until(() => isHealthy(gate));
      assertEquals(await publicValues(gate), { A: "new", B: "set" });
      await withStore(kv, (store) => setStoredVariables(store, { B: "2" }));
      await until(async () => (await publicValues(gate))["B"] === "2");
    },
  );
}

testPostgres(
  "a server that becomes read-only and writable again loses no read, and the gateway says why changes wait",
  async (server) => {
    const [on, off] = WAYS["ALTER SYSTEM, which open connections follow"]!;
    await fill(server.url());
    await using gate = await start(server.url());
    await runSql(server, ...on);
    await gate.set(NEW);
    assertEquals(await healthOf(gate), [
      200,
      "degraded",
      "store_unavailable",
      "change_waiting",
    ]);
    await delay(3_000); // probes of the circuit breaker, and polls
    const errors = await gate.metric(
      'rep_store_errors_total{operation="read"}',
    );
    assertEquals([errors?.at(-1) ?? "0", await publicValues(gate)], [
      "0",
      { A: "own", B: "set" },
    ]);
    assertMatch(
      String(gate.logged("rep.store.down")[0]?.["detail"]),
      READ_ONLY,
    );
    await runSql(server, ...off);
    await until(() => isHealthy(gate));
    assertEquals(await publicValues(gate), { A: "new", B: "set" });
  },
);

testPostgres(
  "without its schema, a read-only server is no store; the gateway waits until it can create it",
  async (server) => {
    const [on, off] = WAYS["ALTER DATABASE, which counts for new connections"]!;
    await runSql(server, ...on);
    await using gate = await start(server.url());
    const missing =
      /the schema "rep_gateway" does not exist, and cannot be created: the server is read-only/;
    assertMatch(String(gate.opened[0]?.["detail"]), missing);
    assertEquals(await healthOf(gate), [503, "starting", "store_unavailable"]);
    const list = await runCommand(["list", "--kv", server.url()]);
    assertEquals(list.code, 1);
    assertMatch(list.stderr, missing);
    await runSql(server, ...off);
    await until(() => isHealthy(gate));
  },
);

testPostgres(
  "a role without the privilege to write is an error, and not called read-only",
  async (server) => {
    await fill(server.url());
    const password = server.password;
    await runSql(
      server,
      `CREATE ROLE reader LOGIN PASSWORD '${password}'`,
      "GRANT USAGE ON SCHEMA rep_gateway TO reader",
      "GRANT SELECT ON ALL TABLES IN SCHEMA rep_gateway TO reader",
    );
    const kv = server.url().replace("gateway:", "reader:");
    await withStore(kv, async (store) => {
      const commit = () => store.commit([], [{ key: ["a"], value: 1 }]);
      const error = await assertRejects(commit, StoreUnavailableError);
      assertMatch(error.message, /permission denied/);
    });
  },
);

testPostgres(
  "of several hosts, a standby is never used, and a read-only primary only while no other is writable",
  async (server) => {
    const [on] = WAYS["ALTER SYSTEM, which open connections follow"]!;
    await fill(server.url());
    await using standby = await server.createReplica();
    await assertRejects(
      () => PostgresPool.open(parsePostgresUrl(standby.url())),
      StoreUnavailableError,
      "it is a standby",
    );
    await runSql(server, ...on);
    for (const hosts of [[server, standby], [standby, server]]) {
      await using gate = await start(PostgresServer.url(hosts, server), NEW);
      await assertServesStored(gate, READ_ONLY);
    }
    const kv = PostgresServer.url([server, standby], server);
    await using gate = await start(kv, NEW);
    await assertServesStored(gate, READ_ONLY);
    await standby.promote(); // while the former primary can still be read
    await until(() => isHealthy(gate));
    assertEquals(await publicValues(gate), { A: "new", B: "set" });
    await using late = await start(kv, NEW);
    assertEquals(await healthOf(late), [200, "healthy"]);
  },
);
