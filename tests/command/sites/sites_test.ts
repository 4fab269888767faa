import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { ConfigurationError } from "../../../src/core/config/variables/snapshot.ts";
import { createGateway } from "../../../src/gateway.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { serveUploads } from "../../_slow_upload.ts";
import { fallibleStore, interceptedStore } from "../../_store.ts";
import { runWith } from "../commands/_run.ts";
import { html, serveSites } from "./_sites.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

const WATCH = "--hot-reload-mode=file_watch";

/** Returns the beginning of a stream, up to what contains a text. */
async function readUntil({ body }: Response, end: string): Promise<string> {
  let text = "";
  for await (const part of body!.pipeThrough(new TextDecoderStream())) {
    text += part;
    if (text.includes(end)) break;
  }
  return text;
}

Deno.test("each host has the page and the values of its site; a host without one gets 421", async () => {
  await using sites = await serveSites({
    args: ["--static-dir=%/dist"],
    base: { REP_PUBLIC_A: "base", REP_PUBLIC_B: "base" },
    files: {
      "dist/index.html": html("shared"),
      "sites/shop.example.com/app.env": "REP_PUBLIC_A=shop\n",
      "sites/blog.example.com/app.env": "REP_PUBLIC_A=blog\n",
      "sites/blog.example.com/dist/index.html": html("blog"),
    },
  });
  const shop = { title: "shared", A: "shop", B: "base" };
  const blog = { title: "blog", A: "blog", B: "base" };
  assertEquals(await sites.read("shop.example.com"), shop);
  assertEquals(await sites.read("Shop.Example.com:8080"), shop);
  assertEquals(await sites.read("shop.example.com."), shop);
  assertEquals(await sites.read("blog.example.com"), blog);
  for (const host of ["other.example.com", "example.com", "127.0.0.1"]) {
    assertEquals(await sites.read(host), 421);
  }
});

Deno.test("the site `default` answers any other host, with the hosts that the command allows", async () => {
  await using sites = await serveSites({
    args: ["--static-dir=%/dist", "--allowed-hosts=*.example.com"],
    files: {
      "dist/index.html": html("shared"),
      "sites/shop.example.com/app.env": "REP_PUBLIC_A=shop\n",
      "sites/default/app.env": "REP_PUBLIC_A=default\n",
    },
  });
  const rest = { title: "shared", A: "default" };
  assertEquals(await sites.read("other.example.com"), rest);
  assertEquals(await sites.read("other.example.org"), 421);
});

Deno.test("the host is what a trusted proxy says, and never what anybody else does", async () => {
  await using sites = await serveSites({
    args: ["--trusted-proxies=10.0.0.1"],
    files: {
      "sites/a.example/app.env": "REP_SENSITIVE_KEY=a\n",
      "sites/b.example/app.env": "REP_PUBLIC_A=1\n",
    },
  });
  const forwarded = { "x-forwarded-host": "a.example" };
  async function statusFrom(peer: string) {
    const path = "/rep/session-key";
    const response = await sites.ask("b.example", path, forwarded, peer);
    await response.body?.cancel();
    return response.status;
  }
  assertEquals(await statusFrom("10.0.0.1"), 200);
  assertEquals(await statusFrom("10.0.0.2"), 404); // b.example has no SENSITIVE variable
});

Deno.test("health is that of the site under its host, of the process under any other, and of all on the internal port", async () => {
  await using sites = await serveSites({
    files: {
      "sites/a.example/app.env": "REP_PUBLIC_A=1\nREP_PUBLIC_B=1\n",
      "sites/wrong.example/app.env": "REP_PUBLIC_A\n",
      "sites/default/app.env": "REP_PUBLIC_A=1\n",
    },
  });
  const health = async (host: string) =>
    await (await sites.ask(host, "/rep/health")).json();
  const site = await health("a.example");
  assertEquals([site.status, site.variables.public], ["healthy", 2]);
  const process = await health("127.0.0.1");
  assertEquals([process.status, process.problems], [
    "degraded",
    ["site_rejected"],
  ]);
  assertEquals(JSON.stringify(process).includes("example"), false);
  const all = await (await sites.internal("/rep/health")).json();
  assertEquals(Object.keys(all.sites), [
    "wrong.example",
    "a.example",
    "default",
  ]);
  assertEquals(all.sites["a.example"], { status: "healthy" });
  assertEquals(all.sites["wrong.example"].status, "rejected");
  assertMatch(all.sites["wrong.example"].issues[0], /app\.env:1.*NAME=value/);
  const ready = await sites.internal("/readyz");
  assertEquals([ready.status, await ready.text()], [200, "degraded\n"]);
  const own = await sites.internal("/rep/health?site=a.example");
  assertEquals((await own.json()).variables.public, 2);
  const unknown = await sites.internal("/rep/health?site=c.example");
  assertEquals(unknown.status, 404);
  await unknown.body?.cancel();
});

Deno.test("a site that appears is served, one that changes is reloaded alone, and one that goes ends its streams", async () => {
  await using sites = await serveSites({
    args: [WATCH, "--static-dir=%/dist"],
    files: {
      "dist/index.html": html("shared"),
      "sites/a.example/app.env": "REP_PUBLIC_A=1\n",
      "sites/b.example/app.env": "REP_PUBLIC_A=1\n",
    },
  });
  const stream = await sites.listen("a.example");
  await sites.write({
    "sites/c.example/app.env": "REP_PUBLIC_A=3\n",
    "sites/a.example/app.env": "REP_PUBLIC_A=two\n",
  });
  await sites.look();
  assertEquals(await sites.read("c.example"), { title: "shared", A: "3" });
  assertEquals(await sites.read("a.example"), { title: "shared", A: "two" });
  assertEquals((await stream.next())?.data.value, "two");
  assertEquals(sites.logged("rep.config.reloaded"), ["a.example"]);
  await Deno.remove(sites.at("sites/a.example"), { recursive: true });
  await sites.look();
  assertEquals(await stream.next(), undefined);
  assertEquals(await sites.read("a.example"), 421);
  assertEquals(await sites.read("b.example"), { title: "shared", A: "1" });
});

Deno.test("without file_watch, directories are looked at when somebody asks for a reload", async () => {
  await using sites = await serveSites({});
  await sites.write({ "sites/a.example/app.env": "REP_PUBLIC_A=1\n" });
  await sites.look();
  assertEquals(await sites.read("a.example"), 421);
  await sites.reload();
  assertEquals(await sites.read("a.example"), 404); // there is nothing to serve but the endpoints
});

for (
  const [total, removed, isBelieved] of [
    [2, 2, true],
    [3, 3, false],
    [3, 2, true],
    [10, 5, true],
    [10, 6, false],
  ] as const
) {
  Deno.test(`${removed} of ${total} sites that are gone at once are ${isBelieved ? "" : "not "}believed`, async () => {
    const names = Array.from(
      { length: total },
      (_, index) => `${index}.example`,
    );
    const files = names.map((name) => [`sites/${name}/app.env`, ""]);
    await using sites = await serveSites({
      args: [WATCH],
      files: Object.fromEntries(files),
    });
    for (const name of names.slice(0, removed)) {
      await Deno.remove(sites.at(`sites/${name}`), { recursive: true });
    }
    await sites.look();
    await sites.look();
    const expected = isBelieved ? 421 : 404;
    assertEquals(await sites.read("0.example"), expected);
    const doubts = sites.logged("rep.sites.missing").length;
    assertEquals(doubts, isBelieved ? 0 : 1);
    const { problems = [] } = await (await sites.internal("/rep/health"))
      .json();
    assertEquals(problems, isBelieved ? [] : ["sites_missing"]);
    await sites.reload();
    assertEquals(await sites.read("0.example"), 421);
    const after = await (await sites.internal("/rep/health")).json();
    assertEquals(after.status, "healthy");
    const recovered = sites.logged("rep.sites.recovered").length;
    assertEquals(recovered, isBelieved ? 0 : 1);
  });
}

Deno.test("sites that are gone at once stay although others appear, until they are back", async () => {
  const files = {
    "sites/a.example/app.env": "",
    "sites/b.example/app.env": "",
    "sites/c.example/app.env": "",
  };
  await using sites = await serveSites({ args: [WATCH], files });
  for (const name of ["a", "b", "c"]) {
    await Deno.remove(sites.at(`sites/${name}.example`), { recursive: true });
  }
  await sites.look();
  await sites.write({ "sites/new.example/app.env": "" });
  await sites.look();
  await sites.look();
  assertEquals(await sites.read("a.example"), 404);
  assertEquals(await sites.read("new.example"), 404);
  assertEquals(sites.logged("rep.sites.missing").length, 1);
  assertEquals(sites.logged("rep.sites.recovered").length, 0);
  await Deno.remove(sites.at("sites/new.example"), { recursive: true });
  await sites.write(files);
  await sites.look();
  await sites.look();
  assertEquals(sites.logged("rep.sites.recovered").length, 1);
  assertEquals(await sites.read("new.example"), 421);
  assertEquals(await sites.read("a.example"), 404);
  assertEquals(sites.logged("rep.site.closed"), ["new.example"]);
  const { status } = await (await sites.internal("/rep/health")).json();
  assertEquals(status, "healthy");
});

Deno.test("site_rejected is as old as the site that is wrong for the longest, and sites_missing as the first doubt", async () => {
  const wrong = "REP_PUBLIC_A\n";
  const names = ["a.example", "b.example", "c.example"];
  await using sites = await serveSites({
    args: [WATCH],
    files: Object.fromEntries(
      names.map((name) => [`sites/${name}/app.env`, "REP_PUBLIC_A=1\n"]),
    ),
  });
  const health = async () => await (await sites.internal("/rep/health")).json();
  /** Writes a file of a site, and returns when it was noticed. */
  async function write(site: string, text: string): Promise<string> {
    await sites.write({ [`sites/${site}/app.env`]: text });
    await sites.clock.tick(60_000);
    await sites.look();
    return (await health()).sites[site].rejected_since;
  }
  const [first, second] = [
    await write("b.example", wrong),
    await write("c.example", wrong),
  ];
  assertEquals(first < second, true);
  let report = await health();
  assertEquals(report.problems_since, { site_rejected: first });
  assertEquals(Object.keys(report.sites), [
    "b.example",
    "c.example",
    "a.example",
  ]);
  assertEquals(report.sites["b.example"].problems_since, {
    config_rejected: first,
  });
  assertEquals(await write("c.example", `${wrong}REP_PUBLIC_B\n`), second); // still wrong
  await write("b.example", "REP_PUBLIC_A=2\n");
  report = await health();
  assertEquals(report.problems_since, { site_rejected: second });
  assertEquals(Object.keys(report.sites)[0], "c.example");

  for (const name of names) {
    await Deno.remove(sites.at(`sites/${name}`), { recursive: true });
  }
  await sites.look();
  const missing = (await health()).problems_since.sites_missing;
  await sites.write({ "sites/new.example/app.env": "" });
  await sites.clock.tick(60_000);
  await sites.look();
  assertEquals((await health()).problems_since.sites_missing, missing);
  await sites.reload();
  assertEquals((await health()).problems_since, undefined);
});

Deno.test("GET /status has the sites, first those that are rejected, then others with problems, then by name", async () => {
  const store = memoryStore();
  let isDown = false;
  await using sites = await serveSites({
    store: fallibleStore(store, () => isDown),
    files: {
      "sites/z.example/app.env": "REP_PUBLIC_A\n",
      "sites/b.example/app.env": "REP_PUBLIC_A=1\n",
      "sites/a.example/app.env": "REP_PUBLIC_A=1\n",
    },
  });
  async function shown() {
    const page = await (await sites.internal("/status")).text();
    const [, table = ""] =
      /aria-label="Sites"[^]*?>([^]*?)<\/table>/.exec(page) ??
        [];
    return [...table.matchAll(/<tr><td>(.*?)<\/td><td>(.*?)<\/td>/g)]
      .map(([, site, status]) => [site?.replace(/<.*?>/g, ""), status]);
  }
  assertEquals(await shown(), [
    ["z.example", "rejected"],
    ["a.example", "healthy"],
    ["b.example", "healthy"],
  ]);
  isDown = true;
  await sites.clock.tick(10_000);
  assertEquals(await shown(), [
    ["z.example", "rejected"],
    ["a.example", "degraded"],
    ["b.example", "degraded"],
  ]);
  const page = await (await sites.internal("/status")).text();
  assertMatch(page, /<a href="\?site=a.example">a.example<\/a>/);
  assertMatch(
    page,
    /<li>store_unavailable since <time>\d{4}-.*?Z<\/time><\/li>/,
  );
  assertMatch(page, /<td><time>.*?<\/time><\/td><td><ul><li>.*?app\.env:1/);
  const own = await sites.internal("/status?site=a.example");
  assertEquals((await own.text()).includes('aria-label="Sites"'), false);
});

Deno.test("a directory that cannot be read ends no site, is logged once, and does not let a gateway start", async () => {
  await using sites = await serveSites({
    args: [WATCH],
    files: { "sites/a.example/app.env": "" },
  });
  await Deno.rename(sites.at("sites"), sites.at("moved"));
  await sites.look();
  await sites.look();
  assertEquals(await sites.read("a.example"), 404);
  assertEquals(sites.logged("rep.sites.unreadable").length, 1);
  await Deno.rename(sites.at("moved"), sites.at("sites"));
  await sites.look();
  const { status } = await (await sites.internal("/rep/health")).json();
  assertEquals(status, "healthy");
  await assertRejects(
    () => serveSites({ directory: "missing" }),
    ConfigurationError,
    'Cannot read --sites "',
  );
});

Deno.test("a site whose files turn out to be wrong after it waited for the store is rejected alone", async () => {
  let isBroken = true;
  const store = interceptedStore(memoryStore(), () => {
    if (isBroken) throw new TypeError("broken");
    return Promise.resolve();
  });
  await using sites = await serveSites({
    store,
    files: {
      "sites/a.example/app.env": "REP_PUBLIC_A=1\n",
      "sites/b.example/app.env": "REP_PUBLIC_A\n",
    },
  });
  assertEquals(await sites.read("a.example"), 503);
  isBroken = false;
  await sites.clock.tickUntil(sites.sites.ready, 250);
  await sites.clock.tick(1_000);
  assertEquals(await sites.read("a.example"), 404);
  assertEquals(await sites.read("b.example"), 503);
  assertEquals(sites.logged("rep.site.rejected"), ["b.example"]);
});

Deno.test("a site that is wrong at the start answers 503 until it is corrected, and the others serve", async () => {
  await using sites = await serveSites({
    args: [WATCH],
    files: {
      "sites/a.example/app.env": "REP_PUBLIC_A=1\n",
      "sites/b.example/.rep.yaml": "variables: { A: { tier: x } }\n",
      "sites/c.example/app.env": "REP_PUBLIC_A=1\nREP_SERVER_A=1\n",
    },
  });
  const statuses = async () => [
    await sites.read("a.example"),
    await sites.read("b.example"),
    await sites.read("c.example"),
  ];
  assertEquals(await statuses(), [404, 503, 503]);
  assertEquals(sites.logged("rep.site.rejected"), ["b.example", "c.example"]);
  await sites.look();
  assertEquals(sites.logged("rep.site.rejected").length, 2);
  await Deno.remove(sites.at("sites/b.example/.rep.yaml"));
  await sites.write({ "sites/c.example/app.env": "REP_PUBLIC_A=1\n" });
  await sites.look();
  assertEquals(await statuses(), [404, 404, 404]);
});

Deno.test("a site whose new files are wrong keeps its last configuration, and says so", async () => {
  await using sites = await serveSites({
    args: [WATCH, "--static-dir=%/dist"],
    files: {
      "dist/index.html": html("shared"),
      "sites/a.example/app.env": "REP_PUBLIC_A=1\n",
    },
  });
  await sites.write({
    "sites/a.example/app.env": "REP_PUBLIC_A=1\nREP_SERVER_A=1\n",
  });
  await sites.look();
  assertEquals(await sites.read("a.example"), { title: "shared", A: "1" });
  assertEquals(sites.logged("rep.config.rejected"), ["a.example"]);
  const all = await (await sites.internal("/rep/health")).json();
  assertEquals([all.status, all.problems, all.sites["a.example"].status], [
    "degraded",
    ["site_rejected"],
    "degraded",
  ]);
  await sites.write({ "sites/a.example/.rep.yaml": "variables: 1\n" });
  await sites.look(); // now another gateway would be necessary, and cannot be opened
  assertEquals(await sites.read("a.example"), { title: "shared", A: "1" });
  assertEquals(sites.logged("rep.site.rejected"), ["a.example"]);
});

Deno.test("a site has options of its own in its manifest, and those of the process are ignored with a warning", async () => {
  const settings = (origin: string) =>
    `version: "0.1.0"
variables: {}
settings:
  allowed_origins: ["${origin}"]
  session_key_max_rate: 1
  session_key_ttl: 5s
`;
  await using sites = await serveSites({
    args: [WATCH],
    files: {
      "sites/a.example/.rep.yaml": settings("https://app.example"),
      "sites/a.example/app.env": "REP_SENSITIVE_KEY=a\n",
      "sites/b.example/app.env": "REP_SENSITIVE_KEY=b\n",
    },
  });
  async function keyStatus(host: string, origin: string, peer: string) {
    const path = "/rep/session-key";
    const response = await sites.ask(host, path, { origin }, peer);
    await response.body?.cancel();
    return response.status;
  }
  const first = "192.0.2.1";
  assertEquals(await keyStatus("a.example", "https://app.example", first), 200);
  assertEquals(await keyStatus("a.example", "https://app.example", first), 429);
  assertEquals(await keyStatus("a.example", "http://a.example", first), 403);
  assertEquals(await keyStatus("b.example", "https://app.example", first), 403);
  assertEquals(await keyStatus("b.example", "http://b.example", first), 200);
  const warnings = sites.lines.filter(({ detail }) =>
    String(detail).includes("concern the whole process")
  );
  assertEquals(warnings.map(({ site }) => site), ["a.example"]);
  assertMatch(String(warnings[0]?.detail), /are ignored: session_key_ttl;/);
  await sites.write({
    "sites/a.example/.rep.yaml": settings("https://new.example"),
  });
  await sites.look();
  const second = "192.0.2.2";
  assertEquals(
    await keyStatus("a.example", "https://app.example", second),
    403,
  );
  assertEquals(
    await keyStatus("a.example", "https://new.example", second),
    200,
  );
});

Deno.test("pages, keys and cursors of one site are of no use at another", async () => {
  const files = Object.fromEntries(
    ["a.example", "b.example"].flatMap((name) => [
      [`sites/${name}/app.env`, `REP_PUBLIC_A=1\nREP_SENSITIVE_KEY=${name}\n`],
      [`sites/${name}/dist/index.html`, html(name)],
    ]),
  );
  await using sites = await serveSites({ files });
  async function payloadOf(host: string) {
    const text = await (await sites.ask(host)).text();
    const [, payload = ""] = /<script id="__rep__"[^>]*>(.*?)<\/script>/s.exec(
      text,
    ) ?? [];
    return JSON.parse(payload);
  }
  const key = async (host: string, path: string) => {
    const response = await sites.ask(host, path);
    return [response.status, (await response.json()).key];
  };
  const [a, b] = [await payloadOf("a.example"), await payloadOf("b.example")];
  const [, ownKey] = await key("a.example", a._meta.key_endpoint);
  assertEquals(typeof ownKey, "string");
  assertEquals((await key("a.example", b._meta.key_endpoint))[0], 410);
  assertEquals((await key("b.example", a._meta.key_endpoint))[0], 410);
  const [, otherKey] = await key("b.example", b._meta.key_endpoint);
  assertEquals(ownKey === otherKey, false);
  // The cursor of another log means nothing: the whole state is sent, of the own site only.
  const cursor = new URL(a._meta.hot_reload, "http://x").searchParams;
  const response = await sites.ask("b.example", "/rep/changes", {
    "last-event-id": String(cursor.get("last_event_id")),
  });
  const text = await readUntil(response, '"value"');
  assertMatch(text, /"key":"A","tier":"public","value":"1"/);
});

Deno.test("no name of a directory reaches metrics, health, status or log with what a terminal interprets", async () => {
  const hostile = "a\x1b[2J\x9b31m\u202e b.example";
  await using sites = await serveSites({
    files: {
      "sites/a.example/app.env": "",
      [`sites/${hostile}/app.env`]: "",
    },
  });
  // deno-lint-ignore no-control-regex -- these must not be in the output
  const interpreted = /[\0-\x09\x0b-\x1f\x7f-\x9f\u202e]/;
  for (const path of ["/metrics", "/rep/health", "/readyz", "/status"]) {
    const text = await (await sites.internal(path)).text();
    assertEquals(interpreted.exec(text), null, path);
  }
  const metrics = await (await sites.internal("/metrics")).text();
  assertEquals(
    metrics.includes(
      'last_reload_success{site="a\\\\u001b[2J\\\\u009b31m\\\\u202e b.example"} 0\n',
    ),
    true,
  );
  const { sites: all } = await (await sites.internal("/rep/health")).json();
  assertEquals(Object.keys(all).includes(hostile), true);
});

Deno.test("a site may take half of the streams, and all of them together what the process has", async () => {
  const names = ["a.example", "b.example", "c.example"];
  await using sites = await serveSites({
    args: ["--max-streams=4", "--max-streams-per-client=1"],
    files: Object.fromEntries(
      names.map((name) => [`sites/${name}/app.env`, ""]),
    ),
  });
  const opened: ReadableStream[] = [];
  async function opens(host: string, peer: string) {
    const response = await sites.ask(host, "/rep/changes", {}, peer);
    opened.push(response.body!);
    const metrics = await (await sites.internal("/metrics")).text();
    const [, count] = new RegExp(`rep_streams_open{site="${host}"} (\\d+)`)
      .exec(metrics) ?? [];
    return Number(count);
  }
  assertEquals(await opens("a.example", "192.0.2.1"), 1);
  assertEquals(await opens("a.example", "192.0.2.2"), 2);
  assertEquals(await opens("a.example", "192.0.2.3"), 2);
  assertEquals(await opens("b.example", "192.0.2.1"), 0); // this client has a stream at a.example
  assertEquals(await opens("b.example", "192.0.2.4"), 1);
  assertEquals(await opens("b.example", "192.0.2.5"), 2);
  assertEquals(await opens("c.example", "192.0.2.6"), 0);
  await Promise.all(opened.map((body) => body.cancel()));
});

Deno.test("no request changes which site another host gets", async () => {
  await using sites = await serveSites({
    files: {
      "sites/shop.example.com/dist/index.html": html("shop"),
      "sites/default/dist/index.html": html("default"),
    },
  });
  // What Deno makes of `CONNECT shop.example.comm`.
  const connect = { url: "http://shop.example.comm", method: "CONNECT" };
  const request = { ...connect, headers: new Headers() } as Request;
  const response = await sites.sites.fetch(request);
  await response.body?.cancel();
  assertEquals(await sites.read("shop.example.com"), { title: "shop" });
});

Deno.test("sites that wait for the store have the variables of the command when it is back", async () => {
  let isBroken = true;
  const store = interceptedStore(memoryStore(), () => {
    if (isBroken) throw new TypeError("broken");
    return Promise.resolve();
  });
  await using sites = await serveSites({
    store,
    base: { REP_PUBLIC_B: "base" },
    args: ["--static-dir=%/dist"],
    files: {
      "dist/index.html": html("shared"),
      "sites/a.example/app.env": "REP_PUBLIC_A=1\n",
    },
  });
  isBroken = false;
  await sites.clock.tickUntil(sites.sites.ready, 250);
  const page = { title: "shared", A: "1", B: "base" };
  // The site reads its files in real time, which a busy machine may take while the clock does not move.
  for (let tries = 0; tries < 100; tries++) {
    await sites.clock.tick(250);
    if (await sites.read("a.example") !== 503) break;
  }
  assertEquals(await sites.read("a.example"), page);
});

Deno.test("a shutdown ends although a changed site waits for the store", async () => {
  const store = interceptedStore(memoryStore(), () => {
    throw new TypeError("broken");
  });
  await using sites = await serveSites({
    store,
    args: [WATCH],
    files: { "sites/a.example/app.env": "REP_PUBLIC_A=1\n" },
  });
  await sites.write({ "sites/a.example/app.env": "REP_PUBLIC_A=two\n" });
  await sites.look();
  await sites.clock.tickUntil(sites.sites.close(), 100); // it fails after 10,000 steps
});

Deno.test("a shutdown closes the ports once no site receives an upload any more", async () => {
  const upload = Promise.withResolvers<void>();
  await using upstream = serveUploads();
  await using sites = await serveSites({
    args: [`--upstream=${upstream.url}`],
    files: { "sites/a.example/app.env": "", "sites/b.example/app.env": "" },
  });
  const body = new ReadableStream({
    async start(controller) {
      controller.enqueue(new TextEncoder().encode("half"));
      await upload.promise;
      controller.close();
    },
  });
  const request = new Request("http://a.example/", { method: "POST", body });
  const response = Promise.resolve(sites.sites.fetch(request));
  await upstream.begun;
  const stopped: boolean[] = [];
  let hasUploaded = false;
  const stopListening = () => {
    stopped.push(hasUploaded);
    return Promise.resolve();
  };
  const closing = sites.sites.close({ drainMs: 10_000, stopListening });
  await sites.clock.tick(1_000);
  assertEquals(stopped, []);
  hasUploaded = true;
  upload.resolve();
  const uploaded = await sites.clock.tickUntil(response, 50);
  assertEquals(await uploaded.text(), "half");
  await sites.clock.tickUntil(closing, 50);
  assertEquals(stopped, [true]);
});

Deno.test("a file that has become too large leaves a site as it is, and its gauge says so until it is corrected", async () => {
  await using sites = await serveSites({
    args: [WATCH, "--static-dir=%/dist"],
    files: {
      "dist/index.html": html("shared"),
      "sites/a.example/app.env": "REP_PUBLIC_A=1\n",
    },
  });
  const success = async () => {
    const metrics = await (await sites.internal("/metrics")).text();
    const [, value] =
      /last_reload_success{site="a.example"} (\d)/.exec(metrics) ??
        [];
    return value;
  };
  const large = `REP_PUBLIC_A=2\n${"#".repeat(300_000)}\n`;
  await sites.write({ "sites/a.example/app.env": large });
  await sites.look();
  assertEquals(await sites.read("a.example"), { title: "shared", A: "1" });
  assertEquals([await success(), sites.logged("rep.site.rejected")], [
    "0",
    ["a.example"],
  ]);
  await sites.write({ "sites/a.example/app.env": "REP_PUBLIC_A=2\n" });
  await sites.look();
  assertEquals(await sites.read("a.example"), { title: "shared", A: "2" });
  assertEquals(await success(), "1");
});

Deno.test("a new manifest that lacks a variable of the command is used once the command has it", async () => {
  await using sites = await serveSites({
    args: [WATCH, "--static-dir=%/dist"],
    files: {
      "dist/index.html": html("shared"),
      "sites/a.example/app.env": "REP_PUBLIC_A=1\n",
    },
  });
  await sites.write({
    "sites/a.example/.rep.yaml": `version: "0.1.0"
variables:
  A: { tier: public, type: string }
  B: { tier: public, type: string, required: true }
  C: { tier: public, type: string, default: "3" }
`,
  });
  await sites.look();
  assertEquals(await sites.read("a.example"), { title: "shared", A: "1" });
  sites.state.base = { REP_PUBLIC_B: "2" };
  await sites.reload(false);
  const page = { title: "shared", A: "1", B: "2", C: "3" };
  assertEquals(await sites.read("a.example"), page);
});

Deno.test("a site cannot be less strict than the command, or issue more keys", async () => {
  await using sites = await serveSites({
    args: ["--strict", "--session-key-max-rate=1"],
    files: {
      "sites/a.example/.rep.yaml": `version: "0.1.0"
variables: {}
settings: { strict_guardrails: false, session_key_max_rate: 100 }
`,
      "sites/a.example/app.env": "REP_SENSITIVE_B=x\n",
      "sites/b.example/.rep.yaml":
        `version: "0.1.0"\nvariables: {}\nsettings: { strict_guardrails: false }\n`,
      "sites/b.example/app.env": `REP_PUBLIC_KEY=AKIA${"IOSFODNN7EXAMPLE"}\n`,
    },
  });
  const path = "/rep/session-key";
  const statuses = [];
  for (let count = 0; count < 2; count++) {
    const response = await sites.ask("a.example", path);
    await response.body?.cancel();
    statuses.push(response.status);
  }
  assertEquals(statuses, [200, 429]);
  assertEquals(await sites.read("b.example"), 503);
});

Deno.test("variables of the command reach all sites, and wrong ones leave all as they are", async () => {
  const files = {
    "dist/index.html": html("shared"),
    "sites/a.example/app.env": "REP_PUBLIC_A=1\n",
    "sites/b.example/app.env": "REP_PUBLIC_A=2\n",
  };
  const args = ["--static-dir=%/dist"];
  await using sites = await serveSites({
    files,
    args,
    base: { REP_PUBLIC_B: "1" },
  });
  sites.state.base = { REP_PUBLIC_B: "2" };
  await sites.reload(false);
  const both = async () => [
    await sites.read("a.example"),
    await sites.read("b.example"),
  ];
  const expected = [
    { title: "shared", A: "1", B: "2" },
    { title: "shared", A: "2", B: "2" },
  ];
  assertEquals(await both(), expected);
  sites.state.base = { REP_PUBLIC_B: "2", REP_SERVER_A: "x" };
  await sites.reload(false);
  assertEquals(await both(), expected);
  assertEquals(sites.logged("rep.config.rejected"), ["a.example", "b.example"]);
});

Deno.test("a site with too many variables is rejected, so that its reloads do not stop the others", async () => {
  const text = (count: number) =>
    Array.from({ length: count }, (_, index) => `REP_PUBLIC_V${index}=1\n`)
      .join("");
  await using sites = await serveSites({
    files: {
      "sites/a.example/app.env": text(1_000),
      "sites/b.example/app.env": text(1_001),
    },
  });
  assertEquals(sites.logged("rep.site.rejected"), ["b.example"]);
  const { issues } = sites.lines.find(({ msg }) =>
    msg === "rep.site.rejected"
  )!;
  assertMatch(String(issues), /expected at most 1000 variables, got 1001/);
});

Deno.test("an outage of the store is logged once for all sites, and none of them closes the store", async () => {
  let isBroken = false;
  let isClosed = false;
  const inner = memoryStore();
  const store = interceptedStore({
    ...inner,
    close: () => void (isClosed = true),
  }, () => {
    if (isBroken) throw new TypeError("broken");
    return Promise.resolve();
  });
  {
    await using sites = await serveSites({
      store,
      files: {
        "sites/a.example/app.env": "REP_PUBLIC_A=1\n",
        "sites/b.example/app.env": "REP_PUBLIC_A=1\n",
      },
    });
    isBroken = true;
    await sites.clock.tick(2_000);
    assertEquals(sites.logged("rep.store.down"), [undefined]);
    isBroken = false;
    await sites.clock.tick(2_000);
    assertEquals(sites.logged("rep.store.up"), [undefined]);
  }
  assertEquals(isClosed, false);
});

Deno.test("a site can move into a process of its own, with --app HOST, and back: its events go on", async () => {
  const store = memoryStore();
  const files = { "sites/a.example/app.env": "REP_PUBLIC_A=1\n" };
  {
    await using _sites = await serveSites({ store, files });
  }
  let cursor: string;
  {
    await using gateway = await createGateway({
      store,
      app: "a.example",
      hotReload: true,
      variables: { REP_PUBLIC_A: "2" },
    });
    const page = await gateway.configScript();
    [, cursor = ""] = /last_event_id=(\d+)/.exec(page) ?? [];
  }
  await using sites = await serveSites({ store, files });
  const response = await sites.ask("a.example", "/rep/changes", {
    "last-event-id": cursor,
  });
  const text = await readUntil(response, '"value"');
  assertMatch(text, /"key":"A","tier":"public","value":"1"/);
});

Deno.test("a site whose files lead to another site is served no longer", async () => {
  await using sites = await serveSites({
    args: [WATCH],
    files: {
      "sites/a.example/dist/index.html": html("a"),
      "sites/b.example/app.env": "REP_PUBLIC_B=secret\n",
    },
  });
  assertEquals(await sites.read("a.example"), { title: "a" });
  await Deno.remove(sites.at("sites/a.example/dist"), { recursive: true });
  await Deno.symlink("../b.example", sites.at("sites/a.example/dist"));
  await sites.look();
  assertEquals(await sites.read("a.example"), 503);
  assertEquals(sites.logged("rep.site.rejected"), ["a.example"]);
});

Deno.test("the app of the command does not serve the files of the sites, even if they are in its directory", async () => {
  await using sites = await serveSites({
    args: ["--static-dir=%"],
    files: {
      "index.html": html("shared"),
      "sites/a.example/app.env": "REP_SENSITIVE_KEY=a\n",
    },
  });
  assertEquals(await sites.read("a.example"), { title: "shared" });
  assertEquals(await sites.read("a.example", "/sites/a.example/app.env"), 404);
});

Deno.test("a site that is removed and made again keeps its variables in the store, unless it is forgotten in between", async () => {
  const store = memoryStore();
  const files = { "sites/a.example/dist/index.html": html("a") };
  await using sites = await serveSites({ store, args: [WATCH], files });
  const { clock } = sites;
  const openStore = () => Promise.resolve({ ...store, close() {} });
  const run = (...args: string[]) =>
    clock.tickUntil(runWith(args, { openStore, clock }), 100);
  async function removeAndMake(inBetween: () => Promise<void>): Promise<void> {
    await Deno.remove(sites.at("sites/a.example"), { recursive: true });
    await sites.look();
    await inBetween();
    await sites.write(files);
    await sites.look();
  }
  await run("set", "A=1", "--site=a.example");
  await removeAndMake(async () => {});
  assertEquals(await sites.read("a.example"), { title: "a", A: "1" });
  assertEquals((await run("forget", "a.example")).code, 1); // it is served
  await removeAndMake(async () => {
    const { err } = await run("forget", "a.example");
    assertEquals(err, ["Forgotten: a.example"]);
  });
  assertEquals(await sites.read("a.example"), { title: "a" });
});
