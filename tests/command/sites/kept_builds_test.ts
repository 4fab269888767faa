import { assertEquals } from "@std/assert";
import { html, serveSites } from "./_sites.ts";

const ARGS = [
  "--immutable=assets/*",
  "--keep-builds=%/keep",
  "--static-dir=%/app",
];

/** Two sites with builds of their own, and two that share the build of the command. */
const FILES = {
  "app/index.html": html("shared"),
  "app/assets/s-1.js": "shared",
  "sites/shop.example/dist/index.html": html("shop"),
  "sites/shop.example/dist/assets/p-1.js": "shop",
  "sites/blog.example/dist/index.html": html("blog"),
  "sites/blog.example/dist/assets/b-1.js": "blog",
  "sites/one.example/app.env": "REP_PUBLIC_NAME=one",
  "sites/two.example/app.env": "REP_PUBLIC_NAME=two",
};

async function namesIn(path: string, prefix = ""): Promise<string[]> {
  const names: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(path)) {
    if (!isDirectory) names.push(prefix + name);
    else names.push(...await namesIn(`${path}/${name}`, `${prefix}${name}/`));
  }
  return names.toSorted();
}

async function text(response: Response): Promise<string> {
  const body = await response.text();
  return response.ok ? body : String(response.status);
}

Deno.test("each site keeps its builds in a folder of its own, and a build that all sites share is kept once", async () => {
  await using sites = await serveSites({ files: FILES, args: ARGS });
  const kept = (await namesIn(sites.at("keep")))
    .filter((name) => name.includes("/files/"));
  assertEquals(kept, [
    "_/files/assets/s-1.js",
    "blog.example/files/assets/b-1.js",
    "shop.example/files/assets/p-1.js",
  ]);
  for (const path of ["app", "sites/shop.example/dist"]) {
    await Deno.remove(sites.at(`${path}/assets`), { recursive: true });
    await sites.write({ [`${path}/index.html`]: html("new") });
  }
  await sites.clock.tick(1_000);
  const table: [host: string, path: string, expected: string][] = [
    ["shop.example", "/assets/p-1.js", "shop"],
    ["shop.example", "/assets/s-1.js", "404"],
    ["shop.example", "/assets/b-1.js", "404"],
    ["blog.example", "/assets/p-1.js", "404"],
    ["one.example", "/assets/s-1.js", "shared"],
    ["two.example", "/assets/s-1.js", "shared"],
    ["two.example", "/assets/p-1.js", "404"],
  ];
  for (const [host, path, expected] of table) {
    assertEquals(
      await text(await sites.ask(host, path)),
      expected,
      host + path,
    );
  }
  const metrics = await text(await sites.internal("/metrics"));
  const lines = metrics.split("\n").filter((line) =>
    /^rep_builds_(?:files|hits_total)\{/.test(line)
  );
  assertEquals(lines.toSorted(), [
    'rep_builds_files{site="blog.example"} 1',
    'rep_builds_files{site="one.example"} 1',
    'rep_builds_files{site="shop.example"} 1',
    'rep_builds_files{site="two.example"} 1',
    'rep_builds_hits_total{site="one.example"} 1',
    'rep_builds_hits_total{site="shop.example"} 1',
    'rep_builds_hits_total{site="two.example"} 1',
  ]);
});

Deno.test("a site whose builds cannot be kept has the problem, and the others have not", async () => {
  const files = { ...FILES, "keep/shop.example/owner": "Bob" };
  await using sites = await serveSites({ files, args: ARGS });
  const report = await (await sites.internal("/rep/health")).json();
  const problems = Object.entries<{ problems?: string[] }>(report.sites)
    .map(([name, { problems }]) => [name, problems]);
  assertEquals(problems, [
    ["shop.example", ["builds_not_kept"]], // first, since it has a problem
    ["blog.example", undefined],
    ["one.example", undefined],
    ["two.example", undefined],
  ]);
});

Deno.test("sites without static files of any kind keep nothing", async () => {
  const files = { "sites/one.example/app.env": "REP_PUBLIC_NAME=one" };
  const args = ["--immutable=assets/*", "--keep-builds=%/keep"];
  await using sites = await serveSites({ files, args });
  assertEquals((await sites.ask("one.example", "/rep/health")).status, 200);
});
