import {
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { bareProcess } from "../_bare_process.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { captureLog } from "../_gateway.ts";
import { openStore, withPrivateUmask } from "../../src/engines/open.ts";
import { MEMORY } from "../../src/engines/memory.ts";
import { modesIn } from "../core/store/_modes.ts";
import { TempDirectory } from "../_temp.ts";
import {
  type Store,
  StoreUnavailableError,
} from "../../src/core/store/store.ts";

/** Runs `openStore()` in a separate process; returns its log and result, or the error. */
async function openInProcess(
  path: string | undefined,
  flags: readonly string[],
  env: Record<string, string> = {},
): Promise<unknown[]> {
  const program = `
    import { openStore } from "src/engines/open.ts";
    try {
      const store = await openStore(${JSON.stringify(path)}, log);
      say(await store.commit([], [{ key: ["a"], value: 1 }]) !== undefined, (await store.get(["a"])).value);
      store.close();
    } catch (error) {
      say(error.name, error.message);
    }`;
  await using process = await bareProcess(program, { flags, env });
  return await Array.fromAsync(process.lines);
}

const MEMORY_ONLY =
  "Until then, ids, limits and keys are kept in memory: they are lost on restart and not shared with other processes";

Deno.test("openStore() returns a memory store for :memory: and logs nothing", async () => {
  const { log, lines } = captureLog();
  const store = await openStore(":memory:", log);
  assertEquals(store.engine, MEMORY);
  await store.commit([], [{ key: ["a"], value: 1 }]);
  assertEquals((await store.get(["a"]))?.value, 1);
  assertEquals(lines, []);
  store.close();
});

Deno.test("openStore() opens a file and finds what was stored in it", async () => {
  await using directory = await TempDirectory.make();
  const { log, lines } = captureLog();
  const path = directory.at("kv.sqlite3");
  const first = await openStore(path, log);
  await first.commit([], [{ key: ["a"], value: 1 }]);
  first.close();
  const second = await openStore(path, log);
  assertEquals((await second.get(["a"]))?.value, 1);
  second.close();
  assertEquals(lines, []);
});

Deno.test("openStore() rejects a file that cannot be opened or is not a database, and names it", async () => {
  await using directory = await TempDirectory.make({
    "text": "This is not a database. ".repeat(200),
  });
  for (const name of ["text", "nowhere/kv.sqlite3"]) {
    const path = directory.at(name);
    const open = () => openStore(path, captureLog().log);
    const message = `Cannot open the store "${path}": `;
    await assertRejects(open, TypeError, message);
  }
});

Deno.test("openStore() rejects a URL that names no store, instead of taking it for a file", async () => {
  for (
    const path of [
      "mysql://host/CANARY?x",
      "http:/bad",
      "https:bad",
      "file:///kv.sqlite3",
      "c3:kv",
    ]
  ) {
    await assertRejects(
      () => openStore(path, captureLog().log),
      TypeError,
      "expected the path of a file (./ before",
    );
  }
});

Deno.test({
  name: "openStore() names the permission that a failover would need",
  permissions: { net: ["127.0.0.1:5432"] },
  async fn() {
    await assertRejects(
      () => openStore("postgres://u@127.0.0.1,[::1]:5433/db", captureLog().log),
      TypeError,
      'Cannot open the store "postgres://…@127.0.0.1,[::1]:5433/db": expected --allow-net=[::1]:5433',
    );
  },
});

/** Opens a store on a server that answers with a status and is closed afterwards. */
async function openWithStatus(
  status: number,
): Promise<{ store: Store; url: string; lines: Record<string, unknown>[] }> {
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => new Response("no", { status }),
  );
  const url = `http://127.0.0.1:${server.addr.port}`;
  const { log, lines } = captureLog();
  Deno.env.set("DENO_KV_ACCESS_TOKEN", "test token");
  try {
    return {
      store: await openStore(url, log, { clock: new FakeClock() }),
      url,
      lines,
    };
  } finally {
    Deno.env.delete("DENO_KV_ACCESS_TOKEN");
  }
}

Deno.test("openStore() rejects a server that denies access or is not a KV server and names it", async () => {
  for (
    const [status, reason] of [[401, "401"], [404, "404"], [
      200,
      "not a valid KV Connect endpoint",
    ]] as const
  ) {
    const error = await assertRejects(
      () => openWithStatus(status),
      TypeError,
      reason,
    );
    assertMatch(
      error.message,
      /^Cannot open the store "http:\/\/127\.0\.0\.1:\d+": /,
    );
  }
});

Deno.test("openStore() opens an unreachable server with a warning, and operations fail", async () => {
  for (const status of [429, 500, 503]) {
    const { store, url, lines } = await openWithStatus(status);
    const reason =
      `Cannot open the store "${url}": Could not open Deno KV database: `;
    assertEquals(lines.map(({ level, msg }) => [level, msg]), [[
      "WARN",
      "rep.store.unreachable",
    ]]);
    assertStringIncludes(
      String(lines[0]?.detail),
      `retrying in the background: ${reason}`,
    );
    await assertRejects(
      () => store.get(["a"]),
      StoreUnavailableError,
      `Cannot use the store: ${reason}`,
    );
    store.close();
  }
});

/** URLs of servers that cannot be opened, or are none. */
const SECRET_URLS = [
  "http://user:CANARY@127.0.0.1:1/path?token=CANARY",
  "http://user:CAN/ARY@127.0.0.1:1/",
  "https://user:CANARY@invalid host/",
  "postgres://user:CANARY@127.0.0.1/database",
];

Deno.test("openStore() names no credentials and no query of a URL", async () => {
  for (const url of SECRET_URLS) {
    const { log, lines } = captureLog();
    Deno.env.set("DENO_KV_ACCESS_TOKEN", "test token");
    const text: unknown[] = [lines];
    try {
      const store = await openStore(url, log, { clock: new FakeClock() });
      text.push(
        await assertRejects(() => store.get(["a"]), StoreUnavailableError),
      );
      store.close();
    } catch (error) {
      text.push(error);
    } finally {
      Deno.env.delete("DENO_KV_ACCESS_TOKEN");
    }
    assertStringIncludes(
      Deno.inspect(text),
      `Cannot open the store "${url.slice(0, url.indexOf(":"))}://…@`,
    );
    assertEquals([url, /CAN|ARY/.test(Deno.inspect(text, { depth: 10 }))], [
      url,
      false,
    ]);
  }
});

Deno.test("openStore() creates the program's default database for its owner only", async () => {
  await using directory = await TempDirectory.make();
  const env = { DENO_KV_DEFAULT_PATH: directory.at("default.sqlite3") };
  assertEquals(await openInProcess(undefined, ["--unstable-kv", "-A"], env), [[
    true,
    1,
  ]]);
  assertEquals(await modesIn(directory.path), { "default.sqlite3": "600" });
});

Deno.test("openStore() falls back to memory without Deno KV and names the flag that enables it", async () => {
  const detail =
    `Deno KV is not available; enable it with --unstable-kv. ${MEMORY_ONLY}`;
  assertEquals(await openInProcess(undefined, []), [["rep.store.memory", {
    detail,
  }], [true, 1]]);
});

Deno.test("openStore() does not fall back to memory for a named file", async () => {
  const message =
    'Cannot open the store "kv.sqlite3": Deno KV is not available; enable it with --unstable-kv';
  assertEquals(await openInProcess("kv.sqlite3", ["-A"]), [[
    "TypeError",
    message,
  ]]);
});

Deno.test("withPrivateUmask() restores the umask, also after an error", async () => {
  const before = Deno.umask();
  assertEquals(
    await withPrivateUmask(() => Promise.resolve(Deno.umask())),
    0o077,
  );
  await assertRejects(() =>
    withPrivateUmask(() => Promise.reject(new Error("no")))
  );
  assertEquals(Deno.umask(), before);
});

Deno.test(
  "withPrivateUmask() needs no permission",
  { permissions: {} },
  async () => {
    assertEquals(await withPrivateUmask(() => Promise.resolve(1)), 1);
  },
);
