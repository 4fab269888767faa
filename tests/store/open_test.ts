import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { bareProcess } from "../_bare_process.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { captureLog } from "../_gateway.ts";
import { openStore } from "../../src/store/open.ts";
import { type Store, StoreUnavailableError } from "../../src/store/store.ts";

/** Runs `openStore()` in a process of its own; gives back the log, or the error's message. */
async function openElsewhere(path: string | undefined, flags: readonly string[]): Promise<unknown[]> {
  const program = `
    import { openStore } from "src/store/open.ts";
    try {
      const store = await openStore(${JSON.stringify(path)}, log);
      say(await store.commit([], [{ key: ["a"], value: 1 }]) !== undefined, (await store.get(["a"])).value);
      store.close();
    } catch (error) {
      say(error.name, error.message);
    }`;
  await using process = await bareProcess(program, { flags });
  return await Array.fromAsync(process.lines);
}

const LOST =
  "Until then, ids, limits and keys live in this process only: they end with it, and other processes have their own";

Deno.test("openStore() takes the memory for :memory:, and that is nothing to tell", async () => {
  const { log, lines } = captureLog();
  const store = await openStore(":memory:", log);
  await store.commit([], [{ key: ["a"], value: 1 }]);
  assertEquals((await store.get(["a"]))?.value, 1);
  assertEquals(lines, []);
  store.close();
});

Deno.test("openStore() opens the file it is given, and finds there what was stored", async () => {
  const { log, lines } = captureLog();
  const folder = await Deno.makeTempDir();
  const path = join(folder, "kv.sqlite3");
  try {
    const first = await openStore(path, log);
    await first.commit([], [{ key: ["a"], value: 1 }]);
    first.close();
    const second = await openStore(path, log);
    assertEquals((await second.get(["a"]))?.value, 1);
    second.close();
    assertEquals(lines, []);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("openStore() refuses a file that cannot be opened, and names it", async () => {
  const folder = await Deno.makeTempDir();
  const path = join(folder, "nowhere", "kv.sqlite3");
  try {
    await assertRejects(() => openStore(path, captureLog().log), TypeError, `Cannot open --kv "${path}": `);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("openStore() refuses a file that is no database, and names it", async () => {
  const path = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(path, "This is no database. ".repeat(200));
    await assertRejects(() => openStore(path, captureLog().log), TypeError, `Cannot open --kv "${path}": `);
  } finally {
    await Deno.remove(path);
  }
});

Deno.test({
  name: "openStore() names the permission that a file needs",
  permissions: { read: ["kv.sqlite3"] },
  async fn() {
    const { log } = captureLog();
    await assertRejects(
      () => openStore("other.sqlite3", log),
      TypeError,
      'Cannot open --kv "other.sqlite3": expected --allow-read=other.sqlite3',
    );
    await assertRejects(
      () => openStore("kv.sqlite3", log),
      TypeError,
      'Cannot open --kv "kv.sqlite3": expected --allow-write=kv.sqlite3',
    );
  },
});

Deno.test({
  name: "openStore() names the permission that a server needs",
  permissions: { net: true },
  async fn() {
    await assertRejects(
      () => openStore("https://kv.example.com", captureLog().log),
      TypeError,
      'Cannot open --kv "https://kv.example.com": expected --allow-env=DENO_KV_ACCESS_TOKEN',
    );
  },
});

/** Opens a server that answers with a status; nothing is left of it after that. */
async function openAnswering(status: number): Promise<{ store: Store; url: string; lines: Record<string, unknown>[] }> {
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => new Response("no", { status }),
  );
  const url = `http://127.0.0.1:${server.addr.port}`;
  const { log, lines } = captureLog();
  Deno.env.set("DENO_KV_ACCESS_TOKEN", "a token of a test");
  try {
    return { store: await openStore(url, log, { clock: new FakeClock() }), url, lines };
  } finally {
    Deno.env.delete("DENO_KV_ACCESS_TOKEN");
  }
}

Deno.test("openStore() refuses a server that refuses us, or is none, and names it", async () => {
  for (const [status, reason] of [[401, "401"], [404, "404"], [200, "not a valid KV Connect endpoint"]] as const) {
    const error = await assertRejects(() => openAnswering(status), TypeError, reason);
    assertMatch(error.message, /^Cannot open --kv "http:\/\/127\.0\.0\.1:\d+": /);
  }
});

Deno.test("openStore() opens a server that is not there yet, says so, and its operations fail", async () => {
  for (const status of [429, 500, 503]) {
    const { store, url, lines } = await openAnswering(status);
    const reason = `Cannot open --kv "${url}": Could not open Deno KV database: `;
    assertEquals(lines.map(({ level, msg }) => [level, msg]), [["WARN", "rep.store.unreachable"]]);
    assertStringIncludes(String(lines[0]?.detail), `connecting is tried again: ${reason}`);
    await assertRejects(() => store.get(["a"]), StoreUnavailableError, `Cannot use the store: ${reason}`);
    store.close();
  }
});

Deno.test("openStore() opens the program's own database when no other is named", async () => {
  assertEquals(await openElsewhere(undefined, ["--unstable-kv"]), [[true, 1]]);
});

Deno.test("openStore() takes the memory where Deno has no KV, and says which flag brings it back", async () => {
  const detail = `this Deno has no KV; --unstable-kv brings it. ${LOST}`;
  assertEquals(await openElsewhere(undefined, []), [["rep.store.memory", { detail }], [true, 1]]);
});

Deno.test("openStore() takes no memory for a file that was named where Deno has no KV", async () => {
  const message = 'Cannot open --kv "kv.sqlite3": this Deno has no KV; --unstable-kv brings it';
  assertEquals(await openElsewhere("kv.sqlite3", ["-A"]), [["TypeError", message]]);
});
