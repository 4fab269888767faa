import { assertEquals } from "@std/assert";
import { watchPaths } from "../../src/files/watch_paths.ts";
import { denoFileSystem } from "../../src/files/local_files.ts";
import { TempDirectory } from "../_temp.ts";
import { WatchedClock } from "../_time.ts";

const LOOK_MS = 500;
const SETTLE_MS = 100;

/** Watches paths and counts the calls. */
async function watch(
  paths: readonly string[],
  { clock = new WatchedClock(), files = denoFileSystem } = {},
) {
  let calls = 0;
  const stop = await watchPaths(paths, () => calls++, { files, clock });
  /** Waits for the time, and until what follows from it has come to its next pause. */
  async function pass(ms: number): Promise<void> {
    await clock.tick(ms);
    await clock.waits();
  }
  return {
    clock,
    pass,
    stop,
    get calls() {
      return calls;
    },
    /** Makes a change and returns how often it has been reported. */
    async reported(change: () => Promise<unknown>): Promise<number> {
      const before = calls;
      await change();
      await pass(LOOK_MS);
      await pass(SETTLE_MS);
      return calls - before;
    },
    [Symbol.dispose]: stop,
  };
}

Deno.test("watchPaths() reports a file that is written in place, also with as many bytes", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = await watch([directory.at("app.env")]);
  const write = () => directory.write("app.env", "2");
  assertEquals(await watched.reported(write), 1);
});

Deno.test("watchPaths() reports a file once if its time contains milliseconds", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  const clock = new WatchedClock();
  const path = directory.at("app.env");
  const modified = new Date(clock.now() + 1);
  using watched = await watch([path], { clock });
  async function write(): Promise<void> {
    await directory.write("app.env", "2");
    await Deno.utime(path, modified, modified);
  }
  assertEquals(await watched.reported(write), 1);
  for (let looks = 0; looks < 20; looks++) await watched.pass(LOOK_MS);
  assertEquals(watched.calls, 1);
});

for (
  const [what, offset] of [
    ["on a file system that counts in seconds", 0],
    ["that changed right before a look", -1],
  ] as const
) {
  Deno.test(`watchPaths() reports a file ${what} once more, since a second change may have left time and size as they are`, async () => {
    await using directory = await TempDirectory.make({ "app.env": "1" });
    const clock = new WatchedClock();
    const path = directory.at("app.env");
    const modified = new Date(clock.now() + offset);
    await Deno.utime(path, modified, modified);
    using watched = await watch([path], { clock });
    await directory.write("app.env", "2");
    await Deno.utime(path, modified, modified);
    for (let looks = 0; looks < 20; looks++) await watched.pass(LOOK_MS);
    assertEquals(watched.calls, 1);
  });
}

Deno.test("watchPaths() reports a file that is replaced by renaming, every time", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = await watch([directory.at("app.env")]);
  async function save(text: string): Promise<void> {
    const path = await directory.write(".app.env.swp", text);
    await Deno.rename(path, directory.at("app.env"));
  }
  for (const text of ["2", "3", "4"]) {
    assertEquals(await watched.reported(() => save(text)), 1);
  }
});

Deno.test("watchPaths() reports every update of a mounted ConfigMap, for one of its files and for its directory", async () => {
  for (const path of ["app.env", ""]) {
    await using directory = await TempDirectory.make();
    await directory.mount("v1", { "app.env": "1", REP_PUBLIC_A: "1" });
    using watched = await watch([directory.at(path)]);
    for (const version of ["v2", "v3", "v4"]) {
      const files = { "app.env": "1", REP_PUBLIC_A: "1" };
      const mount = () => directory.mount(version, files);
      assertEquals(await watched.reported(mount), 1);
    }
  }
});

Deno.test("watchPaths() reports files that are created, written and removed in a directory", async () => {
  await using directory = await TempDirectory.make();
  using watched = await watch([directory.path]);
  const write = (text: string) => directory.write("REP_PUBLIC_A", text);
  const remove = () => Deno.remove(directory.at("REP_PUBLIC_A"));
  assertEquals(await watched.reported(() => write("1")), 1);
  assertEquals(await watched.reported(() => write("2")), 1);
  assertEquals(await watched.reported(remove), 1);
});

Deno.test("watchPaths() reports a file that is removed and created again, also one whose directory is missing", async () => {
  await using directory = await TempDirectory.make();
  using watched = await watch([directory.at("config/app.env")]);
  await Deno.mkdir(directory.at("config"));
  const write = () => directory.write("config/app.env", "1");
  const remove = () => Deno.remove(directory.at("config/app.env"));
  assertEquals(await watched.reported(write), 1);
  assertEquals(await watched.reported(remove), 1);
  assertEquals(await watched.reported(write), 1);
});

Deno.test("watchPaths() reports new permissions, since they may make a file readable", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  await Deno.chmod(directory.at("app.env"), 0o000);
  using watched = await watch([directory.at("app.env")]);
  const permit = () => Deno.chmod(directory.at("app.env"), 0o600);
  assertEquals(await watched.reported(permit), 1);
});

Deno.test("watchPaths() watches paths in several directories", async () => {
  await using one = await TempDirectory.make({ "app.env": "1" });
  await using other = await TempDirectory.make({ ".rep.yaml": "1" });
  using watched = await watch([one.at("app.env"), other.at(".rep.yaml")]);
  assertEquals(await watched.reported(() => one.write("app.env", "2")), 1);
  assertEquals(await watched.reported(() => other.write(".rep.yaml", "2")), 1);
});

Deno.test("watchPaths() ignores what is not read: beside a file, and in a directory of variables", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = await watch([directory.at("app.env"), directory.path]);
  for (const name of ["gateway.log", "kv.sqlite3-wal"]) {
    assertEquals(await watched.reported(() => directory.write(name, "x")), 0);
  }
});

Deno.test("watchPaths() reports a change in several steps once", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = await watch([directory.at("app.env")]);
  await Deno.remove(directory.at("app.env"));
  await watched.pass(LOOK_MS);
  await directory.write("app.env", "");
  await watched.pass(SETTLE_MS - 1);
  assertEquals(watched.calls, 0);
  await directory.write("app.env", "2");
  await watched.pass(1);
  await watched.pass(10 * LOOK_MS);
  assertEquals(watched.calls, 1);
});

Deno.test("watchPaths() reports nothing after it was stopped, not even a change that it has seen", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = await watch([directory.at("app.env")]);
  await directory.write("app.env", "2");
  await watched.pass(LOOK_MS);
  watched.stop();
  await watched.clock.tick(10 * LOOK_MS);
  assertEquals([watched.calls, watched.clock.waiting], [0, 0]);
});
