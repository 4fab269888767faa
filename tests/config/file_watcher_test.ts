import { assertEquals, assertThrows } from "@std/assert";
import { denoFileSystem } from "../../src/values/file_system.ts";
import { FileWatcher } from "../../src/config/file_watcher.ts";
import { settle } from "../../tools/fake_clock.ts";
import { TempDirectory } from "../_temp.ts";
import { WatchedClock } from "../_watched_clock.ts";

/** The time within which changes are combined. */
const COALESCE_MS = 100;

/** Watches paths and counts the calls. */
function watch(...paths: string[]) {
  return watchFor([], ...paths);
}

/** Watches paths, and counts the calls for changes of them and of what else is read. */
function watchFor(readPaths: readonly string[], ...paths: string[]) {
  const clock = new WatchedClock();
  const errors: unknown[] = [];
  let calls = 0;
  const watcher = new FileWatcher(paths, () => calls++, {
    files: denoFileSystem,
    clock,
    readPaths,
    onError: (error) => errors.push(error),
  });
  const close = () => watcher.close();
  return {
    clock,
    errors,
    close,
    get calls() {
      return calls;
    },
    /** Makes a change and waits until it is reported. */
    async reported(change: () => Promise<unknown>): Promise<number> {
      await change();
      await clock.waits();
      await clock.tick(COALESCE_MS);
      return calls;
    },
    [Symbol.dispose]: close,
  };
}

/** Makes a change and waits until another watcher has seen it. */
async function seen(
  { path }: TempDirectory,
  change: () => Promise<unknown>,
): Promise<void> {
  using watcher = Deno.watchFs(path, { recursive: false });
  await change();
  await watcher[Symbol.asyncIterator]().next();
  await settle();
}

Deno.test("FileWatcher reports a file that is written in place", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = watch(directory.at("app.env"));
  assertEquals(
    await watched.reported(() => directory.write("app.env", "2")),
    1,
  );
});

Deno.test("FileWatcher reports a file that is replaced by renaming, every time", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = watch(directory.at("app.env"));
  const save = async (text: string) =>
    await Deno.rename(
      await directory.write(".app.env.swp", text),
      directory.at("app.env"),
    );
  for (const times of [1, 2, 3]) {
    assertEquals(
      await watched.reported(() => save(String(times))) >= times,
      true,
    );
  }
});

Deno.test("FileWatcher reports every update of a mounted ConfigMap for one of its files", async () => {
  await using directory = await TempDirectory.make();
  await directory.mount("v1", { "app.env": "1" });
  using watched = watch(directory.at("app.env"));
  for (const version of [2, 3, 4]) {
    const before = watched.calls;
    assertEquals(
      await watched.reported(() =>
        directory.mount(`v${version}`, { "app.env": "x" })
      ) > before,
      true,
    );
  }
});

Deno.test("FileWatcher reports every update of a mounted ConfigMap for its directory", async () => {
  await using directory = await TempDirectory.make();
  await directory.mount("v1", { REP_PUBLIC_A: "1" });
  using watched = watch(directory.path);
  for (const version of [2, 3, 4]) {
    const before = watched.calls;
    assertEquals(
      await watched.reported(() =>
        directory.mount(`v${version}`, { REP_PUBLIC_A: "x" })
      ) > before,
      true,
    );
  }
});

Deno.test("FileWatcher reports files that are created and removed in a directory", async () => {
  await using directory = await TempDirectory.make();
  using watched = watch(directory.path);
  assertEquals(
    await watched.reported(() => directory.write("REP_PUBLIC_A", "1")) >= 1,
    true,
  );
  const before = watched.calls;
  assertEquals(
    await watched.reported(() => Deno.remove(directory.at("REP_PUBLIC_A"))) >
      before,
    true,
  );
});

Deno.test("FileWatcher reports a file that is removed and created again", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = watch(directory.at("app.env"));
  assertEquals(
    await watched.reported(() => Deno.remove(directory.at("app.env"))) >= 1,
    true,
  );
  const before = watched.calls;
  assertEquals(
    await watched.reported(() => directory.write("app.env", "2")) > before,
    true,
  );
});

Deno.test("FileWatcher watches paths in several directories", async () => {
  await using one = await TempDirectory.make({ "app.env": "1" });
  await using other = await TempDirectory.make({ ".rep.yaml": "1" });
  using watched = watch(one.at("app.env"), other.at(".rep.yaml"));
  assertEquals(
    await watched.reported(() => one.write("app.env", "2")) >= 1,
    true,
  );
  const before = watched.calls;
  assertEquals(
    await watched.reported(() => other.write(".rep.yaml", "2")) > before,
    true,
  );
});

Deno.test("FileWatcher ignores other files in the directory of a watched file", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = watch(directory.at("app.env"));
  await seen(directory, () => directory.write("gateway.log", "a line"));
  assertEquals(watched.clock.waiting, 0);
  assertEquals(
    await watched.reported(() => directory.write("app.env", "2")),
    1,
  );
});

Deno.test("FileWatcher ignores files in a watched directory that are not read, such as a database", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = watchFor([directory.at("app.env")], directory.path);
  for (const name of ["kv.sqlite3", "kv.sqlite3-wal"]) {
    await seen(directory, () => directory.write(name, "x"));
    assertEquals(watched.clock.waiting, 0);
  }
  const before = watched.calls;
  assertEquals(
    await watched.reported(() => directory.write("app.env", "2")) > before,
    true,
  );
});

Deno.test("FileWatcher reports a change in several steps once", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = watch(directory.at("app.env"));
  for (const text of ["2", "3", "4"]) {
    await seen(directory, () => directory.write("app.env", text));
  }
  await watched.clock.waits();
  assertEquals(watched.calls, 0);
  await watched.clock.tick(COALESCE_MS);
  assertEquals(watched.calls, 1);
});

Deno.test("FileWatcher does not wait for a pause between changes", async () => {
  await using directory = await TempDirectory.make({ "app.env": "0" });
  using watched = watch(directory.at("app.env"));
  await directory.write("app.env", "1");
  await watched.clock.waits();
  await watched.clock.tick(COALESCE_MS - 1);
  await seen(directory, () => directory.write("app.env", "2"));
  assertEquals(watched.calls, 0);
  await watched.clock.tick(1);
  assertEquals(watched.calls, 1);
});

Deno.test("FileWatcher reports nothing after close(), not even a pending change", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using watched = watch(directory.at("app.env"));
  await directory.write("app.env", "2");
  await watched.clock.waits();
  watched.close();
  await seen(directory, () => directory.write("app.env", "3"));
  await watched.clock.tick(10 * COALESCE_MS);
  assertEquals([watched.calls, watched.clock.waiting, watched.errors], [
    0,
    0,
    [],
  ]);
});

Deno.test("FileWatcher reports a file that does not exist yet, and fails for a directory that does not", async () => {
  await using directory = await TempDirectory.make();
  using watched = watch(directory.at("app.env"));
  assertEquals(
    await watched.reported(() => directory.write("app.env", "1")) >= 1,
    true,
  );
  assertThrows(
    () => watch(directory.at("missing/app.env")),
    Deno.errors.NotFound,
  );
});

Deno.test(
  "FileWatcher reports a missing permission without prompting",
  { permissions: { read: ["main.ts"] } },
  () => {
    const missing = (path: string) =>
      assertThrows(() => watch(path), Deno.errors.NotCapable).message;
    assertEquals(["deno.json", "main.ts"].map(missing), [
      "expected --allow-read=deno.json",
      "expected --allow-read=.",
    ]);
  },
);
