import { assertEquals } from "@std/assert";
import { sriHash } from "../../../src/values/hash.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { TempDirectory } from "../../_temp.ts";
import { run, START } from "./_run.ts";

const PAGE =
  "<!doctype html><html><head><title>App</title></head><body></body></html>";
const ELEMENT =
  /<script id="__rep__" type="application\/json" data-rep-version="0.1.0" data-rep-integrity="([^"]*)">([^<]*)<\/script>/;

function payloadIn(html: string) {
  const [, integrity, text = ""] = ELEMENT.exec(html) ?? [];
  return { integrity, text, payload: JSON.parse(text) };
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
  assertEquals(await run(["inject", build.path], environment), {
    code: 0,
    out: [
      `${build.at("404.htm")}: injected`,
      `${build.at("index.html")}: injected`,
    ],
    err: [
      "Warning: SENSITIVE variables are left out: only a gateway issues the keys to read them",
    ],
  });
  const html = await Deno.readTextFile(build.at("index.html"));
  const { integrity, text, payload } = payloadIn(html);
  assertEquals(integrity, await sriHash(text));
  const { integrity: token, ...meta } = payload._meta;
  assertEquals([payload.public, meta], [
    { A: "</script>" },
    { version: "0.1.0", injected_at: new Date(START).toISOString(), ttl: 0 },
  ]);
  assertEquals(/^hmac-sha256:[A-Za-z0-9+/]{43}=$/.test(token), true);
  assertEquals(html.replace(ELEMENT, "|"), PAGE.replace("</head>", "|</head>"));
  assertEquals(
    (await Deno.readTextFile(build.at("404.htm"))).replace(ELEMENT, "|"),
    "|<p>Not found",
  );
  assertEquals(await Deno.readTextFile(build.at("app.js")), PAGE);
});

Deno.test("inject replaces the values of an earlier run, and changes nothing if they are the same", async () => {
  await using build = await TempDirectory.make({ "index.html": PAGE });
  const path = build.at("index.html");
  await run(["inject", build.path], { REP_PUBLIC_A: "1" });
  const first = await Deno.readTextFile(path);
  const later = new FakeClock(START + 60_000);
  assertEquals(
    (await run(["inject", build.path], { REP_PUBLIC_A: "1" }, later)).out,
    [`${path}: up to date`],
  );
  assertEquals(await Deno.readTextFile(path), first);
  assertEquals(
    (await run(["inject", build.path], { REP_PUBLIC_A: "2" }, later)).out,
    [`${path}: replaced`],
  );
  const second = await Deno.readTextFile(path);
  assertEquals(payloadIn(second).payload.public, { A: "2" });
  assertEquals(
    second.replace(ELEMENT, "|"),
    PAGE.replace("</head>", "|</head>"),
  );
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
  const invalid = await run(["inject", build.path, ...sources], {
    REP_PUBLIC_A: "x",
  });
  assertEquals([invalid.code, invalid.out, invalid.err], [1, [], [
    'Cannot use REP_PUBLIC_A: expected a number, got "x"',
  ]]);
  assertEquals(await Deno.readTextFile(build.at("index.html")), PAGE);
  assertEquals((await run(["inject", build.path, ...sources])).code, 0);
  const { payload } = payloadIn(
    await Deno.readTextFile(build.at("index.html")),
  );
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
  assertEquals(await run(["inject", page, "--manifest", manifest]), {
    code: 1,
    out: [],
    err: [
      `Cannot find REP_PUBLIC_A: the manifest "${manifest}" requires it, but it is not set`,
    ],
  });
  assertEquals(
    await run(["inject", page, "--manifest", manifest], {
      REP_PUBLIC_A: "1",
      REP_PUBLIC_B: "1",
    }),
    {
      code: 1,
      out: [],
      err: [
        `Cannot use REP_PUBLIC_B: the manifest "${manifest}" declares it as REP_SENSITIVE_B`,
      ],
    },
  );
  assertEquals(
    (await run(["inject", page, "--manifest", manifest], { REP_PUBLIC_A: "1" }))
      .code,
    0,
  );
  assertEquals(payloadIn(await Deno.readTextFile(page)).payload.public, {
    A: "1",
  });
});

Deno.test("inject warns of secrets, fails with --strict, and warns of compressed pages", async () => {
  await using build = await TempDirectory.make({
    "index.html": PAGE,
    "index.html.gz": "old",
  });
  const environment = { REP_PUBLIC_A: "AKIAIOSFODNN7EXAMPLE" };
  const strict = await run(["inject", "--strict", build.path], environment);
  assertEquals([strict.code, strict.err], [1, [
    "Cannot publish REP_PUBLIC_A in strict mode: the value looks like an AWS access key",
  ]]);
  assertEquals((await run(["inject", build.path], environment)).err, [
    "Warning: REP_PUBLIC_A: the value looks like an AWS access key",
    `Warning: ${
      build.at("index.html.gz")
    } has the previous page: compress it again, or delete it`,
  ]);
});

Deno.test("inject leaves a page in UTF-16 as it is, with a warning", async () => {
  await using build = await TempDirectory.make();
  const bytes = Uint8Array.of(0xff, 0xfe, 0x3c, 0, 0x70, 0, 0x3e, 0);
  await Deno.writeFile(build.at("a.html"), bytes);
  const { code, err } = await run(["inject", build.path]);
  assertEquals([code, err], [0, [
    `Warning: ${build.at("a.html")} is UTF-16, and is left as it is`,
  ]]);
  assertEquals(await Deno.readFile(build.at("a.html")), bytes);
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
    assertEquals(await run(["inject", build.path], { REP_PUBLIC_A: "1" }), {
      code: 0,
      out: [
        `${build.at("index.html")}: injected`,
        `${build.at("same.html")}: up to date`,
      ],
      err: [
        `Warning: ${
          build.at("linked.html")
        } is a link out of ${build.path}, and is left as it is`,
      ],
    });
    assertEquals(await Deno.readTextFile(other.at("shared.html")), PAGE);
    const rejected = await run(["inject", build.at("pipe.html")], {
      REP_PUBLIC_A: "1",
    });
    const expected = "expected a directory or a regular file";
    assertEquals([rejected.code, rejected.err], [1, [
      `Cannot read DIR "${build.at("pipe.html")}": ${expected}`,
    ]]);
    assertEquals(
      (await run(["inject", build.at("linked.html")], { REP_PUBLIC_A: "1" }))
        .code,
      0,
    ); // named itself
    assertEquals(
      await Deno.readTextFile(other.at("shared.html")) === PAGE,
      false,
    );
  },
});

Deno.test("inject exits with 1 without a page, and with 2 without a directory", async () => {
  await using build = await TempDirectory.make({ "app.js": "" });
  assertEquals(await run(["inject", build.path]), {
    code: 1,
    out: [],
    err: [`Cannot inject into ${build.path}: expected .html files, got none`],
  });
  assertEquals((await run(["inject"])).code, 2);
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
  assertEquals(
    (await run(args, environment, new FakeClock(START + 1_000))).out,
    [`${path}: up to date`],
  );
  assertEquals((await run(args, { REP_PUBLIC_A: "2" })).out, [
    `${path}: written`,
  ]);
});
