import {
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertRejects,
} from "@std/assert";
import { silentLog } from "../../../src/observe/log.ts";
import { openStore } from "../../../src/store/open.ts";
import { openPostgresStore } from "../../../src/store/postgres/postgres.ts";
import { parsePostgresUrl } from "../../../src/store/postgres/url.ts";
import { retryConflicts } from "../../../src/store/commits.ts";
import { type Store, StoreUnavailableError } from "../../../src/store/store.ts";
import { systemClock } from "../../../src/values/clock.ts";
import { findPostgres, PostgresServer } from "../../../tools/postgres.ts";
import { captureLog } from "../../_gateway.ts";
import { FAST, MISSING } from "../../_postgres.ts";
import { TempDirectory } from "../../_temp.ts";

const bin = await findPostgres();
let server: PostgresServer;
let schemas = 0;

if (bin !== undefined) {
  Deno.test.beforeAll(async () => {
    server = await PostgresServer.create(bin, { ...FAST, files: TLS_FILES });
  });
  Deno.test.afterAll(() => server[Symbol.asyncDispose]());
}

/**
 * Registers a test that needs the server, with a schema of its own; without one it is ignored, and its name says why.
 */
function testPostgres(
  name: string,
  fn: (parameters: string) => Promise<void>,
): void {
  if (bin !== undefined) Deno.test(name, () => fn(`schema=own_${schemas++}`));
  else {Deno.test({
      name: `without ${MISSING}: ${name}`,
      ignore: true,
      fn() {},
    });}
}

/** Opens several stores, and closes them in the end. */
async function withStores(
  urls: readonly string[],
  run: (...stores: Store[]) => Promise<void>,
): Promise<void> {
  const stores = await Promise.all(
    urls.map((url) => openStore(url, silentLog)),
  );
  try {
    await run(...stores);
  } finally {
    for (const store of stores) store.close();
  }
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
  async (parameters) => {
    const { log, lines } = captureLog();
    const opening = Array.from(
      { length: 8 },
      () => openStore(server.url(parameters), log),
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
  async (parameters) => {
    await withStores(
      Array(3).fill(server.url(parameters)),
      async (...stores) => {
        const options = { clock: systemClock, random: Math.random };
        const commits = stores.flatMap((store) =>
          Array.from({ length: 10 }, () => store)
        );
        await Promise.all(
          commits.map((store) =>
            retryConflicts(() => increment(store), options)
          ),
        );
        assertEquals((await stores[0]?.get<number>(["sum"]))?.value, 30);
      },
    );
  },
);

testPostgres(
  "of two commits that check that the other's key does not exist, one at most succeeds",
  async (parameters) => {
    await withStores(
      Array(2).fill(server.url(parameters)),
      async (...[first, second]) => {
        for (let round = 0; round < 5; round++) {
          const [x, y] = [["x", round], ["y", round]];
          const results = await Promise.all([
            first?.commit([{ key: x, version: null }], [{ key: y, value: 1 }]),
            second?.commit([{ key: y, version: null }], [{ key: x, value: 1 }]),
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
  async (parameters) => {
    await withStores(
      [server.url(parameters), server.url(`${parameters}_b`)],
      async (...[first, second]) => {
        await first?.commit([], [{ key: ["a"], value: 1 }]);
        assertEquals(await second?.get(["a"]), undefined);
      },
    );
  },
);

testPostgres(
  "watch() calls back after a commit by another process, and not for a key of several parts",
  async (parameters) => {
    await withStores(
      Array(2).fill(server.url(parameters)),
      async (...[first, second]) => {
        const { promise, resolve } = Promise.withResolvers<void>();
        let hints = 0;
        const stops = [
          first?.watch(["deep", "key"], () => hints++),
          first?.watch(["a"], resolve),
        ];
        const commits: unknown[] = [];
        const commit = () =>
          second?.commit([], [{ key: ["deep", "key"], value: 1 }, {
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

testPostgres("a server of a newer version is rejected", async (parameters) => {
  const url = server.url(parameters);
  await withStores([url], () => Promise.resolve());
  await runSql(
    `UPDATE ${
      parameters.replace("schema=", "")
    }.schema_version SET version = 2`,
  );
  await assertRejects(
    () => openStore(url, silentLog),
    TypeError,
    "expected version 1 of the schema",
  );
  await noConnectionIsLeft();
});

testPostgres(
  "each connection of the pool checks the version of the schema, not the first one alone",
  async (parameters) => {
    const schema = parameters.replace("schema=", "");
    const target = parsePostgresUrl(server.url(parameters));
    const store = await openPostgresStore(target, {
      clock: systemClock,
      random: Math.random,
    });
    try {
      await runSql(`UPDATE ${schema}.schema_version SET version = 2`);
      assertEquals(await store.get(["a"]), undefined); // over the first connection
      await runSql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
      );
      const deadline = Date.now() + 5_000;
      const error = await assertRejects(async () => {
        while (Date.now() < deadline) await getUnlessTerminated(store);
      }, StoreUnavailableError);
      assertMatch(error.message, /expected version 1 of the schema/);
    } finally {
      store.close();
    }
    await noConnectionIsLeft();
  },
);

/** The read that is in progress when its connection ends fails with another error, which depends on the moment. */
async function getUnlessTerminated(store: Store): Promise<void> {
  try {
    await store.get(["a"]);
  } catch (error) {
    if (/version/.test(String(error))) throw error;
  }
}

testPostgres(
  "a commit that the server has no resources for leaves the connections and the reads alone",
  async (parameters) => {
    const schema = parameters.replace("schema=", "");
    await using observer = await openConnection(); // before the store's, so that these are the later ones
    await withStores([server.url(parameters)], async (store) => {
      await observer.query(
        `CREATE FUNCTION ${schema}.fail() RETURNS trigger LANGUAGE plpgsql
      AS $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
      CREATE TRIGGER fail BEFORE INSERT ON ${schema}.entry FOR EACH ROW EXECUTE FUNCTION ${schema}.fail()`,
      );
      const [before] = await observer.query(CONNECTIONS);
      await assertRejects(
        async () => await store?.commit([], [{ key: ["a"], value: 1 }]),
        StoreUnavailableError,
        "could not extend file",
      );
      assertEquals(await store?.get(["a"]), undefined);
      assertEquals((await observer.query(CONNECTIONS))[0], before);
    });
  },
);

/** The process IDs of the connections that were opened after this one: earlier ones may still be ending. */
const CONNECTIONS =
  `SELECT array_agg(pid ORDER BY pid)::text AS pids FROM pg_stat_activity
  WHERE backend_type = 'client backend'
  AND backend_start > (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())`;

testPostgres(
  "a server that has room for few locks takes a commit of 330 new variables",
  async (parameters) => {
    await using small = await PostgresServer.create(String(bin), {
      settings: {
        ...FAST.settings,
        max_connections: "10",
        max_locks_per_transaction: "10",
      },
    });
    await withStores([small.url(parameters)], async (store) => {
      const writes = Array.from(
        { length: 660 },
        (_, index) => ({ key: ["event", index], value: "new" }),
      );
      const checks = writes.slice(0, store?.maxChecks).map(({ key }) => ({
        key,
        version: null,
      }));
      assertNotEquals(await store?.commit(checks, writes), undefined);
      assertEquals((await store?.list(["event"]))?.length, 660);
    });
  },
);

testPostgres(
  "a check that an entry does not exist leaves none behind",
  async (parameters) => {
    await withStores([server.url(parameters)], async (store) => {
      const checks = [["checked"], ["deleted"], ["written"]].map((key) => ({
        key,
        version: null,
      }));
      await store?.commit(checks, [{ key: ["deleted"] }, {
        key: ["written"],
        value: 1,
      }]);
      const rows = await runSql(
        `SELECT name, value FROM ${parameters.replace("schema=", "")}.entry`,
      );
      assertEquals(rows, [{ name: "-written", value: "1" }]);
    });
  },
);

/** Waits until the server has no other connection; one that was not closed would stay. */
async function noConnectionIsLeft(): Promise<void> {
  const others =
    "SELECT count(*)::text FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
  const deadline = Date.now() + 5_000;
  while ((await runSql(others))[0]?.["count"] !== "0") {
    if (Date.now() > deadline) throw new Error("A connection was not closed");
  }
}

for (const code of ["40001", "40P01", "23505"]) {
  testPostgres(
    `commit() returns undefined if another commit won: SQLSTATE ${code}`,
    async (parameters) => {
      const schema = parameters.replace("schema=", "");
      await using observer = await openConnection(); // before the store's, so that these are the later ones
      await withStores([server.url(parameters)], async (store) => {
        await observer.query(
          `CREATE FUNCTION ${schema}.fail() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '${code}'; END $$;
        CREATE TRIGGER fail BEFORE INSERT ON ${schema}.entry FOR EACH ROW EXECUTE FUNCTION ${schema}.fail()`,
        );
        assertEquals(
          await store?.commit([], [{ key: ["a"], value: 1 }]),
          undefined,
        );
      });
    },
  );
}

testPostgres(
  "reads and commits that the server rejects are an outage",
  async (parameters) => {
    await withStores([server.url(parameters)], async (store) => {
      await runSql(`DROP SCHEMA ${parameters.replace("schema=", "")} CASCADE`);
      await assertRejects(
        async () => await store?.get(["a"]),
        StoreUnavailableError,
        "does not exist",
      );
      await assertRejects(
        async () => await store?.list(["a"]),
        StoreUnavailableError,
        "does not exist",
      );
      await assertRejects(
        async () => await store?.commit([], [{ key: ["a"] }]),
        StoreUnavailableError,
        "does not exist",
      );
    });
  },
);

testPostgres(
  "a user who may neither create nor use the schema is rejected; one with the documented privileges is not",
  async (parameters) => {
    const schema = parameters.replace("schema=", "");
    const user = `user_${schema}`;
    await runSql(`CREATE ROLE ${user} LOGIN PASSWORD 'pw'`);
    const url = server.url(parameters).replace(/\/\/.*@/, `//${user}:pw@`);
    await assertRejects(
      () => openStore(url, silentLog),
      TypeError,
      "permission denied for database",
    );
    await withStores([server.url(parameters)], () => Promise.resolve());
    await assertRejects(
      () => openStore(url, silentLog),
      TypeError,
      "permission denied for schema",
    );
    await runSql(`
    GRANT USAGE ON SCHEMA ${schema} TO ${user};
    GRANT SELECT ON ${schema}.schema_version TO ${user};
    GRANT SELECT, INSERT, UPDATE, DELETE ON ${schema}.entry TO ${user};`);
    await withStores([url], async (store) => {
      assertNotEquals(
        await store?.commit([{ key: ["a"], version: null }], [{
          key: ["a"],
          value: 1,
        }]),
        undefined,
      );
      assertEquals((await store?.get(["a"]))?.value, 1);
    });
  },
);

/** Runs statements as the superuser. */
async function runSql(sql: string) {
  await using connection = await openConnection();
  return await connection.query(sql);
}

async function openConnection() {
  const { PostgresConnection } = await import(
    "../../../src/store/postgres/connection.ts"
  );
  const { parsePostgresUrl } = await import(
    "../../../src/store/postgres/url.ts"
  );
  const connection = await PostgresConnection.open(
    parsePostgresUrl(server.url()),
    new AbortController().signal,
  );
  return {
    query: (sql: string) => connection.query(sql),
    [Symbol.asyncDispose]: () => Promise.resolve(connection.close()),
  };
}

testPostgres(
  "the password is read from the URL, a file or PGPASSWORD, and is in no message",
  async (parameters) => {
    await using directory = await TempDirectory.make({
      good: `${server.password}\n`,
      bad: "s3cret",
    });
    const without = server.url(parameters).replace(`:${server.password}`, "");
    await withStores(
      [`${without}&password_file=${directory.at("good")}`],
      async (store) => {
        assertEquals(await store?.get(["a"]), undefined);
      },
    );
    const wrong = [
      `${without}&password_file=${directory.at("bad")}`,
      server.url(parameters).replace(server.password, "s3cret"),
    ];
    for (const url of wrong) {
      const error = await assertRejects(
        () => openStore(url, silentLog),
        TypeError,
        "password authentication failed",
      );
      assertEquals(error.message.includes("s3cret"), false);
    }
    await assertRejects(
      () => openStore(without, silentLog),
      TypeError,
      "the server asks for a password: expected USER:",
    );
    const missing = `${without}&password_file=${directory.at("none")}`;
    await assertRejects(
      () => openStore(missing, silentLog),
      TypeError,
      "cannot read password_file",
    );
    Deno.env.set("PGPASSWORD", server.password);
    try {
      await withStores(
        [without],
        async (store) => assertEquals(await store?.get(["a"]), undefined),
      );
    } finally {
      Deno.env.delete("PGPASSWORD");
    }
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
  async (parameters) => {
    const url = server.url(`${parameters}&sslmode=verify-full`).replace(
      "127.0.0.1",
      "localhost",
    );
    await assertRejects(
      () => openStore(url, silentLog),
      TypeError,
      "does not support SSL",
    );
    await using encrypted = await PostgresServer.create(String(bin), {
      settings: { ...FAST.settings, ssl: "on" },
      files: TLS_FILES,
    });
    const tls = encrypted.url(`${parameters}&sslmode=verify-full`).replace(
      "127.0.0.1",
      "localhost",
    );
    const error = await assertRejects(
      () => openStore(tls, silentLog),
      TypeError,
    );
    assertMatch(error.message, /unable to verify|self.signed|certificate/i);
    await withStores(
      [`${tls}&sslrootcert=tests/content/proxy/tls/ca.crt`],
      async (store) => {
        assertEquals(await store?.get(["a"]), undefined);
      },
    );
    const otherName = `${
      tls.replace("localhost", "[::ffff:127.0.0.1]")
    }&sslrootcert=tests/content/proxy/tls/ca.crt`;
    await assertRejects(
      () => openStore(otherName, silentLog),
      TypeError,
      "altnames",
    );
  },
);

testPostgres(
  "a server that is away does not prevent the start; operations fail until it is back",
  async (parameters) => {
    await using other = await PostgresServer.create(String(bin), FAST);
    await other.kill();
    const { log, lines } = captureLog();
    const store = await openStore(other.url(parameters), log);
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
  "close() ends the connections, so that operations reject from then on",
  async (parameters) => {
    const target = parsePostgresUrl(server.url(parameters));
    const store = await openPostgresStore(target, {
      clock: systemClock,
      random: Math.random,
    });
    assertEquals(await store.get(["a"]), undefined);
    store.close();
    await assertRejects(
      () => store.get(["a"]),
      StoreUnavailableError,
      "closed",
    );
  },
);
