import { assertEquals, assertRejects } from "@std/assert";
import { DirectoryGate } from "../../../src/content/builds/directory_gate.ts";
import { SharedDirectory } from "../../../src/content/builds/shared_directory.ts";
import { sweepDaily } from "../../../src/content/builds/sweep.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { until } from "../../_time.ts";
import { buildOf, Directories, serve } from "./_builds.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const MARK = "builds of @rep/gateway ";

/** A kept build: how long ago it was served last, and the sizes of its files. */
interface OldBuild {
  readonly age: number;
  readonly files: Readonly<Record<string, number>>;
}

/** Writes an app's folder, whose files are as old as its builds, or as old as `unlisted` says. */
async function writeFolder(
  directories: Directories,
  folder: string,
  builds: Readonly<Record<string, OldBuild>>,
  unlisted: Readonly<Record<string, number>> = {},
): Promise<void> {
  await directories.write(`keep/${folder}`, { owner: MARK });
  const write = async (name: string, text: string, age: number) => {
    await directories.write(`keep/${folder}`, { [name]: text });
    await directories.age(`keep/${folder}/${name}`, age);
  };
  for (const [id, { age, files }] of Object.entries(builds)) {
    for (const name of Object.keys(files)) {
      await write(`files/${name}`, "x", age);
    }
    await write(`builds/${id}.json`, JSON.stringify({ files }), age);
  }
  for (const [name, age] of Object.entries(unlisted)) {
    await write(`files/${name}`, "x", age);
  }
}

async function sweep(
  directories: Directories,
  served = "_/builds/now.json",
): Promise<void> {
  const gate = new DirectoryGate(new FakeClock());
  const directory = new SharedDirectory(directories.at("keep"), gate);
  await sweepDaily(directory, served);
}

async function listsOf(
  directories: Directories,
  folder = "_",
): Promise<string[]> {
  const files = await directories.read(`keep/${folder}/builds`);
  return Object.keys(files).toSorted();
}

Deno.test("a sweep ends builds that were not served for 7 days, with the files that no other one has", async () => {
  await using directories = await Directories.make();
  await writeFolder(directories, "_", {
    now: { age: 0, files: { "shared.js": 1, "now.js": 1 } },
    week: { age: 7 * DAY - HOUR, files: { "week.js": 1 } },
    old: { age: 7 * DAY + HOUR, files: { "shared.js": 1, "old.js": 1 } },
  }, { "new-unlisted.js": DAY, "d/old-unlisted.js": 8 * DAY });
  await sweep(directories);
  assertEquals(await listsOf(directories), ["now.json", "week.json"]);
  assertEquals(await directories.kept(), [
    "new-unlisted.js",
    "now.js",
    "shared.js",
    "week.js",
  ]);
});

Deno.test("ages count from the newest time in the directory: nothing that is served is swept by a clock that is an hour ahead or behind", async () => {
  for (const skew of [-HOUR, HOUR]) {
    await using directories = await Directories.make();
    await writeFolder(directories, "_", {
      other: { age: HOUR + skew, files: { "other.js": 2 ** 30 } },
      now: { age: 0, files: { "now.js": 2 ** 30 } },
    });
    await directories.age("keep/_/owner", skew);
    await sweep(directories);
    assertEquals(await listsOf(directories), ["now.json", "other.json"]);
    assertEquals(await directories.kept(), ["now.js", "other.js"]);
  }
});

Deno.test("beyond 1 GiB, the oldest builds end first, and those that are served never", async () => {
  const half = 2 ** 29;
  await using directories = await Directories.make();
  await writeFolder(directories, "_", {
    now: { age: 0, files: { "now.js": 2 ** 31 } },
    other: { age: HOUR, files: { "other.js": half } },
    older: { age: 5 * HOUR, files: { "older.js": 1 } },
  });
  await sweep(directories);
  assertEquals(await listsOf(directories), ["now.json", "other.json"]);
  assertEquals(await directories.kept(), ["now.js", "other.js"]);

  await using small = await Directories.make();
  await writeFolder(small, "_", {
    now: { age: 0, files: { "shared.js": half, "now.js": 1 } },
    middle: { age: DAY, files: { "shared.js": half, "middle.js": half - 10 } },
    oldest: { age: 2 * DAY, files: { "oldest.js": 10 } },
  });
  await sweep(small);
  assertEquals(await listsOf(small), ["middle.json", "now.json"]);
});

Deno.test("folders of removed sites are removed, those of others are swept, and nothing else is touched", async () => {
  await using directories = await Directories.make();
  await writeFolder(directories, "_", { now: { age: 0, files: {} } });
  await writeFolder(directories, "gone.example", {
    last: { age: 8 * DAY, files: { "a.js": 1 } },
  });
  await directories.age("keep/gone.example/owner", 8 * DAY);
  await writeFolder(directories, "shop.example", {
    last: { age: HOUR, files: { "b.js": 1 } },
    old: { age: 8 * DAY, files: { "c.js": 1 } },
  });
  await directories.write("keep/photos", {
    "files/holiday.jpg": "x",
    "builds/x.json": "{}",
  });
  await directories.age("keep/photos/files/holiday.jpg", 99 * DAY);
  await directories.write("keep", { "note.txt": "x" });
  await sweep(directories);
  const names = Object.keys(await directories.read("keep")).toSorted();
  assertEquals(names, [
    ".swept",
    "_/builds/now.json",
    "_/owner",
    "note.txt",
    "photos/builds/x.json",
    "photos/files/holiday.jpg",
    "shop.example/builds/last.json",
    "shop.example/files/b.js",
    "shop.example/owner",
  ]);
});

Deno.test("what this process may not read or remove in folders of others does not keep it from sweeping its own", async () => {
  await using directories = await Directories.make();
  const old = { old: { age: 8 * DAY, files: { "old.js": 1 } } };
  const folders = ["_", "first.example", "last.example"];
  for (const folder of folders) await writeFolder(directories, folder, old);
  const others = /^(?!_)/;
  class Restricted extends SharedDirectory {
    override async remove(name: string): Promise<void> {
      if (others.test(name)) throw new Deno.errors.PermissionDenied(name);
      await super.remove(name);
    }
    override async list(name: string): Promise<Deno.DirEntry[]> {
      const entries = await super.list(name);
      if (name !== "") return entries;
      const found = { isFile: false, isDirectory: true, isSymlink: false };
      return [{ ...found, name: "lost+found" }, ...entries.reverse()];
    }
    override async stat(name: string): Promise<Deno.FileInfo | undefined> {
      if (name.startsWith("lost+found/")) {
        throw new Deno.errors.PermissionDenied(name);
      }
      return await super.stat(name);
    }
  }
  const gate = new DirectoryGate(new FakeClock());
  const directory = new Restricted(directories.at("keep"), gate);
  const sweeping = () => sweepDaily(directory, "_/builds/now.json");
  await assertRejects(sweeping, Deno.errors.PermissionDenied, ".example/");
  assertEquals(Object.keys(await directories.read("keep/_")), ["owner"]);
});

Deno.test("a link in the place of a folder's own directory leads to what is not swept", async () => {
  for (const linked of ["files", "builds"]) {
    await using directories = await Directories.make();
    const old = { age: 8 * DAY, files: { "old.js": 1 } };
    await writeFolder(directories, "_", { old });
    await directories.write("elsewhere", { "a/theirs": "x", "theirs": "x" });
    for (const name of ["a/theirs", "theirs"]) {
      await directories.age(`elsewhere/${name}`, 8 * DAY);
    }
    const link = directories.at(`keep/_/${linked}`);
    await Deno.remove(link, { recursive: true });
    await Deno.symlink(directories.at("elsewhere"), link);
    await sweep(directories);
    const left = Object.keys(await directories.read("elsewhere")).toSorted();
    assertEquals(left, ["a/theirs", "theirs"], linked);
  }
});

Deno.test("a directory is swept once a day, by whichever gateway", async () => {
  await using directories = await Directories.make();
  const old = { old: { age: 8 * DAY, files: { "old.js": 1 } } };
  await writeFolder(directories, "_", old);
  await sweep(directories);
  await writeFolder(directories, "_", old);
  await sweep(directories);
  assertEquals(await listsOf(directories), ["old.json"]);
  await directories.age("keep/.swept", DAY + HOUR);
  await sweep(directories);
  assertEquals(await listsOf(directories), []);
});

Deno.test("broken lists, temporary files and strange names hold nothing up", async () => {
  await using directories = await Directories.make();
  await writeFolder(directories, "_", {
    now: { age: 0, files: { "now.js": 1 } },
  });
  const broken = [
    "",
    "{",
    "null",
    "5",
    "[]",
    '{"files":null}',
    '{"files":{"../../../note.txt":1}}',
  ];
  for (const [index, text] of broken.entries()) {
    const name = `builds/${index}.json`;
    await directories.write("keep/_", { [name]: text });
    await directories.age(`keep/_/${name}`, 8 * DAY);
  }
  await directories.write("keep", { "note.txt": "x" });
  await directories.write("keep/_", {
    "files/.half-written": "x",
    "files/.being-written": "x",
    "builds/.temporary": "{}",
  });
  await directories.age("keep/_/files/.half-written", 8 * DAY);
  await directories.age("keep/_/builds/.temporary", 8 * DAY);
  await new Deno.Command("mkfifo", {
    args: [directories.at("keep/_/builds/fifo.json")],
  }).output();
  await sweep(directories);
  assertEquals(await directories.kept(), [".being-written", "now.js"]);
  assertEquals(await Deno.readTextFile(directories.at("keep/note.txt")), "x");
  await Deno.remove(directories.at("keep/_/builds/fifo.json"));
  assertEquals(await listsOf(directories), ["now.json"]);
});

Deno.test("two gateways sweep while a third one keeps a build of files that no list named: it finds all of them", async () => {
  await using directories = await Directories.make();
  const names = Array.from({ length: 200 }, (_, index) => `assets/${index}.js`);
  const files = Object.fromEntries(names.map((name) => [name, "x"]));
  await directories.write("app", buildOf("old", files));
  for (let round = 0; round < 5; round++) {
    await writeFolder(
      directories,
      "_",
      {},
      Object.fromEntries(names.map((name) => [name, 8 * DAY])),
    );
    await Deno.remove(directories.at("keep/.swept")).catch(() => {});
    const [gateway] = await Promise.all([
      serve(directories, "app"),
      sweep(directories),
      sweep(directories),
    ]);
    await gateway.later(65_000); // what was removed in between is copied again
    await until(async () => (await directories.kept()).length === names.length);
    await gateway[Symbol.asyncDispose]();
  }
});

Deno.test("a gateway sweeps after its start", async () => {
  await using directories = await Directories.make();
  await writeFolder(directories, "_", {
    old: { age: 8 * DAY, files: { "old.js": 1 } },
  });
  await directories.write("app", buildOf("A", { "assets/a.js": "a" }));
  await using _gateway = await serve(directories, "app");
  await until(async () => (await directories.kept()).join() === "assets/a.js");
});
