import {
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertRejects,
} from "@std/assert";
import { writeVariables } from "../../../src/stored/write_variables.ts";
import { silentLog } from "../../../src/core/observe/log.ts";
import { openStore } from "../../../src/engines/open.ts";
import { storeExists } from "../../../src/engines/open_named.ts";
import { PostgresPool } from "../../../src/engines/postgres/connection.ts";
import { openPostgresStore } from "../../../src/engines/postgres/postgres.ts";
import { parsePostgresUrl } from "../../../src/engines/postgres/url.ts";
import { retryConflicts } from "../../../src/core/store/commits.ts";
import {
  type Store,
  StoreIncompatibleError,
  StoreUnavailableError,
} from "../../../src/core/store/store.ts";
import { systemClock } from "../../../src/core/values/clock.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { findPostgres, PostgresServer } from "../../../tools/postgres.ts";
import { withEnvironment } from "../../_environment.ts";
import { captureLog, setUp } from "../../_gateway.ts";
import { FAST, MISSING } from "../../_postgres.ts";
import { TempDirectory } from "../../_temp.ts";
import { eventually, until } from "../../_time.ts";

const bin = await findPostgres();
let server: PostgresServer;
let schemas = 0;

if (bin !== undefined) {
  Deno.test.beforeAll(async () => {
    server = await PostgresServer.create(bin, { ...FAST, files: TLS_FILES });
  });
  Deno.test.afterAll(() => server[Symbol.asyncDispose]());
}

/** Registers a test that needs the server, with a schema of its own; without one it is ignored, and its name says why. */
function testPostgres(
  name: string,
  test: (url: string, schema: string) => Promise<void>,
) {
  Deno.test({
    name: bin === undefined ? `without ${MISSING}: ${name}` : name,
    ignore: bin === undefined,
    async fn() {
      const schema = `own_${schemas++}`;
      await test(server.url(`schema=${schema}`), schema);
      await noConnectionIsLeft(); // what was in flight has ended, too
    },
  });
}

/** Opens several stores, and closes them in the end. */
async function withStores(
  urls: readonly string[],
  run: (first: Store, second: Store) => Promise<void>,
) {
  const stores = await Promise.all(
    urls.map((url) => openStore(url, silentLog)),
  );
  try {
    const [first, second] = stores as [Store, Store];
    await run(first, second);
  } finally {
    for (const store of stores) store.close();
  }
}

async function assertCannotOpen(url: string, reason = "") {
  const open = () => openStore(url, silentLog);
  return await assertRejects(open, TypeError, reason);
}

async function increment(store: Store): Promise<string | undefined> {
  const entry = await store.get<number>(["sum"]);
  const check = { key: ["sum"], version: entry?.version ?? null };
  return await store.commit([check], [{
    key: ["sum"],
    value: (entry?.value ?? 0) + 1,
  }]);
}

testPostgres(
  "several gateways that start at once on an empty database create the schema once",
  async (url) => {
    const { log, lines } = captureLog();
    const opening = Array.from(
      { length: 8 },
      () => openStore(url, log),
    );
    for (const store of await Promise.all(opening)) {
      assertEquals(await store.get(["a"]), undefined);
      store.close();
    }
    assertEquals(lines, []);
  },
);

testPostgres(
  "concurrent commits of several processes lose no update",
  async (url) => {
    await withStores([url, url], async (first, second) => {
      const options = { clock: systemClock, random: Math.random };
      const commits = Array.from({ length: 20 }, (_, index) => {
        const store = index % 2 === 0 ? first : second;
        return retryConflicts(() => increment(store), options);
      });
      await Promise.all(commits);
      assertEquals((await first.get<number>(["sum"]))?.value, 20);
    });
  },
);

testPostgres(
  "of two commits that check that the other's key does not exist, one at most succeeds",
  async (url) => {
    await withStores(
      [url, url],
      async (first, second) => {
        for (let round = 0; round < 5; round++) {
          const [x, y] = [["x", round], ["y", round]];
          const results = await Promise.all([
            first.commit([{ key: x, version: null }], [{ key: y, value: 1 }]),
            second.commit([{ key: y, version: null }], [{ key: x, value: 1 }]),
          ]);
          assertNotEquals(
            results.filter((version) => version === undefined),
            [],
          );
        }
      },
    );
  },
);

testPostgres(
  "gateways with different schemas share nothing",
  async (url, schema) => {
    const urls = [url, server.url(`schema=${schema}_b`)];
    await withStores(urls, async (first, second) => {
      await first.commit([], [{ key: ["a"], value: 1 }]);
      assertEquals(await second.get(["a"]), undefined);
    });
  },
);

testPostgres(
  "watch() calls back after a commit by another process, and not for a key of several parts",
  async (url) => {
    await withStores(
      [url, url],
      async (first, second) => {
        const { promise, resolve } = Promise.withResolvers<void>();
        let hints = 0;
        const stops = [
          first.watch(["deep", "key"], () => hints++),
          first.watch(["a"], resolve),
        ];
        const commits: unknown[] = [];
        const commit = () =>
          second.commit([], [{ key: ["deep", "key"], value: 1 }, {
            key: ["a"],
            value: 1,
          }]);
        const timer = setInterval(() => commits.push(commit()), 20);
        await promise;
        clearInterval(timer);
        assertEquals(hints, 0);
        for (const stop of stops) stop?.();
        await Promise.all(commits);
      },
    );
  },
);

/** What a gateway says that knows version 1 of the schema, of which it found version 3. */
const TOO_NEW =
  /the schema "\w+" has version 3, which needs a gateway that knows version 2: this one knows 1; start a newer gateway, or name another schema/;

function setVersion(schema: string, version: number, compatibleSince: number) {
  return runSql(
    `UPDATE ${schema}.schema_version SET version = ${version}, compatible_since = ${compatibleSince}`,
  );
}

testPostgres(
  "a newer schema is used if it says that this version can",
  async (url, schema) => {
    await withStores([url], () => Promise.resolve());
    await setVersion(schema, 3, 1);
    await withStores([url], async (store) => {
      await store.commit([], [{ key: ["a"], value: 1 }]);
      assertEquals((await store.get(["a"]))?.value, 1);
    });
  },
);

testPostgres(
  "a newer schema that this version cannot use is rejected, with what to do",
  async (url, schema) => {
    await withStores([url], () => Promise.resolve());
    await setVersion(schema, 3, 2);
    const open = () => openStore(url, silentLog);
    const { message } = await assertRejects(open, StoreIncompatibleError);
    assertMatch(message, TOO_NEW);
  },
);

testPostgres(
  "a schema whose tables are another program's is rejected, with what to do and without the password",
  async (url, schema) => {
    await runSql(
      `CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.schema_version (migration text)`,
    );
    const open = () => openStore(url, silentLog);
    const { message } = await assertRejects(open, StoreIncompatibleError);
    assertMatch(
      message,
      /^Cannot open the store "postgres:\/\/…@[^"]*": column "version" does not exist; restore the schema from a backup, or name another one \(\?schema=NAME\)$/,
    );
  },
);

testPostgres(
  "storeExists() does not create the schema that it looks for",
  async (url) => {
    assertEquals(await storeExists(url), false);
    assertEquals(await storeExists(url), false);
    await withStores([url], () => Promise.resolve());
    assertEquals(await storeExists(url), true);
  },
);

testPostgres(
  "a start ends if the schema lacks a table; a gateway that runs goes on with what it has read",
  async (url, schema) => {
    await withStores([url], async (store) => {
      const options = { clock: systemClock, random: Math.random };
      const values = new Map([["A", "stored"]]);
      await writeVariables(store, values, { ...options, ifId: undefined });
      await using running = await setUp({}, { store, hotReload: false });
      await runSql(`DROP TABLE ${schema}.entry`);
      await withStores([url], async (other) => {
        const start = () => setUp({}, { store: other, hotReload: false });
        await assertRejects(
          start,
          StoreIncompatibleError,
          `relation "${schema}.entry" does not exist; restore the schema`,
        );
      });
      await running.gateway.reload();
      assertEquals(running.gateway.get("A"), "stored");
    });
  },
);

testPostgres(
  "each connection of the pool checks the version of the schema, not the first one alone",
  async (url, schema) => {
    const target = parsePostgresUrl(url);
    const store = await openPostgresStore(target, {
      clock: systemClock,
      random: Math.random,
      log: silentLog,
    });
    try {
      await setVersion(schema, 3, 2);
      assertEquals(await store.get(["a"]), undefined); // over the first connection
      await runSql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
      );
      await eventually(async () => { // the read in progress fails with another error, which depends on the moment
        const read = () => store.get(["a"]);
        const error = await assertRejects(read, StoreUnavailableError);
        assertMatch(error.message, TOO_NEW);
      });
    } finally {
      store.close();
    }
  },
);

testPostgres(
  "a commit that the server has no resources for leaves the connections and the reads alone",
  async (url, schema) => {
    await using observer = await openConnection(); // before the store's, so that these are the later ones
    await withStores([url], async (store) => {
      await failWrites(schema, "disk_full", observer.query); // a connection of its own might still be ending
      const [before] = await observer.query(CONNECTIONS);
      const commit = () => store.commit([], [{ key: ["a"], value: 1 }]);
      await assertRejects(commit, StoreUnavailableError, "a test");
      assertEquals(await store.get(["a"]), undefined);
      assertEquals((await observer.query(CONNECTIONS))[0], before);
    });
  },
);

testPostgres(
  "many operations at once share two connections with the notifications, even if these connect last",
  async (url) => {
    await using observer = await openConnection();
    await withStores([url], async (store) => {
      const key = ["a"];
      const { promise, resolve } = Promise.withResolvers<void>();
      const reads = Array.from({ length: 50 }, () => store.get(key));
      store.watch(key, resolve);
      await promise; // it hints after it has connected
      await Promise.all(reads);
      const operations = Array.from({ length: 50 }, () => store.get(key));
      await Promise.all(operations);
      const [row] = await observer.query(CONNECTIONS);
      assertEquals(row?.["pids"]?.split(",").length, 2);
    });
  },
);

/** Creates a role that may open this many connections, and owns a schema; returns the URL that uses both. */
async function createTeam(name: string, maxConnections = -1): Promise<string> {
  await runSql(`
    CREATE ROLE ${name} LOGIN PASSWORD 'pw' CONNECTION LIMIT ${maxConnections};
    CREATE SCHEMA ${name} AUTHORIZATION ${name};`);
  return server.url(`schema=${name}`).replace(/\/\/.*@/, `//${name}:pw@`);
}

testPostgres(
  "teams on one database, each with a role that only owns a schema, can neither read nor write each other's entries",
  async (_url, schema) => {
    const [a, b] = [`${schema}_a`, `${schema}_b`];
    const urls = [await createTeam(a), await createTeam(b)] as const;
    await withStores(urls, async (first, second) => {
      await first.commit([], [{ key: ["secret"], value: 1 }]);
      assertEquals(await second.get(["secret"]), undefined);
    });
    await assertCannotOpen(
      urls[1].replace(`schema=${b}`, `schema=${a}`),
      `permission denied for schema ${a}`,
    );
    const pool = await PostgresPool.open(parsePostgresUrl(urls[1]));
    for (
      const sql of [
        `SELECT * FROM ${a}.entry`,
        `DELETE FROM ${a}.entry`,
        `SELECT ${a}.commit_entries('[]', '[]')`,
      ]
    ) await assertRejects(() => pool.query(sql), Error, "permission denied");
    pool.close();
  },
);

testPostgres(
  "gateways at a connection limit share the connections that they have, and none loses its store",
  async (_url, schema) => {
    const url = await createTeam(schema, 3); // two gateways would use four
    await using observer = await openConnection();
    await withStores([url, url], async (first, second) => {
      for (const store of [first, second]) {
        const hinted = Promise.withResolvers<void>();
        store.watch(["a"], hinted.resolve);
        const reads = Array.from({ length: 10 }, () => store.get(["a"]));
        await Promise.all([...reads, hinted.promise]);
      }
      const [row] = await observer.query(CONNECTIONS);
      assertEquals(row?.["pids"]?.split(",").length, 3);
    });
  },
);

testPostgres(
  "a pool at the connection limit waits for its only connection, and opens another one 5 s later; without any, it fails",
  async (_url, schema) => {
    const target = parsePostgresUrl(await createTeam(schema, 1));
    const clock = new FakeClock();
    const pool = await PostgresPool.open(target, async () => {}, clock);
    await assertRejects(
      () => PostgresPool.open(target),
      StoreUnavailableError,
      "too many connections",
    );
    const only = await pool.connect();
    const waiting = pool.query("SELECT 'waited' AS it");
    only.release();
    assertEquals(await waiting, [{ it: "waited" }]);

    await runSql(`ALTER ROLE ${schema} CONNECTION LIMIT 2`);
    clock.pass(5_000);
    const one = await pool.connect();
    assertEquals(await pool.query("SELECT 'another' AS it"), [
      { it: "another" },
    ]);
    one.release();
    pool.close();
  },
);

testPostgres(
  "statements are executed although the connection has lost what was prepared, as behind a pooler in transaction mode",
  async (url) => {
    const pool = await PostgresPool.open(parsePostgresUrl(url));
    const statement = { name: "get", text: "SELECT $1 AS it", values: ["a"] };
    assertEquals(await pool.query(statement), [{ it: "a" }]);
    await pool.query("DEALLOCATE ALL");
    assertEquals(await pool.query(statement), [{ it: "a" }]);
    await pool.query("DEALLOCATE ALL"); // it prepares none any longer
    assertEquals(await pool.query(statement), [{ it: "a" }]);
    pool.close();
  },
);

/** The process IDs of the connections that were opened after this one: earlier ones may still be ending. */
const CONNECTIONS =
  `SELECT array_agg(pid ORDER BY pid)::text AS pids FROM pg_stat_activity
  WHERE backend_type = 'client backend'
  AND backend_start > (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())`;

testPostgres(
  "a server that has room for few locks takes a commit of 330 new variables",
  async (_url, schema) => {
    await using small = await PostgresServer.create(String(bin), {
      settings: {
        ...FAST.settings,
        max_connections: "10",
        max_locks_per_transaction: "10",
      },
    });
    await withStores([small.url(`schema=${schema}`)], async (store) => {
      const writes = Array.from(
        { length: 660 },
        (_, index) => ({ key: ["event", index], value: "new" }),
      );
      const checks = writes.slice(0, store.maxChecks).map(({ key }) => ({
        key,
        version: null,
      }));
      assertNotEquals(await store.commit(checks, writes), undefined);
      assertEquals((await store.list(["event"]))?.length, 660);
    });
  },
);

testPostgres(
  "a check that an entry does not exist leaves none behind",
  async (url, schema) => {
    await withStores([url], async (store) => {
      const checks = [["checked"], ["deleted"], ["written"]].map((key) => ({
        key,
        version: null,
      }));
      await store.commit(checks, [{ key: ["deleted"] }, {
        key: ["written"],
        value: 1,
      }]);
      const rows = await runSql(
        `SELECT name, value FROM ${schema}.entry`,
      );
      assertEquals(rows, [{ name: "-written", value: "1" }]);
    });
  },
);

/** Waits until the server has no other connection; one that was not closed would stay. */
async function noConnectionIsLeft() {
  const others =
    "SELECT count(*)::text FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
  await until(async () => (await runSql(others))[0]?.["count"] === "0");
}

for (const code of ["40001", "40P01", "23505"]) {
  testPostgres(
    `commit() returns undefined if another commit won: SQLSTATE ${code}`,
    async (url, schema) => {
      await withStores([url], async (store) => {
        await failWrites(schema, code);
        const version = await store.commit([], [{ key: ["a"], value: 1 }]);
        assertEquals(version, undefined);
      });
    },
  );
}

testPostgres(
  "reads and commits that the server rejects are an outage",
  async (url, schema) => {
    await withStores([url], async (store) => {
      await runSql(`DROP SCHEMA ${schema} CASCADE`);
      for (
        const run of [
          () => store.get(["a"]),
          () => store.list(["a"]),
          () => store.commit([], [{ key: ["a"] }]),
        ]
      ) {
        await assertRejects(run, StoreUnavailableError, "does not exist");
      }
    });
  },
);

testPostgres(
  "a user who may neither create nor use the schema is rejected; one with the documented privileges is not",
  async (url, schema) => {
    const user = `user_${schema}`;
    await runSql(`CREATE ROLE ${user} LOGIN PASSWORD 'pw'`);
    const userUrl = url.replace(/\/\/.*@/, `//${user}:pw@`);
    await assertCannotOpen(userUrl, "permission denied for database");
    await withStores([url], () => Promise.resolve());
    await assertCannotOpen(userUrl, "permission denied for schema");
    await runSql(`
    GRANT USAGE ON SCHEMA ${schema} TO ${user};
    GRANT SELECT ON ${schema}.schema_version TO ${user};
    GRANT SELECT, INSERT, UPDATE, DELETE ON ${schema}.entry TO ${user};`);
    await withStores([userUrl], async (store) => {
      assertNotEquals(
        await store.commit([{ key: ["a"], version: null }], [{
          key: ["a"],
          value: 1,
        }]),
        undefined,
      );
      assertEquals((await store.get(["a"]))?.value, 1);
    });
  },
);

/** Runs statements as the superuser. */
async function runSql(sql: string) {
  await using connection = await openConnection();
  return await connection.query(sql);
}

async function openConnection() {
  const connection = await PostgresPool.open(parsePostgresUrl(server.url()));
  return {
    query: (sql: string) => connection.query(sql),
    [Symbol.asyncDispose]: () => Promise.resolve(connection.close()),
  };
}

/** Makes every write of a store fail with a code (PostgreSQL, Appendix A). */
async function failWrites(schema: string, code: string, query = runSql) {
  await query(
    `CREATE FUNCTION ${schema}.fail() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'a test' USING ERRCODE = '${code}'; END $$;
    CREATE TRIGGER fail BEFORE INSERT ON ${schema}.entry FOR EACH ROW EXECUTE FUNCTION ${schema}.fail()`,
  );
}

testPostgres(
  "the password is read from the URL, a file or PGPASSWORD, and is in no message",
  async (url) => {
    await using directory = await TempDirectory.make({
      good: `${server.password}\n`,
      bad: "s3cret",
    });
    const without = url.replace(`:${server.password}`, "");
    await withStores(
      [`${without}&password_file=${directory.at("good")}`],
      async (store) => {
        assertEquals(await store.get(["a"]), undefined);
      },
    );
    const wrong = [
      `${without}&password_file=${directory.at("bad")}`,
      url.replace(server.password, "s3cret"),
    ];
    for (const url of wrong) {
      const error = await assertCannotOpen(
        url,
        "password authentication failed",
      );
      assertEquals(error.message.includes("s3cret"), false);
    }
    await assertCannotOpen(
      without,
      "the server asks for a password: expected USER:",
    );
    const missing = `${without}&password_file=${directory.at("none")}`;
    await assertCannotOpen(missing, "no such file");
    const noCa = `${url}&sslmode=verify-full&sslrootcert=${
      directory.at("none")
    }`;
    await assertCannotOpen(noCa, "no such file");
    await withEnvironment({ PGPASSWORD: server.password }, () =>
      withStores(
        [without],
        async (store) => assertEquals(await store.get(["a"]), undefined),
      ));
  },
);

/** A certificate for localhost, and its key; see tests/content/proxy/tls. */
const TLS_FILES: Record<string, string> = {
  "server.crt": await Deno.readTextFile(
    "tests/content/proxy/tls/localhost.crt",
  ),
  "server.key": await Deno.readTextFile(
    "tests/content/proxy/tls/localhost.key",
  ),
};

testPostgres(
  "the certificate is verified: its authority, and that the server offers one at all",
  async (url, schema) => {
    const plain = `${url}&sslmode=verify-full`.replace(
      "127.0.0.1",
      "localhost",
    );
    await assertCannotOpen(plain, "does not support SSL");
    await using encrypted = await PostgresServer.create(String(bin), {
      settings: { ...FAST.settings, ssl: "on" },
      files: TLS_FILES,
    });
    const tls = encrypted.url(`schema=${schema}&sslmode=verify-full`).replace(
      "127.0.0.1",
      "localhost",
    );
    const error = await assertCannotOpen(tls);
    assertMatch(error.message, /unable to verify|self.signed|certificate/i);
    await withStores(
      [`${tls}&sslrootcert=tests/content/proxy/tls/ca.crt`],
      async (store) => {
        assertEquals(await store.get(["a"]), undefined);
      },
    );
    const otherName = `${
      tls.replace("localhost", "[::ffff:127.0.0.1]")
    }&sslrootcert=tests/content/proxy/tls/ca.crt`;
    await assertCannotOpen(otherName, "altnames");
  },
);

testPostgres(
  "a server that is away does not prevent the start; operations fail until it is back",
  async (_url, schema) => {
    await using other = await PostgresServer.create(String(bin), FAST);
    await other.kill();
    const { log, lines } = captureLog();
    const store = await openStore(other.url(`schema=${schema}`), log);
    try {
      assertEquals(lines.map(({ level, msg }) => [level, msg]), [[
        "WARN",
        "rep.store.unreachable",
      ]]);
      assertEquals(JSON.stringify(lines).includes(other.password), false);
      await assertRejects(
        () => store.get(["a"]),
        StoreUnavailableError,
        "ECONNREFUSED",
      );
      await other.start();
      await retryConflicts(
        () =>
          store.commit([], [{ key: ["a"], value: 1 }]).catch(() => undefined),
        {
          clock: systemClock,
          random: () => 1,
        },
      );
    } finally {
      store.close();
    }
  },
);

testPostgres(
  "close() ends the connections: operations in progress, those that wait for a connection, and later ones reject",
  async (url) => {
    const target = parsePostgresUrl(url);
    const store = await openPostgresStore(target, {
      clock: systemClock,
      random: Math.random,
      log: silentLog,
    });
    store.watch(["a"], () => {});
    const reads = Array.from({ length: 5_000 }, () => store.get(["a"]));
    store.close();
    reads.push(store.get(["a"]));
    for (const read of reads) {
      await assertRejects(
        () => read,
        StoreUnavailableError,
        "the connection has been closed",
      );
    }
  },
);

Deno.test("PostgresPool.open() leaves no connection at a server that accepts the user and answers nothing, such as a pooler without its database", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const ended = Promise.withResolvers<void>();
  let parameters = "";
  async function serve(): Promise<void> {
    using connection = await listener.accept();
    const buffer = new Uint8Array(1_000);
    const length = await connection.read(buffer) ?? 0;
    parameters = new TextDecoder().decode(buffer.subarray(8, length));
    // AuthenticationOk, ReadyForQuery
    const ready = [82, 0, 0, 0, 8, 0, 0, 0, 0, 90, 0, 0, 0, 5, 73];
    await connection.write(new Uint8Array(ready));
    while (await connection.read(buffer).catch(() => null) !== null);
    ended.resolve();
  }
  const serving = serve();
  const { port } = listener.addr;
  // With many hosts, each has little time; the others refuse the connection.
  const others = ",127.0.0.1:1".repeat(39);
  const target = parsePostgresUrl(
    `postgres://user:password@127.0.0.1:${port}${others}/db`,
  );
  await assertRejects(
    () => PostgresPool.open(target),
    StoreUnavailableError,
    "no answer within 100 ms",
  );
  await ended.promise;
  await serving;
  // PgBouncer rejects a connection with any others, such as `statement_timeout`.
  assertEquals(
    parameters.split("\0").filter((_part, index) => index % 2 === 0),
    ["user", "database", "application_name", "client_encoding", ""],
  );
});

testPostgres("a statement may take 5 s", async (url) => {
  const pool = await PostgresPool.open(parsePostgresUrl(url));
  assertEquals(await pool.query("SHOW statement_timeout"), [
    { statement_timeout: "5s" },
  ]);
  pool.close();
});
