import { assertEquals, assertMatch } from "@std/assert";
import { KeptBuilds } from "../../../src/content/builds/kept_builds.ts";
import { DirectoryGate } from "../../../src/content/builds/directory_gate.ts";
import type { FindFile } from "../../../src/content/builds/build_files.ts";
import type { FoundFile } from "../../../src/content/static/found_file.ts";
import { Compressor } from "../../../src/content/coding/representations.ts";
import { noMetrics } from "../../../src/core/observe/metrics.ts";
import { FakeClock, settle } from "../../../tools/fake_clock.ts";
import { captureLog } from "../../_gateway.ts";
import { until } from "../../_time.ts";
import {
  buildOf,
  Directories,
  type KeepingGateway,
  serve,
  swept,
} from "./_builds.ts";

const A = buildOf("A", { "assets/a-1.js": "a" });
const B = buildOf("B", { "assets/b-2.js": "bb" });

/** Mounts a file system in memory; only root may. */
async function mount(path: string, options: string): Promise<AsyncDisposable> {
  await Deno.mkdir(path, { recursive: true });
  const args = ["-t", "tmpfs", "-o", options, "tmpfs", path];
  const { success } = await new Deno.Command("mount", { args }).output();
  assertEquals(success, true);
  return {
    async [Symbol.asyncDispose]() {
      await new Deno.Command("umount", { args: ["-l", path] }).output();
    },
  };
}

async function canMount(): Promise<boolean> {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) return false;
  const path = await Deno.makeTempDir();
  const args = ["-t", "tmpfs", "tmpfs", path];
  const { success } = await new Deno.Command("mount", { args }).output();
  if (success) await new Deno.Command("umount", { args: [path] }).output();
  await Deno.remove(path);
  return success;
}

const ignore = !await canMount();
const NEEDS = ignore ? " (skipped: needs root)" : "";

Deno.test("if the directory is a file, that is a problem, and the app is served", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  await Deno.writeTextFile(directories.at("keep"), "a file");
  await using gateway = await serve(directories, "app");
  assertEquals(await gateway.problems(), ["builds_not_kept"]);
  assertMatch(await gateway.read("/"), /<title>A/);
  assertEquals(await gateway.read("/assets/x-1.js"), "404");
  assertEquals(gateway.logged("rep.builds.not_kept").length, 1);
  await gateway.later(65_000);
  await settle();
  assertEquals(gateway.logged("rep.builds.not_kept").length, 1);
  await Deno.remove(directories.at("keep"));
  await gateway.later(65_000);
  await until(async () => await gateway.problems() === undefined);
  assertEquals(await directories.kept(), ["assets/a-1.js"]);
});

Deno.test("a directory that is removed while the gateway runs is filled again", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  await using gateway = await serve(directories, "app");
  await swept(gateway.clock);
  await Deno.remove(directories.at("keep"), { recursive: true });
  await gateway.lookAgain();
  assertMatch(await gateway.read("/"), /<title>A/);
  assertEquals(await gateway.read("/assets/x-1.js"), "404");
  await gateway.later(5_000);
  await until(async () => (await directories.kept()).length === 1);
  assertEquals(await gateway.problems(), undefined);
});

Deno.test({
  name:
    `a full directory is a problem until there is room, and what is in it is served${NEEDS}`,
  ignore,
  async fn() {
    await using directories = await Directories.make();
    await using _mount = await mount(directories.at("keep"), "size=64k");
    await directories.write("app", A);
    await using gateway = await serve(directories, "app");
    const large = "x".repeat(100_000);
    await directories.replace(
      "app",
      buildOf("C", { "assets/0.js": large, "assets/z.js": "z" }),
    );
    await gateway.lookAgain();
    assertMatch(await gateway.read("/"), /<title>C/);
    assertEquals(await gateway.problems(), ["builds_not_kept"]);
    assertMatch(
      String(gateway.logged("rep.builds.not_kept")[0]?.detail),
      /No space left/,
    );
    assertEquals(await gateway.read("/assets/a-1.js"), "a");
    assertEquals(await directories.kept(), ["assets/a-1.js", "assets/z.js"]); // nothing half-written
    await directories.replace("app", B);
    await gateway.lookAgain();
    assertMatch(await gateway.read("/"), /<title>B/);
    assertEquals(await gateway.problems(), undefined);
  },
});

/** Writes a file until a file system has no room, also not for a byte. */
async function fill(path: string): Promise<void> {
  using file = await Deno.open(path, { create: true, append: true });
  try {
    while (true) await file.write(new Uint8Array(4_096));
  } catch (error) {
    assertMatch(String(error), /No space left/);
  }
}

Deno.test({
  name:
    `a directory that is full of builds that are kept no longer is swept, and keeps the build then${NEEDS}`,
  ignore,
  async fn() {
    for (const daysFull of [0, 8]) {
      await using directories = await Directories.make();
      await using _mount = await mount(directories.at("keep"), "size=128k");
      await directories.write("app", A);
      await using first = await serve(directories, "app");
      await until(async () => ".swept" in await directories.read("keep"));
      await first.gateway.close();
      await swept(first.clock);
      const files = JSON.stringify({ files: { "assets/old-0.js": 1 } });
      await directories.write("keep/_/builds", { "OLD.json": files });
      await fill(directories.at("keep/_/files/assets/old-0.js"));
      const old = [".swept", "_/builds/OLD.json", "_/files/assets/old-0.js"];
      for (const name of old) {
        await directories.age(`keep/${name}`, 8 * 86_400_000);
      }
      await directories.age("keep/_/owner", daysFull * 86_400_000);
      await directories.replace("app", B);
      await using gateway = await serve(directories, "app");
      assertEquals(await gateway.problems(), ["builds_not_kept"]);
      await gateway.later(65_000);
      await until(async () => await gateway.problems() === undefined);
      assertEquals(await directories.kept(), [
        "assets/a-1.js",
        "assets/b-2.js",
      ]);
    }
  },
});

Deno.test({
  name:
    `a read-only directory that something else fills is no problem, and is served${NEEDS}`,
  ignore,
  async fn() {
    await using directories = await Directories.make();
    await directories.write("app", A);
    await using _mount = await mount(directories.at("keep"), "size=1m");
    await directories.write("keep/_/files", { "assets/old-0.js": "old" });
    const args = ["-o", "remount,ro", directories.at("keep")];
    await new Deno.Command("mount", { args }).output();
    await using gateway = await serve(directories, "app");
    assertEquals(await gateway.problems(), undefined);
    assertEquals(await gateway.read("/assets/old-0.js"), "old");
    assertEquals(gateway.lines.filter(({ level }) => level === "ERROR"), []);
    await gateway.later(10_000);
    await settle();
    assertEquals(await directories.kept(), ["assets/old-0.js"]);
  },
});

Deno.test("two replicas with other bytes under one name: each serves its own, and the second one warns", async () => {
  await using directories = await Directories.make();
  await directories.write("one", buildOf("1", { "assets/x.js": "short" }));
  await directories.write(
    "two",
    buildOf("2", { "assets/x.js": "much longer" }),
  );
  await using one = await serve(directories, "one");
  await using two = await serve(directories, "two");
  const kept = () =>
    Deno.readTextFile(directories.at("keep/_/files/assets/x.js"));
  assertEquals(
    [await one.read("/assets/x.js"), await two.read("/assets/x.js")],
    ["short", "much longer"],
  );
  assertEquals(await kept(), "short");
  const [warning] = two.logged("rep.builds.differs");
  assertEquals([warning?.level, warning?.path], ["WARN", "assets/x.js"]);
  assertEquals(await two.problems(), undefined);
  assertEquals(one.logged("rep.builds.differs"), []);
});

Deno.test("a kept file in the place of a directory is a problem, and the other files are kept", async () => {
  for (const path of ["assets/x/b-1.js", "assets/x/deep/b-1.js"]) {
    await using directories = await Directories.make();
    await directories.write("app", buildOf("A", { "assets/x": "file" }));
    const immutable = ["assets/**"];
    await using gateway = await serve(directories, "app", { immutable });
    await directories.replace(
      "app",
      buildOf("B", { "assets/a-1.js": "a", [path]: "b", "assets/z-1.js": "z" }),
    );
    await gateway.lookAgain();
    assertMatch(await gateway.read("/"), /<title>B/);
    assertEquals(await gateway.problems(), ["builds_not_kept"], path);
    const kept = ["assets/a-1.js", "assets/x", "assets/z-1.js"];
    assertEquals(await directories.kept(), kept);
  }
});

Deno.test("a crash leaves temporary files and lists without their files, and the next start completes them", async () => {
  await using directories = await Directories.make();
  await directories.write(
    "app",
    buildOf("A", { "assets/a-1.js": "a", "assets/b-2.js": "bb" }),
  );
  await using first = await serve(directories, "app");
  await first.gateway.close();
  const [list = ""] = Object.keys(await directories.read("keep/_/builds"));
  await Deno.remove(directories.at("keep/_/files/assets/b-2.js"));
  await directories.write("keep/_", {
    "files/assets/.0f0e": "b",
    "builds/.0f0f": "{",
    [`builds/${list}`]: "",
    "owner": "",
  });
  await using again = await serve(directories, "app");
  assertEquals(await again.problems(), undefined);
  assertEquals(
    (await directories.kept()).filter((name) => !name.includes("/.")),
    ["assets/a-1.js", "assets/b-2.js"],
  );
  assertEquals(await again.read("/assets/.0f0e"), "404");
  const text = await Deno.readTextFile(directories.at(`keep/_/builds/${list}`));
  assertEquals(JSON.parse(text), {
    files: { "assets/a-1.js": 1, "assets/b-2.js": 2 },
    complete: true,
  });
});

Deno.test("a link or a FIFO in the place of a copy is replaced by the file, and what the link leads to stays", async () => {
  await using directories = await Directories.make();
  await directories.write(
    "app",
    buildOf("A", { "assets/a-1.js": "a", "assets/b-2.js": "b" }),
  );
  await directories.write("outside", { "a.txt": "outside" });
  await directories.write("keep/_/files/assets", {});
  await Deno.mkdir(directories.at("keep/_/files/assets"), { recursive: true });
  await Deno.symlink(
    directories.at("outside/a.txt"),
    directories.at("keep/_/files/assets/a-1.js"),
  );
  await new Deno.Command("mkfifo", {
    args: [directories.at("keep/_/files/assets/b-2.js")],
  }).output();
  await new Deno.Command("touch", {
    args: ["-d", "1 hour ago", directories.at("app/assets/a-1.js")],
  }).output();
  await using gateway = await serve(directories, "app");
  assertEquals(await gateway.problems(), undefined);
  assertEquals(
    await Deno.readTextFile(directories.at("outside/a.txt")),
    "outside",
  );
});

/** Opens kept builds, with files that a test finds. */
function open(
  directories: Directories,
  clock: FakeClock,
  run: DirectoryGate["run"],
  find: FindFile,
) {
  const { log, lines } = captureLog();
  const builds = new KeptBuilds(
    {
      directory: directories.at("keep"),
      folder: "_",
      owner: () => Promise.resolve(""),
      gate: { run } as DirectoryGate,
      metrics: noMetrics,
    },
    {
      directory: directories.at("app"),
      cacheBytes: 0,
      cacheGroup: undefined,
      immutable: ["assets/*"],
      compressor: new Compressor(),
      sharesBytes: false,
      checkRoot: undefined,
      clock,
      log,
    },
    find,
    (key) => key.startsWith("assets/"),
  );
  return { builds, lines };
}

Deno.test("a copy of another size is replaced by a file that has been unchanged for 60 s, and by no other", async () => {
  await using directories = await Directories.make();
  await directories.write("app", buildOf("A", { "assets/x.js": "new" }));
  await directories.write("keep/_/files", { "assets/x.js": "other" });
  const clock = new FakeClock(Date.now());
  const gate = new DirectoryGate(clock);
  const path = directories.at("app/assets/x.js");
  const stats = await Deno.stat(path);
  for (const [age, text] of [[59_000, "other"], [62_000, "new"]] as const) {
    const lookedAt = (stats.ctime?.getTime() ?? 0) + age;
    const found: FoundFile = { path, stats, lookedAt, coding: "identity" };
    const run: DirectoryGate["run"] = (lane, work, ms) =>
      gate.run(lane, work, ms);
    const find = () => Promise.resolve(found);
    const { builds, lines } = open(directories, clock, run, find);
    await builds.follow("A", 10_000);
    assertEquals(await directories.read("keep/_/files"), {
      "assets/x.js": text,
    });
    assertEquals(lines.map(({ msg }) => msg), ["rep.builds.differs"]);
    builds.close();
    await swept(clock);
  }
});

Deno.test("a build that was kept before is believed to be, and compared afterwards; not if a crash has ended that, or another file has a name of it", async () => {
  await using directories = await Directories.make();
  await directories.write("app", buildOf("A", { "assets/x.js": "x" }));
  const clock = new FakeClock(Date.now());
  const gate = new DirectoryGate(clock);
  const path = directories.at("app/assets/x.js");
  const stats = await Deno.stat(path);
  const lookedAt = stats.ctime?.getTime() ?? 0; // it was written just now
  const found: FoundFile = { path, stats, lookedAt, coding: "identity" };
  const run: DirectoryGate["run"] = (lane, work, ms) =>
    gate.run(lane, work, ms);
  const list = directories.at("keep/_/builds/A.json");
  const copy = directories.at("keep/_/files/assets/x.js");
  const table: [before: string, change: () => Promise<void>, waits: boolean][] =
    [
      ["nothing", async () => {}, true],
      ["it was kept", async () => {}, false],
      ["a copy was removed", () => Deno.remove(copy), false],
      ["the first copies were ended", async () => {
        const text = await Deno.readTextFile(list);
        await Deno.writeTextFile(list, text.replace("true", "false"));
        await Deno.remove(copy);
      }, true],
      ["another gateway has kept another file", async () => {
        await Deno.writeTextFile(list, "");
        await Deno.writeTextFile(copy, "another");
      }, true],
      ["which is not replaced yet", async () => {}, true],
    ];
  for (const [before, change, waits] of table) {
    await change();
    const comparing = Promise.withResolvers<FoundFile>();
    const { builds } = open(directories, clock, run, () => comparing.promise);
    let isReady = false;
    const followed = builds.follow("A", 10_000).then(() => isReady = true);
    if (waits) await settle();
    else await followed;
    assertEquals(isReady, !waits, before);
    comparing.resolve(found);
    await followed;
    await until(async () =>
      await Deno.stat(copy).then(() => true, () => false)
    );
    await swept(clock);
    builds.close();
    await swept(clock);
  }
});

Deno.test("a file that is changed while it is copied is not kept half", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  const clock = new FakeClock(Date.now());
  const gate = new DirectoryGate(clock);
  const path = directories.at("app/assets/a-1.js");
  const stats = await Deno.stat(path);
  await Deno.writeTextFile(path, "longer");
  const run: DirectoryGate["run"] = (lane, work, ms) =>
    gate.run(lane, work, ms);
  const found: FoundFile = {
    path,
    stats,
    lookedAt: Date.now(),
    coding: "identity",
  };
  const find = () => Promise.resolve(found);
  const { builds } = open(directories, clock, run, find);
  await builds.follow("A", 10_000);
  assertEquals(await directories.kept(), []);
  assertEquals(builds.problems(), { builds_not_kept: undefined });
  builds.close();
  await swept(clock);
});

Deno.test("while the directory hangs, pages wait once for 2 s, files are not looked for, and no more than two operations are in flight", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  const clock = new FakeClock(Date.now());
  const gate = new DirectoryGate(clock);
  let asked = 0;
  const run: DirectoryGate["run"] = (lane, _work, ms) =>
    gate.run(lane, () => {
      asked++;
      return new Promise(() => {});
    }, ms);
  const find = () => Promise.resolve("absent" as const);
  const { builds, lines } = open(directories, clock, run, find);
  const first = builds.follow("A", 2_000);
  const finds = Array.from(
    { length: 50 },
    (_, index) => builds.find(`assets/${index}.js`),
  );
  await clock.tick(0);
  await clock.tick(2_000);
  await first;
  assertEquals(await Promise.all(finds), Array(50).fill(undefined));
  const since = clock.now(); // when the first look ended
  assertEquals(builds.problems(), { builds_not_kept: since });
  await builds.follow("A", 2_000); // at once
  await builds.follow("B", 2_000);
  assertEquals(await builds.find("assets/x.js"), undefined);
  builds.start(() => Promise.resolve(undefined));
  for (let hour = 0; hour < 2; hour++) await clock.tick(600_000);
  assertEquals(asked, 2);
  assertEquals(lines.map(({ msg }) => msg), ["rep.builds.not_kept"]);
  builds.close();
});

const ASKS = [
  ...["stat", "lstat", "realPath", "open", "readFile", "readTextFile"] as const,
  ...["mkdir", "rename", "remove", "writeFile", "writeTextFile"] as const,
];

/** Lets the system never answer about a directory, like one on a network whose server is gone. */
function hang(directory: string): Disposable & { readonly asked: string[] } {
  const asked: string[] = [];
  const stack = new DisposableStack();
  for (const name of [...ASKS, "readDir"] as const) {
    const original = Deno[name] as (...args: unknown[]) => unknown;
    const never = (path: unknown, ...args: unknown[]) => {
      if (!String(path).startsWith(directory)) return original(path, ...args);
      asked.push(name);
      const waiting = new Promise<never>(() => {});
      return Object.assign(waiting, {
        [Symbol.asyncIterator]: () => ({ next: () => waiting }),
      });
    };
    Object.assign(Deno, { [name]: never });
    stack.defer(() => Object.assign(Deno, { [name]: original }));
  }
  return { asked, [Symbol.dispose]: () => stack.dispose() };
}

Deno.test("while the system does not answer about the directory, the app is served without waiting, and starts within 10 s", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  await using running = await serve(directories, "app");
  await swept(running.clock);
  using hung = hang(directories.at("keep"));
  const later = async (gateway: KeepingGateway) => {
    await gateway.lookAgain();
    assertMatch(await gateway.read("/"), /<title>A/);
    assertEquals(await gateway.read("/assets/a-1.js"), "a");
  };
  await later(running);
  const missing = running.read("/assets/x-1.js");
  await settle();
  await running.clock.tick(2_000);
  assertEquals(await missing, "404");
  await later(running);
  assertEquals(await running.read("/assets/y-1.js"), "404");
  assertEquals(hung.asked.length, 1);

  const clock = new FakeClock(Date.now());
  const opening = serve(directories, "app", {}, clock);
  for (let second = 0; second < 10; second++) {
    await settle();
    await clock.tick(1_000);
  }
  await using started = await opening;
  assertEquals(await started.problems(), ["builds_not_kept"]);
  await later(started);
  assertEquals(hung.asked.length, 2);
});

Deno.test("while a large kept file is hashed for long, it is served without a tag, and others are served, too", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  const large = "x".repeat(300 * 1024);
  await directories.write("keep/_/files", {
    "assets/large-3.bin": large,
    "assets/small-4.js": "small",
  });
  const options = { staticCacheBytes: 0 };
  await using gateway = await serve(directories, "app", options);
  const { read } = Deno.FsFile.prototype;
  const gate = Promise.withResolvers<void>();
  using stack = new DisposableStack();
  stack.defer(() => Deno.FsFile.prototype.read = read);
  let isHashing = false;
  Deno.FsFile.prototype.read = async function (buffer) {
    isHashing = buffer.length > 100_000;
    if (isHashing) await gate.promise;
    return await read.call(this, buffer);
  };
  const asking = gateway.ask("/assets/large-3.bin");
  await until(() => isHashing);
  await settle();
  await gateway.clock.tick(500);
  const response = await asking;
  assertEquals([response.status, response.headers.get("etag")], [200, null]);
  await response.body?.cancel();
  assertEquals(await gateway.read("/assets/small-4.js"), "small");
  gate.resolve();
  await swept(gateway.clock);
});
