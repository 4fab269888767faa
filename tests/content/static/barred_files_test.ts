import { assertEquals, assertRejects } from "@std/assert";
import { BarredFiles } from "../../../src/content/static/barred_files.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { TempDirectory } from "../../_temp.ts";
import { serveSite } from "./_content.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

/** Serves a page and files, of which some are the gateway's own. */
function serve(
  files: Record<string, string>,
  neverServed: readonly string[],
  cacheBytes = 1_000_000,
) {
  const all = { "index.html": "index", ...files };
  return serveSite(all, { neverServed, cacheBytes });
}

for (const cacheBytes of [0, 1_000_000]) {
  Deno.test(`neverServed: files and directories are not served, with a cache of ${cacheBytes} bytes`, async () => {
    const files = {
      "app.env": "secret",
      "config/REP_SERVER_A": "secret",
      "config/sub/x": "secret",
      "app.js": "1",
    };
    await using site = await serve(files, ["app.env", "config"], cacheBytes);
    const own = ["/app.env", "/config/REP_SERVER_A", "/config/sub/x"];
    assertEquals(await site.readAll(own), ["404", "index", "index"]); // as if they were absent
    const others = ["/app.js", "/config", "/configuration"];
    assertEquals(await site.readAll(others), ["1", "index", "index"]);
  });
}

Deno.test("neverServed: neither a link nor a hard link to a file is served, and no file that is behind a link", async () => {
  const files = {
    "app.env": "secret",
    "config/v1": "secret",
    "real.txt": "secret",
  };
  await using site = await serve(files, ["app.env", "link", "config"]);
  await Deno.symlink("real.txt", site.at("link"));
  await Deno.symlink("app.env", site.at("to_file"));
  await Deno.symlink("config", site.at("to_directory"));
  await Deno.link(site.at("app.env"), site.at("hard.txt"));
  site.clock.pass(1_000);
  for (const path of ["/to_file", "/to_directory/v1", "/link"]) {
    assertEquals(await site.read(path), "index", path); // as if it were absent
  }
  assertEquals(await site.readAll(["/hard.txt", "/real.txt"]), ["404", "404"]);
});

Deno.test("neverServed: no file is served as a compressed variant of another one", async () => {
  const files = { "app.js": "1", "app.js.br": "secret" };
  await using site = await serve(files, ["app.js.br"]);
  assertEquals(await site.read("/app.js", { "accept-encoding": "br" }), "1");
});

Deno.test("neverServed: a file that is created or replaced later is not served either", async () => {
  const own = ["app.env", "kv.wal"];
  await using site = await serve({ "app.env": "secret" }, own);
  const readOwn = () => site.readAll(["/app.env", "/kv.wal"]);
  assertEquals(await readOwn(), ["404", "404"]);
  site.clock.pass(999);
  await site.write("kv.wal", "secret");
  await site.write("new.env", "secret");
  await Deno.rename(site.at("new.env"), site.at("app.env"));
  site.clock.pass(1);
  for (let ms = 0; ms < 3_000; ms += 500) {
    assertEquals(await readOwn(), ["404", "404"]);
    site.clock.pass(500);
  }
});

Deno.test("neverServed: a file that takes the place of one of them is not served, not even within a second", async () => {
  const files = { "..1/app.env": "secret", "..2/app.env": "secret" };
  await using site = await serve(files, ["app.env"]);
  // As a mounted ConfigMap:
  await Deno.symlink("..1", site.at("..data"));
  await Deno.symlink("..data/app.env", site.at("app.env"));
  site.clock.pass(1_000);
  assertEquals(await site.read("/"), "index");
  await Deno.symlink("..2", site.at("..new"));
  await Deno.rename(site.at("..new"), site.at("..data"));
  assertEquals(await site.read("/app.env"), "404");
});

Deno.test("neverServed: a file that is served already is not, a second after it becomes one of them", async () => {
  await using site = await serve({ "a.txt": "a" }, ["link"]);
  assertEquals(await site.read("/a.txt"), "a");
  await Deno.symlink("a.txt", site.at("link"));
  site.clock.pass(1_000);
  assertEquals(await site.read("/a.txt"), "404");
});

Deno.test("neverServed: a file that an editor has renamed to a backup is not served before the new one is written", async () => {
  await using site = await serve({ "app.env": "secret" }, ["app.env"]);
  await Deno.rename(site.at("app.env"), site.at("app.env~"));
  site.clock.pass(1_000);
  assertEquals(await site.read("/app.env~"), "404");
});

Deno.test("BarredFiles lists the files again at once if that failed", async () => {
  let isFailing = true;
  const list = () =>
    isFailing
      ? Promise.reject(new Deno.errors.NotFound("replaced just now"))
      : Promise.resolve([]);
  const barred = new BarredFiles(list, new FakeClock());
  await assertRejects(() => barred.findIn("/"), Deno.errors.NotFound);
  isFailing = false;
  assertEquals(await barred.findIn("/"), []);
});

Deno.test("neverServed: a start with files in the directory logs a warning that names them", async () => {
  const files = { "app.env": "secret", "kv": "secret" };
  const own = ["app.env", "kv", "kv-wal", "../outside"];
  await using site = await serve(files, own);
  const path = await Deno.realPath(site.at());
  const detail =
    `the served directory contains files that are never served: "${path}/app.env", "${path}/kv"; expected them elsewhere`;
  assertEquals(
    site.lines.map(({ level, msg, detail }) => [level, msg, detail]),
    [["WARN", "rep.start.warning", detail]],
  );
});

Deno.test("neverServed: a file that a link to another directory will make one of them is not served before it does", async () => {
  const files = { "c1/app.env": "secret", "c2/app.env": "secret" };
  await using site = await serve(files, ["config/app.env"]);
  await Deno.symlink("c1", site.at("config"));
  site.clock.pass(1_000);
  const paths = ["/config/app.env", "/c1/app.env", "/c2/app.env"];
  assertEquals(await site.readAll(paths), ["404", "404", "404"]);
});

Deno.test("neverServed: a second after a file is gone, a new one with its inode is served", async () => {
  await using site = await serve({}, ["app.env"]);
  for (let i = 0; i < 50; i++) { // some file systems use inodes again at once, others never
    await site.write("app.env", "secret");
    site.clock.pass(1_000);
    assertEquals(await site.read("/app.env"), "404");
    await Deno.remove(site.at("app.env"));
    await site.write(`${i}.txt`, "new");
    site.clock.pass(1_000);
    assertEquals(await site.read(`/${i}.txt`), "new");
  }
});

const BACKUPS = [
  "app.env~",
  "app.env.bak",
  "app.env.2026-11-22",
  "app.env.gz",
  "app.env (1)",
  "#app.env#",
  "docs/app.env",
];
const OTHER_FILES = [
  "app.environment",
  "#app.environment#",
  "my-app.env.txt",
  "app.js",
  "rep.yaml",
];

Deno.test("neverServed: a backup of a file in the directory is not served, by its name", async () => {
  const names = [...BACKUPS, ...OTHER_FILES];
  const files = Object.fromEntries(names.map((name) => [name, name]));
  await using site = await serve(
    { "app.env": "secret", ...files },
    ["app.env", "../elsewhere/rep.yaml"],
  );
  const paths = names.map((name) => `/${name.replaceAll("#", "%23")}`);
  const read = await site.readAll(paths);
  assertEquals(read, [...BACKUPS.map(() => "404"), ...OTHER_FILES]);
});

Deno.test("neverServed: a link out of the directory bars its own name, and not that of the file that it leads to", async () => {
  await using other = await TempDirectory.make({ "manifest.json": "secret" });
  await using site = await serve(
    { "manifest.json": "app", "docs/rep.yaml": "copy" },
    ["rep.yaml"],
  );
  await Deno.symlink(other.at("manifest.json"), site.at("rep.yaml"));
  site.clock.pass(1_000);
  const paths = ["/rep.yaml", "/docs/rep.yaml", "/manifest.json"];
  assertEquals(await site.readAll(paths), ["404", "404", "app"]);
});

Deno.test("neverServed: a link out of the directory bars its own name, also if its path reaches the directory through a link", async () => {
  await using directory = await TempDirectory.make({ "rep.yaml": "secret" });
  const path = await Deno.realPath(directory.path);
  await Deno.mkdir(`${path}/v1`);
  await Deno.symlink("v1", `${path}/current`);
  await Deno.symlink(`${path}/rep.yaml`, `${path}/v1/rep.yaml`);
  const barred = new BarredFiles(
    () => Promise.resolve([`${path}/current/rep.yaml`]),
    new FakeClock(),
  );
  const root = `${path}/v1`;
  const copy = await directory.write("v1/rep.yaml.bak", "copy");
  const stats = await Deno.stat(copy);
  const isBarred = await barred.includes(`${root}/rep.yaml.bak`, stats, root);
  assertEquals(isBarred, true);
});
