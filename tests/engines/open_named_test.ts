import { assertEquals } from "@std/assert";
import { openPersistentStore } from "../../src/command/commands/deno_io.ts";
import { openStore } from "../../src/engines/open.ts";
import { restrictToOwner } from "../../src/engines/open_named.ts";
import { bareProcess } from "../_bare_process.ts";
import { captureLog } from "../_gateway.ts";
import { TempDirectory } from "../_temp.ts";
import { modesIn } from "../core/store/_modes.ts";

const FILES = ["kv.sqlite3", "kv.sqlite3-shm", "kv.sqlite3-wal"];
const PRIVATE = Object.fromEntries(FILES.map((name) => [name, "600"]));

/** Opens the database, and returns the modes of its files while it is open. */
async function modesWhileOpen(
  directory: TempDirectory,
): Promise<Record<string, string>> {
  const { log, lines } = captureLog();
  const store = await openStore(directory.at("kv.sqlite3"), log);
  await store.commit([], [{ key: ["master-key"], value: 1 }]);
  const modes = await modesIn(directory.path);
  store.close();
  assertEquals(lines, []);
  return modes;
}

Deno.test("openStore() creates a database and the files beside it for their owner only", async () => {
  await using directory = await TempDirectory.make();
  assertEquals(await modesWhileOpen(directory), PRIVATE);
});

Deno.test("openStore() makes a database private if others could read it, and the files that a crash left beside it", async () => {
  await using directory = await TempDirectory.make();
  const kv = await Deno.openKv(directory.at("kv.sqlite3"));
  await kv.set(["a"], 1);
  await using copy = await TempDirectory.make();
  for (const name of FILES) {
    await Deno.copyFile(directory.at(name), copy.at(name)); // as after SIGKILL
    await Deno.chmod(copy.at(name), 0o644); // whatever the umask is
  }
  kv.close();
  assertEquals(await modesWhileOpen(copy), PRIVATE);
  const reopened = await Deno.openKv(copy.at("kv.sqlite3"));
  assertEquals((await reopened.get(["a"])).value, 1);
  reopened.close();
});

Deno.test("restrictToOwner() leaves the contents and a stricter mode as they are", async () => {
  await using directory = await TempDirectory.make({ "kv.sqlite3": "text" });
  await Deno.chmod(directory.at("kv.sqlite3"), 0o400);
  assertEquals(
    await restrictToOwner(directory.at("kv.sqlite3")).catch(() => undefined),
    undefined,
  ); // root may write
  assertEquals(await modesIn(directory.path), { "kv.sqlite3": "400" });
  assertEquals(await Deno.readTextFile(directory.at("kv.sqlite3")), "text");
});

Deno.test("restrictToOwner() makes the target of a symlink private", async () => {
  await using directory = await TempDirectory.make({ "real.sqlite3": "" });
  await Deno.symlink("real.sqlite3", directory.at("kv.sqlite3"));
  assertEquals(await restrictToOwner(directory.at("kv.sqlite3")), undefined);
  assertEquals(await modesIn(directory.path), {
    "kv.sqlite3": "600",
    "real.sqlite3": "600",
  });
});

Deno.test("openStore() opens a database all the same whose mode cannot be changed, with a warning", async () => {
  await using directory = await TempDirectory.make({ "kv.sqlite3": "" });
  const { log, lines } = captureLog();
  const path = directory.at("kv.sqlite3");
  await Deno.chmod(path, 0o644);
  const store = await withoutChmod(() => openStore(path, log));
  store.close();
  assertEquals(lines.map(({ time: _time, ...line }) => line), [{
    level: "WARN",
    msg: "rep.store.not_private",
    detail: `other users may read "${path}": chmod is not permitted`,
  }]);
  (await withoutChmod(() => openPersistentStore(path))).close();
});

Deno.test("restrictToOwner() leaves files beside the database for which it has no permission", async () => {
  await using directory = await TempDirectory.make({
    "kv.sqlite3": "",
    "kv.sqlite3-wal": "",
  });
  const path = directory.at("kv.sqlite3");
  for (const name of ["kv.sqlite3", "kv.sqlite3-wal"]) {
    await Deno.chmod(directory.at(name), 0o644);
  }
  const program = `
    import { restrictToOwner } from "src/engines/open_named.ts";
    say(await restrictToOwner(${JSON.stringify(path)}) ?? "no problem");`;
  const flags = [`--allow-read=${directory.path}`, `--allow-write=${path}`];
  await using process = await bareProcess(program, { flags });
  assertEquals(await Array.fromAsync(process.lines), [["no problem"]]);
  assertEquals(await modesIn(directory.path), {
    "kv.sqlite3": "600",
    "kv.sqlite3-wal": "644",
  });
});

/** Runs a function as on a file system that has no modes, or as a user that does not own the file. */
async function withoutChmod<T>(run: () => Promise<T>) {
  const { chmod } = Deno;
  Deno.chmod = () =>
    Promise.reject(new Deno.errors.PermissionDenied("chmod is not permitted"));
  try {
    return await run();
  } finally {
    Deno.chmod = chmod;
  }
}
