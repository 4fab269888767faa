import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { captureLog } from "../../_gateway.ts";
import { TempDirectory } from "../../_temp.ts";
import { answerWith, openContent } from "./_content.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

/** A served directory with files of the gateway in it, and a way to read it. */
async function serve(
  files: Record<string, string>,
  paths: readonly string[],
  cacheBytes = 1_000_000,
) {
  const directory = await TempDirectory.make();
  for (
    const [name, text] of Object.entries({ "index.html": "index", ...files })
  ) {
    await Deno.mkdir(directory.at(`${name}/..`), { recursive: true }).catch(
      () => {},
    );
    await Deno.mkdir(directory.at(name).replace(/\/[^/]+$/, ""), {
      recursive: true,
    });
    await directory.write(name, text);
  }
  const [clock, { log, lines }] = [new FakeClock(Date.now()), captureLog()];
  const neverServed = () =>
    Promise.resolve(paths.map((path) => directory.at(path)));
  const content = await openContent({
    directory: directory.path,
    clock,
    log,
    cacheBytes,
    neverServed,
  });
  return {
    directory,
    clock,
    lines,
    async read(path: string, headers: HeadersInit = {}): Promise<string> {
      const response = await answerWith(
        content,
        new Request(`http://app.example${path}`, { headers }),
      );
      const text = await response.text();
      return response.status < 400 ? text : String(response.status);
    },
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
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
    const paths = [
      "/app.env",
      "/config/REP_SERVER_A",
      "/config/sub/x",
      "/app.js",
      "/config",
      "/configuration",
    ];
    assertEquals(await Promise.all(paths.map((path) => site.read(path))), [
      "404",
      "404",
      "404",
      "1",
      "index",
      "index",
    ]);
  });
}

Deno.test("neverServed: neither a link nor a hard link to a file is served, and no file that is behind a link", async () => {
  await using site = await serve({
    "app.env": "secret",
    "config/v1": "secret",
    "real.txt": "secret",
  }, [
    "app.env",
    "link",
    "config",
  ]);
  const { directory } = site;
  await Deno.symlink("real.txt", directory.at("link"));
  await Deno.symlink("app.env", directory.at("to_file"));
  await Deno.symlink("config", directory.at("to_directory"));
  await Deno.link(directory.at("app.env"), directory.at("hard.txt"));
  site.clock.pass(1_000);
  const paths = [
    "/to_file",
    "/to_directory/v1",
    "/hard.txt",
    "/link",
    "/real.txt",
  ];
  assertEquals(
    await Promise.all(paths.map((path) => site.read(path))),
    paths.map(() => "404"),
  );
});

Deno.test("neverServed: no file is served as a compressed variant of another one", async () => {
  await using site = await serve({ "app.js": "1", "app.js.br": "secret" }, [
    "app.js.br",
  ]);
  assertEquals(await site.read("/app.js", { "accept-encoding": "br" }), "1");
});

Deno.test("neverServed: a file that is created or replaced later is not served either", async () => {
  await using site = await serve({ "app.env": "secret" }, [
    "app.env",
    "kv-wal",
  ]);
  assertEquals([await site.read("/app.env"), await site.read("/kv-wal")], [
    "404",
    "index",
  ]);
  site.clock.pass(999);
  await site.directory.write("kv-wal", "secret");
  await site.directory.write("new.env", "secret");
  await Deno.rename(site.directory.at("new.env"), site.directory.at("app.env"));
  site.clock.pass(1);
  for (let ms = 0; ms < 3_000; ms += 500) {
    assertEquals([await site.read("/app.env"), await site.read("/kv-wal")], [
      "404",
      "404",
    ]);
    site.clock.pass(500);
  }
});

Deno.test("neverServed: a file that takes the place of one of them is not served, not even within a second", async () => {
  await using site = await serve({
    "..1/app.env": "secret",
    "..2/app.env": "secret",
  }, ["app.env"]);
  const { directory } = site; // as a mounted ConfigMap
  await Deno.symlink("..1", directory.at("..data"));
  await Deno.symlink("..data/app.env", directory.at("app.env"));
  site.clock.pass(1_000);
  assertEquals(await site.read("/"), "index");
  await Deno.symlink("..2", directory.at("..new"));
  await Deno.rename(directory.at("..new"), directory.at("..data"));
  assertEquals(await site.read("/app.env"), "404");
});

Deno.test("neverServed: a file that is served already is not, a second after it becomes one of them", async () => {
  await using site = await serve({ "a.txt": "a" }, ["link"]);
  assertEquals(await site.read("/a.txt"), "a");
  await Deno.symlink("a.txt", site.directory.at("link"));
  site.clock.pass(1_000);
  assertEquals(await site.read("/a.txt"), "404");
});

Deno.test("neverServed: a start with files in the directory logs a warning that names them", async () => {
  await using site = await serve({ "app.env": "secret", "kv": "secret" }, [
    "app.env",
    "kv",
    "kv-wal",
    "../outside",
  ]);
  const path = await Deno.realPath(site.directory.path);
  const detail =
    `never served, although in the served directory: "${path}/app.env", "${path}/kv"; expected them elsewhere`;
  assertEquals(
    site.lines.map(({ level, msg, detail }) => ({ level, msg, detail })),
    [
      { level: "WARN", msg: "rep.start.warning", detail },
    ],
  );
});

Deno.test("neverServed: a file that a link to another directory will make one of them is not served before it does", async () => {
  await using site = await serve({
    "c1/app.env": "secret",
    "c2/app.env": "secret",
  }, ["config/app.env"]);
  await Deno.symlink("c1", site.directory.at("config"));
  site.clock.pass(1_000);
  const paths = ["/config/app.env", "/c1/app.env", "/c2/app.env"];
  const statuses = () => Promise.all(paths.map((path) => site.read(path)));
  assertEquals(await statuses(), ["404", "404", "404"]);
});

Deno.test("neverServed: a hard link to a file that was replaced is not served", async () => {
  await using site = await serve({ "app.env": "secret" }, ["app.env"]);
  const { directory } = site;
  await Deno.link(directory.at("app.env"), directory.at("hard.txt"));
  for (let version = 1; version <= 3; version++) {
    await directory.write("new", `secret ${version}`);
    await Deno.rename(directory.at("new"), directory.at("app.env"));
    site.clock.pass(1_000);
    assertEquals(await site.read("/hard.txt"), "404");
  }
});

Deno.test("neverServed: a new file is served, also if it has the inode of one of them that is gone", async () => {
  await using site = await serve({}, ["app.env"]);
  const { directory } = site;
  for (let i = 0; i < 50; i++) { // some file systems use inodes again at once, others never
    await directory.write("app.env", "secret");
    site.clock.pass(1_000);
    assertEquals(await site.read("/app.env"), "404");
    const secret = await Deno.stat(directory.at("app.env"));
    await Deno.remove(directory.at("app.env"));
    await directory.write(`${i}.txt`, "new");
    const { ino, birthtime } = await Deno.stat(directory.at(`${i}.txt`));
    const isSameTick = birthtime?.getTime() === secret.birthtime?.getTime();
    if (ino === secret.ino && isSameTick) continue; // nothing tells them apart
    assertEquals(await site.read(`/${i}.txt`), "new");
  }
});

const BACKUPS = [
  "app.env~",
  "app.env.bak",
  "app.env.2026-11-22",
  "app.env.gz",
  "app.env (1)",
  "docs/app.env",
];
const OTHER_FILES = ["app.environment", "my-app.env.txt", "app.js", "rep.yaml"];

Deno.test("neverServed: a backup of a file in the directory is not served, by its name", async () => {
  const names = [...BACKUPS, ...OTHER_FILES];
  const files = Object.fromEntries(names.map((name) => [name, name]));
  await using site = await serve(
    { "app.env": "secret", ...files },
    ["app.env", "../elsewhere/rep.yaml"],
  );
  const read = await Promise.all(names.map((name) => site.read(`/${name}`)));
  assertEquals(read, [...BACKUPS.map(() => "404"), ...OTHER_FILES]);
});

Deno.test("neverServed: a link out of the directory bars its own name, and not that of the file that it leads to", async () => {
  await using other = await TempDirectory.make({ "manifest.json": "secret" });
  await using site = await serve(
    { "manifest.json": "app", "docs/rep.yaml": "copy" },
    ["rep.yaml"],
  );
  await Deno.symlink(other.at("manifest.json"), site.directory.at("rep.yaml"));
  site.clock.pass(1_000);
  const paths = ["/rep.yaml", "/docs/rep.yaml", "/manifest.json"];
  const read = await Promise.all(paths.map((path) => site.read(path)));
  assertEquals(read, ["404", "404", "app"]);
});
