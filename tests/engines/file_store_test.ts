import { assertEquals, assertRejects } from "@std/assert";
import { fileStore } from "../../src/engines/file_store.ts";
import { memoryStore } from "../../src/engines/memory.ts";
import { StoreUnavailableError } from "../../src/core/store/store.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { OPERATIONS } from "../_store.ts";
import { TempDirectory } from "../_temp.ts";

/** A store in a file that a test may delete or replace. */
async function setUp() {
  const directory = await TempDirectory.make({ "kv.sqlite3": "" });
  const path = directory.at("kv.sqlite3");
  const clock = new FakeClock();
  const store = await fileStore(path, memoryStore(), clock);
  return {
    directory,
    path,
    clock,
    store,
    async fails() {
      const message =
        `Cannot use the store: "${path}" was deleted or replaced while it was open; restore it or a backup, then restart`;
      for (const run of Object.values(OPERATIONS)) {
        await assertRejects(() => run(store), StoreUnavailableError, message);
      }
    },
    async works() {
      for (const run of Object.values(OPERATIONS)) await run(store);
    },
  };
}

Deno.test("fileStore() fails a second after its file was deleted, until it is back", async () => {
  const { directory, path, clock, fails, works } = await setUp();
  await using _ = directory;
  await clock.tick(1_000);
  await works();
  await Deno.rename(path, `${path}.away`);
  await clock.tick(999);
  await works();
  await clock.tick(1);
  await fails();
  await Deno.rename(`${path}.away`, path);
  await clock.tick(1_000);
  await works();
});

Deno.test("fileStore() fails after its file was replaced by another one", async () => {
  const { directory, path, clock, fails } = await setUp();
  await using _ = directory;
  await Deno.rename(await directory.write("copy", ""), path);
  await clock.tick(1_000);
  await fails();
});

Deno.test("fileStore() follows a symlink, and does not mind what is written to the file", async () => {
  await using directory = await TempDirectory.make({ "real.sqlite3": "" });
  const path = directory.at("kv.sqlite3");
  await Deno.symlink("real.sqlite3", path);
  const clock = new FakeClock();
  const store = await fileStore(path, memoryStore(), clock);
  await directory.write("real.sqlite3", "more");
  await clock.tick(1_000);
  assertEquals(await store.get(["a"]), undefined);
});
