import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import {
  type FindFile,
  keepRule,
  listBuild,
} from "../../../src/content/builds/build_files.ts";
import type { FoundFile } from "../../../src/content/static/found_file.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { until } from "../../_time.ts";
import { Directories, serve } from "./_builds.ts";

Deno.test("keepRule() keeps what matches, with compressed variants, never pages, and source maps only if a glob names them", async () => {
  const table: [globs: string[], kept: string[], not: string[]][] = [
    [
      ["assets/*"],
      [
        "assets/a.js",
        "assets/a.js.br",
        "assets/a.js.zst",
        "assets/a.js.gz",
        "assets/a",
        "assets/b.tar.gz",
      ],
      [
        "a.js",
        "assets/d/a.js",
        "assets/a.js.map",
        "assets/a.js.map.gz",
        "assets/a.html",
        "assets/A.HTM",
        "assets/a.html.br",
        "assets/a.shtml",
      ],
    ],
    [["assets/*.js"], ["assets/a.js", "assets/a.js.br"], [
      "assets/a.css",
      "assets/a.js.map",
    ]],
    [["**/*.js", "**/*.map"], ["a.js", "x/y/a.js.map", "a.map.gz"], ["a.css"]],
    [["assets/*.{js,map}"], ["assets/a.js", "assets/a.js.map"], [
      "assets/a.css",
    ]],
    [["assets/*.gz"], ["assets/b.tar.gz"], ["assets/b.tar"]],
    [["**"], ["a.js", "deep/a"], ["index.html", "a.map", "about.html.gz"]],
  ];
  for (const [globs, kept, not] of table) {
    const isKept = await keepRule(globs);
    for (const key of kept) assertEquals(isKept(key), true, `${globs} ${key}`);
    for (const key of not) assertEquals(isKept(key), false, `${globs} ${key}`);
  }
});

Deno.test("links in a build are followed inside of it, and never outside", async () => {
  await using directories = await Directories.make();
  await directories.write("outside", {
    "secret.js": "secret",
    "dir/secret.js": "secret",
  });
  await directories.write("app", {
    "index.html": "<title>app</title>",
    "real/a-1.js": "a",
    "assets/b-2.js": "b",
  });
  const at = (name: string) => directories.at(`app/assets/${name}`);
  await Deno.symlink("../real/a-1.js", at("inside.js"));
  await Deno.symlink("../real", at("directory"));
  await Deno.symlink("../assets", at("loop"));
  await Deno.symlink(at("self"), at("self"));
  await Deno.symlink(directories.at("outside/secret.js"), at("outside.js"));
  await Deno.symlink(directories.at("outside/dir"), at("outside"));
  await Deno.symlink("nowhere", at("broken.js"));
  await using _gateway = await serve(directories, "app", {
    immutable: ["assets/**"],
  });
  assertEquals(await directories.kept(), [
    "assets/b-2.js",
    "assets/directory/a-1.js",
    "assets/inside.js",
    "assets/loop/b-2.js",
    "assets/loop/inside.js",
  ]);
  const texts = Object.values(await directories.read("keep"));
  assertEquals(
    texts.filter((text) => text.includes("secret.js") && !text.startsWith("{")),
    [],
  );
});

Deno.test("hostile names: what is not served is not kept, and the longest names are", async () => {
  await using directories = await Directories.make();
  const long = "l".repeat(252) + ".js";
  await directories.write("app", {
    "index.html": "<title>app</title>",
    "assets/new\nline.js": "x",
    "assets/back\\slash.js": "x",
    "assets/.hidden.js": "x",
    "assets/%2e%2e.js": "x",
    "assets/sp ace#?.js": "x",
    "assets/umläut.js": "x",
    [`assets/${long}`]: "x",
    "assets/__proto__": "x",
  });
  const script = `printf x > "$(printf '\\377.js')"`; // a name that is not UTF-8
  const cwd = directories.at("app/assets");
  await new Deno.Command("sh", { args: ["-c", script], cwd }).output();
  await using gateway = await serve(directories, "app");
  assertEquals(await gateway.problems(), undefined);
  assertEquals(await directories.kept(), [
    "assets/__proto__",
    `assets/${long}`,
    "assets/sp ace#?.js",
    "assets/umläut.js",
  ]);
  await directories.replace("app", { "index.html": "<title>B</title>" });
  await gateway.lookAgain();
  assertEquals(await gateway.read(`/assets/${long}`), "x");
  assertEquals(await gateway.read("/assets/sp%20ace%23%3F.js"), "x");
  assertEquals(await gateway.read("/assets/__proto__"), "x");
});

Deno.test("the gateway's own files are not kept", async () => {
  await using directories = await Directories.make();
  await directories.write("app", {
    "index.html": "<title>app</title>",
    "assets/a-1.js": "a",
    "assets/app.env": "REP_SERVER_KEY=secret",
    "assets/app.env.bak": "REP_SERVER_KEY=secret",
    "assets/kv.sqlite3": "secret",
  });
  await Deno.link(
    directories.at("app/assets/app.env"),
    directories.at("app/assets/linked.txt"),
  );
  const neverServed = ["app.env", "kv.sqlite3"].map((name) =>
    directories.at(`app/assets/${name}`)
  );
  await using _gateway = await serve(directories, "app", { neverServed });
  assertEquals(await directories.kept(), ["assets/a-1.js"]);
});

Deno.test("what cannot be read, or is replaced just now, is left out, and the rest of the build is not", async () => {
  await using directories = await Directories.make();
  await directories.write("app", {
    "assets/a-1.js": "a",
    "assets/b-2.js": "b",
    "assets/c-3.js": "c",
  });
  const stats = await Deno.stat(directories.at("app/assets/a-1.js"));
  const failures: Record<string, Error> = {
    "assets/b-2.js": new Deno.errors.PermissionDenied(),
    "assets/c-3.js": new Deno.errors.NotFound(),
  };
  const find: FindFile = (key) => {
    const failure = failures[key];
    if (failure !== undefined) return Promise.reject(failure);
    const path = directories.at(`app/${key}`);
    return Promise.resolve({ path, stats, lookedAt: 0, coding: "identity" });
  };
  const files = await listBuild(directories.at("app"), () => true, find);
  assertEquals([...files.keys()], ["assets/a-1.js"]);
});

Deno.test("a directory full of links is not followed without an end", async () => {
  await using directories = await Directories.make();
  await directories.write("app", { "assets/a-1.js": "a" });
  for (let index = 0; index < 60; index++) {
    await Deno.symlink("..", directories.at(`app/assets/${index}`));
  }
  const file = { lookedAt: 0 } as FoundFile;
  const find = (key: string) =>
    Promise.resolve(/\/\d+$/.test(key) ? "directory" as const : file);
  const files = await listBuild(directories.at("app"), () => true, find);
  assertEquals(files.size, 61);
});

Deno.test("a build of too many files is rejected", async () => {
  await using directories = await Directories.make();
  await Deno.mkdir(directories.at("app"));
  for (let index = 0; index < 240; index++) {
    await Deno.symlink(".", directories.at(`app/${index}`));
  }
  const found = { lookedAt: 0 } as FoundFile;
  const find = (key: string) =>
    Promise.resolve(key.includes("/") ? found : "directory" as const);
  const list = () => listBuild(directories.at("app"), () => true, find);
  await assertRejects(
    list,
    RangeError,
    "expected at most 50000 immutable files",
  );
});

Deno.test("20,000 files do not hold up the start for more than 10 s, and pages are served meanwhile", async () => {
  await using directories = await Directories.make();
  await directories.write("app", {
    "index.html": "<title>app</title>",
    "assets/a-1.js": "a",
  });
  for (let index = 0; index < 20_000; index++) {
    Deno.writeTextFileSync(directories.at(`app/assets/${index}.js`), "");
  }
  const clock = new FakeClock(Date.now());
  const starting = serve(directories, "app", {}, clock);
  await until(async () => (await directories.kept()).length > 0);
  await clock.tick(10_000);
  await using gateway = await starting;
  assertEquals((await directories.kept()).length < 20_001, true);
  assertEquals(await gateway.read("/assets/a-1.js"), "a");
  assertMatch(await gateway.read("/"), /<title>app/);
});
