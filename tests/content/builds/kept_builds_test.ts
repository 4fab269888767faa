import { assertEquals, assertMatch } from "@std/assert";
import { memoryStore } from "../../../src/engines/memory.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { answerWith, openContent } from "../static/_content.ts";
import { until } from "../../_time.ts";
import { buildOf, Directories, serve, swept } from "./_builds.ts";

const A = buildOf("A", { "assets/a-1.js": "a", "assets/same-0.js": "same" });
const B = buildOf("B", { "assets/b-2.js": "bb", "assets/same-0.js": "same" });

const IMMUTABLE = "public, max-age=31536000, immutable";

Deno.test("an open tab finds the files of a build that was replaced, with the headers of immutable files", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  await using gateway = await serve(directories, "app");
  await directories.replace("app", B);
  await gateway.lookAgain();
  assertMatch(await gateway.read("/"), /<title>B/);
  const response = await gateway.ask("/assets/a-1.js");
  const { status, headers } = response;
  assertEquals([status, await response.text()], [200, "a"]);
  assertEquals(headers.get("cache-control"), IMMUTABLE);
  assertEquals(headers.get("content-type"), "text/javascript; charset=UTF-8");
  assertEquals(await gateway.read("/assets/b-2.js"), "bb");
  assertEquals(await gateway.read("/assets/c-3.js"), "404");
  assertEquals(
    await gateway.metric("rep_builds_hits_total"),
    "rep_builds_hits_total 1",
  );
  assertEquals(await gateway.problems(), undefined);
});

Deno.test("HEAD, ranges and preconditions of a kept file are answered as those of any file", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  await using gateway = await serve(directories, "app");
  await directories.replace("app", B);
  await gateway.lookAgain();
  const head = await gateway.ask("/assets/a-1.js", { method: "HEAD" });
  const etag = head.headers.get("etag") ?? "";
  assertEquals([head.status, await head.text()], [200, ""]);
  const known = await gateway.ask("/assets/a-1.js", {
    headers: { "if-none-match": etag },
  });
  assertEquals(known.status, 304);
  const part = await gateway.ask("/assets/same-0.js", {
    headers: { range: "bytes=1-2" },
  });
  assertEquals([part.status, await part.text()], [206, "am"]);
});

Deno.test("compressed variants are kept with their files, and sent to who accepts them", async () => {
  await using directories = await Directories.make();
  await directories.write("app", { ...A, "assets/a-1.js.br": "compressed" });
  await using gateway = await serve(directories, "app");
  await directories.replace("app", B);
  await gateway.lookAgain();
  const headers = { "accept-encoding": "br" };
  const response = await gateway.ask("/assets/a-1.js", { headers });
  assertEquals(await response.text(), "compressed");
  assertEquals(response.headers.get("content-encoding"), "br");
  assertEquals(response.headers.get("cache-control"), IMMUTABLE);
});

Deno.test("replicas with different builds serve each other's files from one directory, in both directions", async () => {
  await using directories = await Directories.make();
  await directories.write("old", A);
  await directories.write("new", B);
  await using old = await serve(directories, "old");
  assertEquals(await old.read("/assets/b-2.js"), "404");
  await using next = await serve(directories, "new");
  await old.lookAgain();
  assertEquals(await old.read("/assets/b-2.js"), "bb");
  assertEquals(await next.read("/assets/a-1.js"), "a");
});

Deno.test("a rollback finds its own files, and those of the build that it replaces", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  await using gateway = await serve(directories, "app");
  for (const build of [B, A]) {
    await directories.replace("app", build);
    await gateway.lookAgain();
    await gateway.read("/");
  }
  assertEquals(await gateway.read("/assets/a-1.js"), "a");
  assertEquals(await gateway.read("/assets/b-2.js"), "bb");
  const lists = Object.keys(await directories.read("keep/_/builds"));
  assertEquals(lists.length, 2);
});

/** The ways in which a build is replaced while a gateway runs. */
const REPLACEMENTS: Record<
  string,
  (directories: Directories) => Promise<void>
> = {
  "rsync over it": async (directories) => {
    await directories.write("app", { "assets/b-2.js": "bb" });
    await directories.write("app", B);
    await Deno.remove(directories.at("app/assets/a-1.js"));
  },
  "rm, and writing again": (directories) => directories.replace("app", B),
  "switching a link": async (directories) => {
    await directories.write("releases/b", B);
    await Deno.rename(directories.at("app"), directories.at("releases/a"));
    await Deno.symlink("releases/b", directories.at("app"));
  },
};

for (const [name, replace] of Object.entries(REPLACEMENTS)) {
  Deno.test(`a build that is replaced by ${name} is kept before its first page is sent`, async () => {
    await using directories = await Directories.make();
    await directories.write("app", A);
    await using gateway = await serve(directories, "app");
    await replace(directories);
    await gateway.lookAgain();
    assertMatch(await gateway.read("/any/route"), /<title>B/);
    assertEquals(await directories.kept(), [
      "assets/a-1.js",
      "assets/b-2.js",
      "assets/same-0.js",
    ]);
    assertEquals(await gateway.read("/assets/a-1.js"), "a");
  });
}

Deno.test("a new build is noticed without a request", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  await using gateway = await serve(directories, "app");
  await directories.replace("app", B);
  await gateway.later(5_000);
  await until(async () => (await directories.kept()).length === 3);
});

Deno.test("files that are copied after their page are kept once they are requested", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  await using gateway = await serve(directories, "app");
  await directories.write("app", { "assets/late-9.js": "late" });
  await gateway.lookAgain();
  assertEquals(await gateway.read("/assets/late-9.js"), "late");
  await gateway.later(5_000);
  await until(async () =>
    (await directories.kept()).includes("assets/late-9.js")
  );
});

Deno.test("while the directory of the app is emptied, and written slowly, open tabs find what was kept; while it is gone, all is 503", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  await using gateway = await serve(directories, "app");
  const paths = ["/assets/a-1.js", "/assets/x-1.js", "/", "/route"];
  const read = async () => {
    await gateway.lookAgain();
    const answers: string[] = [];
    for (const path of paths) answers.push(await gateway.read(path));
    return answers;
  };
  await Deno.remove(directories.at("app"), { recursive: true });
  assertEquals(await read(), ["503", "503", "503", "503"]);
  await Deno.mkdir(directories.at("app"));
  assertEquals(await read(), ["a", "503", "503", "503"]);
  await directories.write("app", { "assets/x-1.js": "x" });
  assertEquals(await read(), ["a", "x", "503", "503"]);
  await directories.write("app", buildOf("B"));
  const [old, file, page] = await read();
  assertEquals([old, file], ["a", "x"]);
  assertMatch(page ?? "", /<title>B/);
});

Deno.test("a list of a build is never made shorter, such as while a build is removed", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  await using gateway = await serve(directories, "app");
  const [list = ""] = Object.keys(await directories.read("keep/_/builds"));
  const path = `keep/_/builds/${list}`;
  await directories.age(path, 3_600_000);
  await Deno.remove(directories.at("app/assets/a-1.js"));
  await gateway.later(65_000);
  await until(async () => await directories.ageOf(path) < 60_000);
  const text = await Deno.readTextFile(directories.at(path));
  const { files } = JSON.parse(text);
  assertEquals(files, { "assets/a-1.js": 1, "assets/same-0.js": 4 });
});

Deno.test("only files that match are looked up, and no path leads out of the directory", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  await directories.write("keep/_/files", {
    "assets/x.js": "x",
    "assets/x.js.map": "map",
    "assets/page.html": "<title>no</title>",
    "other.js": "other",
    "assets/.hidden.js": "hidden",
  });
  await directories.write("outside", { "secret.js": "secret" });
  await Deno.symlink(
    directories.at("outside/secret.js"),
    directories.at("keep/_/files/assets/link.js"),
  );
  await using gateway = await serve(directories, "app");
  const paths = [
    "/assets/x.js",
    "/assets/x.js.map",
    "/assets/page.html",
    "/other.js",
    "/assets/.hidden.js",
    "/assets/link.js",
    "/assets/..%2f..%2f..%2f_%2fowner",
    "/assets/%0ax.js",
    `/assets/${"x".repeat(255)}.js`,
  ];
  const answers = await Promise.all(paths.map((path) => gateway.read(path)));
  assertEquals(answers, ["x", ...Array(8).fill("404")]);
});

Deno.test("where the present build has something that is not served, no kept file takes its place", async () => {
  await using directories = await Directories.make();
  await directories.write("app", {
    ...A,
    "assets/own.js": "secret",
    "assets/dir.js/x": "x",
  });
  await directories.write("keep/_/files", {
    "assets/own.js": "kept",
    "assets/dir.js": "kept",
  });
  const neverServed = [directories.at("app/assets/own.js")];
  await using gateway = await serve(directories, "app", { neverServed });
  assertEquals(await gateway.read("/assets/own.js"), "404");
  assertEquals(await gateway.read("/assets/dir.js"), "404");
});

Deno.test("the file is gone a second after it was removed from the directory, if no build has it", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  await using gateway = await serve(directories, "app");
  await directories.replace("app", B);
  await gateway.lookAgain();
  assertEquals(await gateway.read("/assets/a-1.js"), "a");
  await Deno.remove(directories.at("keep/_/files/assets/a-1.js"));
  await gateway.lookAgain();
  assertEquals(await gateway.read("/assets/a-1.js"), "404");
});

Deno.test("metrics count the files of all builds and their bytes", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  await using gateway = await serve(directories, "app");
  await directories.replace("app", B);
  await gateway.lookAgain();
  await gateway.read("/");
  const files = () => gateway.metric("rep_builds_files");
  await until(async () => await files() === "rep_builds_files 3");
  assertEquals(
    await gateway.metric("rep_builds_size_bytes"),
    "rep_builds_size_bytes 7",
  );
});

Deno.test("apps with names have folders of their own", async () => {
  await using directories = await Directories.make();
  await directories.write("shop", A);
  await directories.write("blog", B);
  await using _shop = await serve(directories, "shop", { app: "shop" });
  await using blog = await serve(directories, "blog", { app: "blog" });
  assertEquals(await directories.kept("shop"), [
    "assets/a-1.js",
    "assets/same-0.js",
  ]);
  assertEquals(await blog.read("/assets/a-1.js"), "404");
});

const OTHER_KEY = { masterKey: new Uint8Array(32).fill(2) };

Deno.test("an app without a name neither writes to the folder of another one nor reads it", async () => {
  await using directories = await Directories.make();
  await directories.write("one", A);
  await directories.write("two", B);
  const masterKey = new Uint8Array(32).fill(1);
  await using one = await serve(directories, "one", { masterKey });
  await using two = await serve(directories, "two", OTHER_KEY);
  assertEquals(await two.problems(), ["builds_not_kept"]);
  assertEquals(await two.read("/assets/a-1.js"), "404");
  assertEquals(await two.read("/assets/b-2.js"), "bb");
  assertEquals(await directories.kept(), ["assets/a-1.js", "assets/same-0.js"]);
  assertEquals(await one.problems(), undefined);
  const [line] = two.logged("rep.builds.not_kept");
  assertMatch(
    String(line?.detail),
    /expected the files of this app, got those of another app or master key: set --app NAME if it is another app; if not, keep the store \(--kv\) or the master key, and remove "_\/owner"/,
  );
  await Deno.remove(directories.at("keep/_/owner"));
  await two.later(65_000);
  await until(async () => await two.problems() === undefined);
});

Deno.test("replicas on one store recognize each other, and a process whose store is in memory recognizes itself after a restart", async () => {
  await using directories = await Directories.make();
  await directories.write("one", A);
  await directories.write("two", B);
  const shared = { ...memoryStore(), engine: "SQLite" };
  for (const store of [shared, shared, memoryStore()]) {
    await using gateway = await serve(directories, "one", { store });
    assertEquals(await gateway.problems(), undefined);
  }
  const other = { ...memoryStore(), engine: "SQLite" };
  await using gateway = await serve(directories, "two", { store: other });
  assertEquals(await gateway.problems(), ["builds_not_kept"]);
});

Deno.test("a directory without any page is kept before the gateway is ready, and each set of its files is a build", async () => {
  await using directories = await Directories.make();
  await directories.write("app", { "assets/a-1.js": "a" });
  await using gateway = await serve(directories, "app");
  assertEquals(await directories.kept(), ["assets/a-1.js"]);
  await directories.replace("app", { "assets/b-2.js": "bb" });
  await gateway.lookAgain();
  assertEquals(await gateway.read("/assets/b-2.js"), "bb");
  await gateway.later(5_000);
  await until(async () => (await directories.kept()).length === 2);
  await swept(gateway.clock); // its list is written after the files
  const lists = await directories.read("keep/_/builds");
  assertEquals(Object.values(lists).toSorted(), [
    '{"files":{"assets/a-1.js":1},"complete":true}',
    '{"files":{"assets/b-2.js":2},"complete":true}',
  ]);
  const names = Object.keys(lists).map((name) => name.length);
  assertEquals(names, [17, 17]);
});

Deno.test("the folder of something else is not written to", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  await directories.write("keep/_", { "owner": "Bob" });
  await using gateway = await serve(directories, "app");
  assertEquals(await gateway.problems(), ["builds_not_kept"]);
  assertEquals(await directories.read("keep"), { "_/owner": "Bob" });
});

Deno.test("the ID of the build changes with the page while the gateway runs", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  const clock = new FakeClock(Date.now());
  const content = await openContent({
    directory: directories.at("app"),
    clock,
  });
  const first = await content.build();
  assertMatch(String(first), /^[A-Za-z\d]{20,}$/);
  await Deno.remove(directories.at("app/index.html"));
  await clock.tick(1_000);
  assertEquals(await content.build(), first);
  await directories.write("app", B);
  await clock.tick(1_000);
  const second = await content.build();
  assertEquals(second === first, false);
  await directories.write("app", A);
  await clock.tick(1_000);
  assertEquals(await content.build(), first);
  content.close();
});

Deno.test("a page that is replaced within a second after it was looked at is another build, also if nobody requests a page", async () => {
  for (const replaces of ["a file", "a link"]) {
    await using directories = await Directories.make();
    await directories.write("A", A);
    await directories.write("B", B);
    await Deno.symlink("A", directories.at("app"));
    const clock = new FakeClock(Date.now());
    const content = await openContent({
      directory: directories.at("app"),
      clock,
    });
    const first = await content.build();
    await clock.tick(1_000);
    const missing = new Request("http://app.example/assets/none-1.js");
    assertEquals((await answerWith(content, missing)).status, 404); // looks at the page
    if (replaces === "a link") {
      await Deno.remove(directories.at("app"));
      await Deno.symlink("B", directories.at("app"));
    } else await directories.replace("A", B);
    for (let seconds = 0; seconds < 3; seconds++) {
      await content.build();
      await clock.tick(1_000);
    }
    assertEquals(await content.build() === first, false, replaces);
    content.close();
  }
});

Deno.test("a build of which no file matches is a warning, once for each glob", async () => {
  const files = { "assets/js/a-1.js": "a", "static/a-1.js": "a" };
  const globs: Record<string, number> = {
    "assets/*": 1, // a glob of files, not of folders
    "asset/**": 1,
    "assets/**": 0,
    "assets/*,static/*": 0,
  };
  for (const [glob, warnings] of Object.entries(globs)) {
    await using directories = await Directories.make();
    await directories.write("app", buildOf("A", files));
    const options = { immutable: glob.split(",") };
    await using gateway = await serve(directories, "app", options);
    await directories.write("app", buildOf("B"));
    await gateway.lookAgain();
    assertMatch(await gateway.read("/"), /<title>B/);
    const logged = gateway.logged("rep.builds.empty");
    assertEquals(logged.length, warnings, glob);
    for (const { detail } of logged) {
      assertMatch(String(detail), /^no file of the build is kept: .*"\*\*"/);
      assertEquals(String(detail).endsWith(`got "${glob}"`), true);
    }
  }
});

Deno.test("a build is kept before the lists of other builds are read, of which there may be hundreds", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  await directories.write("keep/_", { "builds/other.json": "{}" });
  const { readTextFile } = Deno;
  using stack = new DisposableStack();
  stack.defer(() => Object.assign(Deno, { readTextFile }));
  const reading = Promise.withResolvers<string>();
  Object.assign(Deno, {
    readTextFile: (path: string) =>
      path.endsWith("other.json") ? reading.promise : readTextFile(path),
  });
  await using gateway = await serve(directories, "app");
  assertMatch(await gateway.read("/"), /<title>A/);
  const kept = ["assets/a-1.js", "assets/same-0.js"];
  assertEquals(await directories.kept(), kept);
  reading.resolve("{}");
});
