import { assertEquals } from "@std/assert";
import { dirname } from "@std/path";
import {
  MAX_SITE_BYTES,
  readSiteFolders,
} from "../../../src/command/sites/site_folder.ts";
import { denoFileSystem } from "../../../src/files/local_files.ts";
import { TempDirectory } from "../../_temp.ts";

/** Creates a directory with files in directories. */
async function makeSites(files: Record<string, string>) {
  const directory = await TempDirectory.make();
  for (const [name, text] of Object.entries(files)) {
    await Deno.mkdir(dirname(directory.at(name)), { recursive: true });
    await directory.write(name, text);
  }
  return directory;
}

/** Returns the sites in `sites/`, with paths relative to the directory. */
async function read(directory: TempDirectory, releases?: string) {
  const folders = await readSiteFolders({
    directory: directory.at("sites"),
    releases: releases && directory.at(releases),
    files: denoFileSystem,
    now: Date.now,
  });
  const relative = (path: string | undefined) =>
    path?.replace(`${directory.path}/`, "");
  return folders.map(({ name, envFile, manifest, dist, issues }) => ({
    name,
    has: [envFile, manifest, dist].map(relative).filter(Boolean),
    issues: issues.map((issue) => issue.replaceAll(`${directory.path}/`, "")),
  }));
}

Deno.test("readSiteFolders() returns what each site has, and neither files nor names with a dot in front", async () => {
  await using directory = await makeSites({
    "sites/shop.example.com/app.env": "",
    "sites/shop.example.com/.rep.yaml": "",
    "sites/shop.example.com/dist/index.html": "",
    "sites/default/other": "",
    "sites/.git/config": "",
    "sites/README.md": "",
  });
  assertEquals(await read(directory), [
    { name: "default", has: [], issues: [] },
    {
      name: "shop.example.com",
      has: ["app.env", ".rep.yaml", "dist"].map((name) =>
        `sites/shop.example.com/${name}`
      ),
      issues: [],
    },
  ]);
});

Deno.test("readSiteFolders() rejects a name that is no host", async () => {
  await using directory = await makeSites({ "sites/Shop.example.com/a": "" });
  const [site] = await read(directory);
  assertEquals(site?.issues, [
    'Cannot serve the site "Shop.example.com": expected a host such as shop.example.com, in lower case and in Punycode, without a port',
  ]);
});

Deno.test("readSiteFolders() rejects links to what belongs to another site, or lies outside", async () => {
  await using directory = await makeSites({
    "sites/a.example/app.env": "",
    "sites/b.example/x": "",
    "outside/app.env": "",
    "releases/1/index.html": "",
  });
  const at = (name: string) => directory.at(`sites/b.example/${name}`);
  await Deno.symlink("../a.example/app.env", at("app.env"));
  await Deno.symlink(directory.at("outside/app.env"), at(".rep.yaml"));
  await Deno.symlink(directory.at("releases/1"), at("dist"));
  const expected = (entry: string, target: string) =>
    `Cannot use "sites/b.example/${entry}": expected it in the directory of the site, got a link to "${target}"`;
  const issues = [
    expected("app.env", "sites/a.example/app.env"),
    expected(".rep.yaml", "outside/app.env"),
  ];
  const dist = expected("dist", "releases/1");
  const [, withoutReleases] = await read(directory);
  assertEquals(withoutReleases, {
    name: "b.example",
    has: [],
    issues: [...issues, dist],
  });
  const [, withReleases] = await read(directory, "releases");
  assertEquals(withReleases, {
    name: "b.example",
    has: ["sites/b.example/dist"],
    issues,
  });
});

Deno.test("readSiteFolders() accepts a directory that Kubernetes has mounted", async () => {
  await using directory = await makeSites({
    "sites/..2026_11_28/shop.example.com/app.env": "",
  });
  await Deno.symlink("..2026_11_28", directory.at("sites/..data"));
  await Deno.symlink(
    "..data/shop.example.com",
    directory.at("sites/shop.example.com"),
  );
  assertEquals(await read(directory), [{
    name: "shop.example.com",
    has: ["sites/shop.example.com/app.env"],
    issues: [],
  }]);
});

Deno.test("readSiteFolders() rejects a directory of another site in a version that Kubernetes has mounted", async () => {
  await using directory = await makeSites({
    "sites/..1/a.example/app.env": "",
    "sites/..1/b.example/app.env": "",
  });
  for (const name of ["a.example", "b.example"]) {
    await Deno.symlink(`..1/${name}`, directory.at(`sites/${name}`));
  }
  await Deno.symlink("../b.example", directory.at("sites/..1/a.example/dist"));
  const [site] = await read(directory);
  assertEquals(site?.issues, [
    'Cannot use "sites/a.example/dist": expected it in the directory of the site, got a link to "sites/..1/b.example"',
  ]);
});

Deno.test("readSiteFolders() looks at each file in a directory of variables", async () => {
  await using directory = await makeSites({
    "sites/a.example/app.env/REP_PUBLIC_A": "1",
    "sites/b.example/app.env/REP_SERVER_B": "2",
    "sites/c.example/app.env/REP_PUBLIC_A": "x".repeat(200_000),
    "sites/c.example/app.env/REP_PUBLIC_B": "x".repeat(200_000),
  });
  await Deno.symlink(
    "../../b.example/app.env/REP_SERVER_B",
    directory.at("sites/a.example/app.env/REP_PUBLIC_LEAK"),
  );
  const issues = (await read(directory)).map((site) => site.issues);
  assertEquals(issues, [
    [
      'Cannot use "sites/a.example/app.env/REP_PUBLIC_LEAK": expected it in the directory of the site, got a link to "sites/b.example/app.env/REP_SERVER_B"',
    ],
    [],
    [
      'Cannot read "sites/c.example/app.env": expected at most 262144 bytes, got 400000',
    ],
  ]);
});

Deno.test("readSiteFolders() does not take a directory for gone that cannot be read", async () => {
  await using directory = await makeSites({
    "sites/a.example/app.env": "",
    "sites/b.example/app.env": "",
  });
  const folders = await readSiteFolders({
    directory: directory.at("sites"),
    releases: undefined,
    files: {
      ...denoFileSystem,
      names(path) {
        if (!path.endsWith("b.example")) return denoFileSystem.names(path);
        return Promise.reject(new Error("Too many open files (os error 24)"));
      },
    },
    now: Date.now,
  });
  assertEquals(folders.map(({ name, issues }) => [name, issues.length]), [
    ["a.example", 0],
    ["b.example", 1],
  ]);
});

Deno.test("readSiteFolders() rejects a site alone whose directory of variables cannot be read, unless it is just replaced", async () => {
  await using directory = await makeSites({
    "sites/a.example/app.env/REP_PUBLIC_A": "",
    "sites/b.example/app.env/REP_PUBLIC_A": "",
    "sites/c.example/app.env/REP_PUBLIC_A": "",
  });
  const denied = directory.at("sites/a.example/app.env");
  const replaced = directory.at("sites/b.example/app.env");
  const folders = await readSiteFolders({
    directory: directory.at("sites"),
    releases: undefined,
    files: {
      ...denoFileSystem,
      names(path) {
        if (path === denied) {
          return Promise.reject(new Deno.errors.PermissionDenied("denied"));
        }
        if (path === replaced) {
          return Promise.reject(new Deno.errors.NotFound("replaced"));
        }
        return denoFileSystem.names(path);
      },
    },
    now: Date.now,
  });
  assertEquals(folders.map(({ name, issues }) => [name, issues]), [
    ["a.example", [`Cannot read "${denied}": denied`]],
    ["b.example", []],
    ["c.example", []],
  ]);
});

Deno.test("readSiteFolders() rejects a file that would stop the other sites while it is read", async () => {
  await using directory = await makeSites({
    "sites/a.example/app.env": "#".repeat(MAX_SITE_BYTES),
    "sites/b.example/app.env": "#".repeat(MAX_SITE_BYTES + 1),
  });
  const issues = (await read(directory)).map((site) => site.issues);
  assertEquals(issues, [[], [
    'Cannot read "sites/b.example/app.env": expected at most 262144 bytes, got 262145',
  ]]);
});

Deno.test("readSiteFolders() neither lists nor describes more than 1,000 variables in a directory", async () => {
  const variables = (site: string, count: number) =>
    Array.from(
      { length: count },
      (_, index) => [`sites/${site}/app.env/REP_PUBLIC_V${index}`, ""],
    );
  await using directory = await makeSites(Object.fromEntries([
    ...variables("a.example", 1_000),
    ...variables("b.example", 1_100),
  ]));
  await Deno.symlink(".", directory.at("sites/a.example/app.env/..data"));
  let stats = 0;
  let most = 0;
  const folders = await readSiteFolders({
    directory: directory.at("sites"),
    releases: undefined,
    files: {
      ...denoFileSystem,
      async names(path, max) {
        const names = await denoFileSystem.names(path, max);
        most = Math.max(most, names.length);
        return names;
      },
      stat(path) {
        if (path.includes("b.example")) stats++;
        return denoFileSystem.stat(path);
      },
    },
    now: Date.now,
  });
  const path = directory.at("sites/b.example/app.env");
  assertEquals(folders.map(({ issues }) => issues), [[], [
    `Cannot read "${path}": expected at most 1000 variables, got more than 1010 files`,
  ]]);
  assertEquals([stats, most], [1, 1_011]);
});
