import {
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import type { Environment } from "../../../src/core/config/variables/tiers.ts";
import { sriHash } from "../../../src/core/values/hash.ts";
import { TempDirectory } from "../../_temp.ts";
import { done, failed, run, START } from "./_run.ts";

const PAGE =
  "<!doctype html><html><head><title>App</title></head><body></body></html>";
const ELEMENT =
  /<script id="__rep__" type="application\/json" data-rep-version="0.1.0" data-rep-integrity="([^"]*)">([^<]*)<\/script>/;

const AFTER = PAGE.replace("</head>", "|</head>");

/** What is in the element of a page: its payload, and the page with a bar in its place. */
async function readInjected(path: string) {
  const html = await Deno.readTextFile(path);
  const [, integrity, text = ""] = ELEMENT.exec(html) ?? [];
  const payload = JSON.parse(text);
  return { integrity, text, payload, rest: html.replace(ELEMENT, "|") };
}

Deno.test("inject writes PUBLIC values into the pages of a build, and nothing else", async () => {
  await using build = await TempDirectory.make({
    "index.html": PAGE,
    "404.htm": "<p>Not found",
    "app.js": PAGE,
  });
  const environment = {
    REP_PUBLIC_A: "</script>",
    REP_SENSITIVE_S: "s3cret",
    REP_SERVER_X: "s3cret",
  };
  const [page, notFound] = [build.at("index.html"), build.at("404.htm")];
  assertEquals(await run(["inject", build.path], environment), {
    code: 0,
    out: [`${notFound}: injected`, `${page}: injected`],
    err: [
      "Warning: SENSITIVE variables are left out: only a gateway issues the keys to read them",
    ],
  });
  const { integrity, text, payload, rest } = await readInjected(page);
  assertEquals([integrity, rest], [await sriHash(text), AFTER]);
  const { integrity: token, ...meta } = payload._meta;
  assertEquals([payload.public, meta], [
    { A: "</script>" },
    { version: "0.1.0", injected_at: new Date(START).toISOString(), ttl: 0 },
  ]);
  assertMatch(token, /^hmac-sha256:[A-Za-z0-9+/]{43}=$/);
  assertEquals((await readInjected(notFound)).rest, "|<p>Not found");
  assertEquals(await Deno.readTextFile(build.at("app.js")), PAGE);
});

Deno.test("inject leaves pages in UTF-16 alone, and says so", async () => {
  const utf16 = Uint8Array.from(
    `\xff\xfe${[...PAGE].join("\0")}\0`,
    (it) => it.charCodeAt(0),
  );
  await using build = await TempDirectory.make({ "index.html": PAGE });
  const path = build.at("old.html");
  await Deno.writeFile(path, utf16);
  const time = new Date("2020-01-01");
  await Deno.utime(path, time, time);
  assertEquals(await run(["inject", build.path], { REP_PUBLIC_A: "1" }), {
    code: 0,
    out: [`${build.at("index.html")}: injected`],
    err: [
      `Warning: ${path} is left as it is: expected UTF-8, got UTF-16`,
    ],
  });
  assertEquals(await Deno.readFile(path), utf16);
  assertEquals((await Deno.stat(path)).mtime, time);
});

Deno.test("inject replaces the values of an earlier run", async () => {
  await using build = await TempDirectory.make({ "index.html": PAGE });
  const path = build.at("index.html");
  const inject = async (value: string) =>
    (await run(["inject", build.path], { REP_PUBLIC_A: value })).out;
  await inject("1");
  assertEquals(await inject("2"), [`${path}: injected`]);
  const { payload, rest } = await readInjected(path);
  assertEquals([payload.public, rest], [{ A: "2" }, AFTER]);
});

Deno.test("inject uses the manifest and env files, and rejects an invalid configuration before it writes", async () => {
  await using build = await TempDirectory.make({
    "index.html": PAGE,
    "rep.yaml":
      'version: "0.1.0"\nvariables: {A: {tier: public, type: number, default: 10}, B: {tier: public}}',
    "a.env": "REP_PUBLIC_B=from a\n",
    "b.env": "REP_PUBLIC_B=from b\n",
  });
  const sources = [
    "--manifest",
    build.at("rep.yaml"),
    "--env-file",
    build.at("a.env"),
    "--env-file",
    build.at("b.env"),
  ];
  const page = build.at("index.html");
  assertEquals(
    await run(["inject", page, ...sources], { REP_PUBLIC_A: "x" }),
    failed('Cannot use REP_PUBLIC_A: expected a number, got "x"'),
  );
  assertEquals(await Deno.readTextFile(page), PAGE);
  assertEquals((await run(["inject", page, ...sources])).code, 0);
  const { payload } = await readInjected(page);
  assertEquals(payload.public, { A: "10", B: "from b" });
});

Deno.test("inject requires variables of the PUBLIC tier only", async () => {
  await using build = await TempDirectory.make({
    "index.html": PAGE,
    "rep.yaml": `version: "0.1.0"
variables:
  A: { tier: public, required: true }
  B: { tier: sensitive, required: true }
  C: { tier: server, required: true }
`,
  });
  const [page, manifest] = [build.at("index.html"), build.at("rep.yaml")];
  const inject = (environment: Environment) =>
    run(["inject", page, "--manifest", manifest], environment);
  assertEquals(
    await inject({}),
    failed(
      `Cannot find REP_PUBLIC_A: the manifest "${manifest}:3" requires it, but it is not set`,
    ),
  );
  assertEquals(
    await inject({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" }),
    failed(
      `Cannot use REP_PUBLIC_B: the manifest "${manifest}:4" declares it as REP_SENSITIVE_B`,
    ),
  );
  assertEquals((await inject({ REP_PUBLIC_A: "1" })).code, 0);
  assertEquals((await readInjected(page)).payload.public, { A: "1" });
});

Deno.test("inject warns of secrets, fails with --strict, and warns of compressed pages", async () => {
  await using build = await TempDirectory.make({
    "index.html": PAGE,
    "index.html.gz": "old",
  });
  const environment = { REP_PUBLIC_A: "AKIAIOSFODNN7EXAMPLE" };
  const secret =
    "the value looks like an AWS access key; if it is meant to be public, add A to --accept-public (in code: acceptPublic)";
  assertEquals(
    await run(["inject", "--strict", build.path], environment),
    failed(`Cannot publish REP_PUBLIC_A in strict mode: ${secret}`),
  );
  const compressed = build.at("index.html.gz");
  assertEquals((await run(["inject", build.path], environment)).err, [
    `Warning: REP_PUBLIC_A: ${secret}`,
    `Warning: ${compressed} contains the previous page: compress it again, or delete it`,
  ]);
});

Deno.test("inject says once for each build of Angular's service worker that its hashes are outdated", async () => {
  await using build = await TempDirectory.make();
  await Deno.mkdir(build.at("de"));
  await Deno.mkdir(build.at("other"));
  for (const name of ["index.html", "index.csr.html", "ngsw.json"]) {
    await build.write(name, PAGE);
    await build.write(`de/${name}`, PAGE);
  }
  await build.write("other/index.html", PAGE);
  const warning = (folder: string) =>
    `Warning: ${folder}/ngsw.json contains the hashes of the previous files: update it with "npx ngsw-config ${folder} ngsw-config.json", followed by the build's base href`;
  const cases: [args: string[], folders: string[]][] = [
    [[build.path], [build.at("de"), build.path]],
    [[build.at("index.html")], [build.path]],
    [[build.at("other")], []],
    [["--config-js", build.at("de/config.js")], [build.at("de")]],
  ];
  for (const [args, folders] of cases) {
    const { code, err } = await run(["inject", ...args], { REP_PUBLIC_A: "1" });
    assertEquals([code, err], [0, folders.map(warning)]);
  }
});

Deno.test("inject accepts values that are meant to be public", async () => {
  await using build = await TempDirectory.make({ "index.html": PAGE });
  const environment = { REP_PUBLIC_A: "AKIAIOSFODNN7EXAMPLE" };
  const args = ["inject", "--strict", "--accept-public", "A,B", build.path];
  const { code, err } = await run(args, environment);
  assertEquals([code, err], [0, []]);
});

Deno.test({
  name: "inject follows no link out of the build, and waits for no pipe",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using other = await TempDirectory.make({ "shared.html": PAGE });
    await using build = await TempDirectory.make({ "index.html": PAGE });
    await Deno.symlink(other.at("shared.html"), build.at("linked.html"));
    await Deno.symlink("index.html", build.at("same.html"));
    await new Deno.Command("mkfifo", { args: [build.at("pipe.html")] })
      .output();
    const [page, linked, pipe] = ["index", "linked", "pipe"]
      .map((name) => build.at(`${name}.html`));
    const inject = (path = "") => run(["inject", path], { REP_PUBLIC_A: "1" });
    assertEquals(await inject(build.path), done([`${page}: injected`]));
    const shared = other.at("shared.html");
    assertEquals(await Deno.readTextFile(shared), PAGE);
    const { code, err } = await inject(pipe);
    assertEquals(code, 1);
    assertStringIncludes(err.join(), `Cannot read DIR "${pipe}": ENOTDIR`);
    assertEquals((await inject(linked)).code, 0); // named itself
    assertNotEquals(await Deno.readTextFile(shared), PAGE);
  },
});

Deno.test("inject exits with 1 without a page, and with 2 without a directory", async () => {
  await using build = await TempDirectory.make({ "app.js": "" });
  assertEquals(
    await run(["inject", build.path]),
    failed(`Cannot inject into ${build.path}: expected .html files, got none`),
  );
  assertEquals((await run(["inject"])).code, 2);
});

Deno.test("inject says which directory does not exist", async () => {
  assertEquals(
    await run(["inject", "/missing"]),
    failed(
      `Cannot read DIR "/missing": ENOENT: no such file or directory, stat '/missing'`,
    ),
  );
});

/** Runs a script in a page, and returns the element that it adds. */
function runInPage(script: string) {
  const appended: {
    id: string;
    type: string;
    textContent: string;
    dataset: Record<string, string>;
  }[] = [];
  const document = {
    createElement: () => ({ dataset: {} }),
    getElementById: () => appended[0] && { remove: () => appended.pop() },
    head: { append: (element: typeof appended[0]) => appended.push(element!) },
  };
  new Function("document", script)(document);
  return appended;
}

Deno.test("inject --config-js writes a script that adds the element to a page, with or without DIR", async () => {
  await using build = await TempDirectory.make();
  const path = build.at("config.js");
  const args = ["inject", "--config-js", path];
  const environment = { REP_PUBLIC_A: '</script>"\\\u2028é' };
  assertEquals(await run(args, environment), {
    code: 0,
    out: [`${path}: written`],
    err: [],
  });
  const script = await Deno.readTextFile(path);
  const [element, ...others] = runInPage(`${script}${script}`);
  if (element === undefined) throw new Error("The script added no element");
  assertEquals([others, element.id, element.type], [
    [],
    "__rep__",
    "application/json",
  ]);
  assertEquals(element.dataset, {
    repVersion: "0.1.0",
    repIntegrity: await sriHash(element.textContent),
  });
  assertEquals(JSON.parse(element.textContent).public, {
    A: environment.REP_PUBLIC_A,
  });
});
