import { assertEquals, assertThrows } from "@std/assert";
import { watchFiles } from "../../src/cli/watch_files.ts";
import { settle } from "../../tools/fake_clock.ts";
import { TempDirectory } from "../_temp.ts";
import { WatchedClock } from "../_watched_clock.ts";

/** Long enough for all steps of a change. */
const QUIET_MS = 100;

/** A watch that counts its calls, and ends with its test. */
function watch(...paths: string[]) {
  const clock = new WatchedClock();
  const ends: unknown[] = [];
  let calls = 0;
  const stop = watchFiles(paths, () => calls++, { clock, onEnd: (error) => ends.push(error) });
  return {
    clock,
    ends,
    stop,
    get calls() {
      return calls;
    },
    /** Makes a change, and waits until it is told of. */
    async told(change: () => Promise<unknown>): Promise<number> {
      await change();
      await clock.waits();
      await clock.tick(QUIET_MS);
      return calls;
    },
    [Symbol.dispose]: stop,
  };
}

/** Makes a change that another watch on the directory has seen when this returns. */
async function seen({ path }: TempDirectory, change: () => Promise<unknown>): Promise<void> {
  using watcher = Deno.watchFs(path, { recursive: false });
  await change();
  await watcher[Symbol.asyncIterator]().next();
  await settle();
}

Deno.test("watchFiles() tells of a file that is written in place", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = watch(directory.at("app.env"));
  assertEquals(await watched.told(() => directory.write("app.env", "2")), 1);
});

Deno.test("watchFiles() tells of a file that an editor renames over it, every time", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = watch(directory.at("app.env"));
  const save = async (text: string) =>
    await Deno.rename(await directory.write(".app.env.swp", text), directory.at("app.env"));
  for (const times of [1, 2, 3]) assertEquals(await watched.told(() => save(String(times))) >= times, true);
});

Deno.test("watchFiles() tells of every swap of a ConfigMap, for a file in it", async () => {
  await using directory = await TempDirectory.make();
  await directory.mount("v1", { "app.env": "1" });
  using watched = watch(directory.at("app.env"));
  for (const version of [2, 3, 4]) {
    const before = watched.calls;
    assertEquals(await watched.told(() => directory.mount(`v${version}`, { "app.env": "x" })) > before, true);
  }
});

Deno.test("watchFiles() tells of every swap of a ConfigMap, for the directory", async () => {
  await using directory = await TempDirectory.make();
  await directory.mount("v1", { REP_PUBLIC_A: "1" });
  using watched = watch(directory.path);
  for (const version of [2, 3, 4]) {
    const before = watched.calls;
    assertEquals(await watched.told(() => directory.mount(`v${version}`, { REP_PUBLIC_A: "x" })) > before, true);
  }
});

Deno.test("watchFiles() tells of files that come to a directory and go", async () => {
  await using directory = await TempDirectory.make();
  using watched = watch(directory.path);
  assertEquals(await watched.told(() => directory.write("REP_PUBLIC_A", "1")) >= 1, true);
  const before = watched.calls;
  assertEquals(await watched.told(() => Deno.remove(directory.at("REP_PUBLIC_A"))) > before, true);
});

Deno.test("watchFiles() tells of a file that is removed and written anew", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = watch(directory.at("app.env"));
  assertEquals(await watched.told(() => Deno.remove(directory.at("app.env"))) >= 1, true);
  const before = watched.calls;
  assertEquals(await watched.told(() => directory.write("app.env", "2")) > before, true);
});

Deno.test("watchFiles() watches several paths, in several directories", async () => {
  await using one = await TempDirectory.make({ "app.env": "1" });
  await using other = await TempDirectory.make({ ".rep.yaml": "1" });
  using watched = watch(one.at("app.env"), other.at(".rep.yaml"));
  assertEquals(await watched.told(() => one.write("app.env", "2")) >= 1, true);
  const before = watched.calls;
  assertEquals(await watched.told(() => other.write(".rep.yaml", "2")) > before, true);
});

Deno.test("watchFiles() leaves other files beside the one that is watched alone", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = watch(directory.at("app.env"));
  await seen(directory, () => directory.write("gateway.log", "a line"));
  assertEquals(watched.clock.waiting, 0);
  assertEquals(await watched.told(() => directory.write("app.env", "2")), 1);
});

Deno.test("watchFiles() tells once of a change in several steps", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = watch(directory.at("app.env"));
  for (const text of ["2", "3", "4"]) await seen(directory, () => directory.write("app.env", text));
  await watched.clock.waits();
  assertEquals(watched.calls, 0);
  await watched.clock.tick(QUIET_MS);
  assertEquals(watched.calls, 1);
});

Deno.test("watchFiles() is not put off by changes without an end", async () => {
  await using directory = await TempDirectory.make({ "app.env": "0" });
  using watched = watch(directory.at("app.env"));
  await directory.write("app.env", "1");
  await watched.clock.waits();
  await watched.clock.tick(QUIET_MS - 1);
  await seen(directory, () => directory.write("app.env", "2"));
  assertEquals(watched.calls, 0);
  await watched.clock.tick(1);
  assertEquals(watched.calls, 1);
});

Deno.test("watchFiles() tells nothing after its end, not even what it knew", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = watch(directory.at("app.env"));
  await directory.write("app.env", "2");
  await watched.clock.waits();
  watched.stop();
  await seen(directory, () => directory.write("app.env", "3"));
  await watched.clock.tick(10 * QUIET_MS);
  assertEquals([watched.calls, watched.clock.waiting, watched.ends], [0, 0, []]);
});

Deno.test("watchFiles() fails for a path that is not there", async () => {
  await using directory = await TempDirectory.make();
  assertThrows(() => watch(directory.at("app.env")), Deno.errors.NotFound);
});

Deno.test(
  "watchFiles() says which permission is missing, and asks nobody",
  { permissions: { read: ["main.ts"] } },
  () => {
    const missing = (path: string) => assertThrows(() => watch(path), Deno.errors.NotCapable).message;
    assertEquals(["deno.json", "main.ts"].map(missing), ["expected --allow-read=deno.json", "expected --allow-read=."]);
  },
);
