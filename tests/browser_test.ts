import { assert, assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import type { GatewayOptions } from "../src/gateway_options.ts";
import { startBrowser } from "./_browser.ts";
import { startCommand } from "./_command.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { TempDirectory } from "./_temp.ts";

/** Playwright keeps timers and pipes beyond a browser's end, which are not ours to close. */
Deno.test.sanitizer({ ops: false, resources: false });

/** A page that has the client module at hand, and notes what it is told once it listens. */
const PAGE = `<!doctype html>
<html><head><meta charset="utf-8"><title>test</title><script type="module">
import { rep } from "/rep/client.js";
window.rep = rep;
window.seen = [];
window.listen = () => void rep.onAnyChange((key, value) => window.seen.push([key, value ?? null]));
window.isReady = true;
</script></head><body>The page</body></html>`;

/** A page whose URLs are resolved against another origin, on which nothing listens. */
const PAGE_WITH_BASE = PAGE
  .replace("<head>", '<head><base href="http://127.0.0.1:9/base/">')
  .replace(
    'import { rep } from "/rep/client.js";',
    'const { rep } = await import(location.origin + "/rep/client.js");',
  );

/** The parts of the page's window that tests look at; functions given to `evaluate` run in the page. */
declare global {
  var rep: typeof import("../src/client/mod.ts").default, seen: unknown[], listen: () => void, isReady: boolean;
}

async function directoryWithPage() {
  const directory = await TempDirectory.make();
  await Deno.mkdir(directory.at("site"));
  await Deno.writeTextFile(directory.at("site/index.html"), PAGE);
  await Deno.writeTextFile(directory.at("site/base.html"), PAGE_WITH_BASE);
  await Deno.writeTextFile(directory.at("site/other.html"), "<!doctype html><title>other</title>");
  return directory;
}

interface Served extends TestGateway {
  url: string;
  /** The `Last-Event-ID` and the query of each stream that was asked for. */
  cursors: string[];
}

/** A gateway in this process, on a real port. */
async function serve(variables: Record<string, string>, options: GatewayOptions = {}): Promise<Served> {
  const directory = await directoryWithPage();
  const gate = await setUp(variables, { staticDir: directory.at("site"), random: () => 0, ...options });
  const cursors: string[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request, info) => {
    const { pathname, searchParams } = new URL(request.url);
    const id = request.headers.get("last-event-id") ?? searchParams.get("last_event_id") ?? "none";
    if (pathname === "/rep/changes") cursors.push(id);
    return gate.gateway.fetch(request, info);
  });
  return {
    ...gate,
    url: `http://127.0.0.1:${server.addr.port}/`,
    cursors,
    async [Symbol.asyncDispose]() {
      await gate.gateway.close();
      await server.shutdown();
      await directory[Symbol.asyncDispose]();
    },
  };
}

async function ready(page: Page): Promise<Page> {
  await page.waitForFunction(() => globalThis.isReady);
  return page;
}

/** Waits until the page has been told this much, and gives all it was told. */
async function seenBy(page: Page, count: number): Promise<unknown[]> {
  await page.waitForFunction((count) => globalThis.seen.length >= count, count, { timeout: 20_000 });
  return await page.evaluate(() => globalThis.seen);
}

async function listenOn(page: Page): Promise<void> {
  await page.evaluate(() => globalThis.listen());
  await page.waitForFunction(() => globalThis.rep.status().state === "open");
}

Deno.test("a page reads its PUBLIC values at once, and opens its SENSITIVE ones on demand", async () => {
  const values = { REP_PUBLIC_A: "</script><b>&amp;\u2028é", REP_SENSITIVE_S: "s€cret", REP_SERVER_V: "never" };
  await using gate = await serve(values);
  await using browser = await startBrowser();
  const page = await ready(await browser.open(gate.url));
  assertEquals(await page.evaluate(() => globalThis.rep.getAll()), { A: values.REP_PUBLIC_A });
  assertEquals(await page.evaluate(() => globalThis.rep.getSecure("S")), "s€cret");
  assertEquals(await page.evaluate(() => globalThis.rep.verify()), true);
  assertEquals(await page.textContent("body"), "The page");
  assert(!(await page.content()).includes("never"));
  const { sensitiveAvailable, publicCount } = await page.evaluate(() => globalThis.rep.meta()) ?? {};
  assertEquals({ sensitiveAvailable, publicCount }, { sensitiveAvailable: true, publicCount: 1 });
});

Deno.test("a page of another origin gets no session key", async () => {
  await using gate = await serve({ REP_SENSITIVE_S: "secret" });
  await using elsewhere = await serve({});
  await using browser = await startBrowser();
  const page = await ready(await browser.open(elsewhere.url));
  const outcome = await page.evaluate(async (url) => {
    const attempts = [fetch(url), fetch(url, { mode: "no-cors" }).then((response) => response.text())];
    return await Promise.all(attempts.map((attempt) => attempt.then(String, () => "refused")));
  }, `${gate.url}rep/session-key`);
  assertEquals(outcome, ["refused", ""]); // an opaque answer has no text, and behind it is a 403
  const rejected = gate.lines.filter(({ msg }) => msg === "rep.session_key.rejected");
  assertEquals(rejected.map(({ reason }) => reason), ["origin_mismatch", "origin_mismatch"]);
});

Deno.test("a page of an allowed origin gets a session key, and its own origin's page does so too", async () => {
  await using app = await serve({});
  const appOrigin = app.url.slice(0, -1);
  await using gate = await serve({ REP_SENSITIVE_S: "secret" }, { allowedOrigins: [appOrigin] });
  await using browser = await startBrowser();
  const page = await ready(await browser.open(app.url));
  const ask = (url: string) =>
    fetch(url).then(async (response) => Object.keys(await response.json()), () => ["refused"]);
  assertEquals(await page.evaluate(ask, `${gate.url}rep/session-key`), ["key", "expires_at"]);
  const own = await ready(await browser.open(gate.url)); // same origin, but it is not in the list
  assertEquals(await own.evaluate(ask, `${gate.url}rep/session-key`), ["title", "status", "detail"]);
});

Deno.test("a page hears of updates, additions and deletions as they come, and a change between its load and its stream", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" });
  await using browser = await startBrowser();
  const page = await ready(await browser.open(gate.url));
  await gate.set({ REP_PUBLIC_A: "2", REP_PUBLIC_B: "1" }); // the page does not listen yet
  await listenOn(page);
  assertEquals(await seenBy(page, 1), [["A", "2"]]);
  await gate.set({ REP_PUBLIC_A: "2", REP_PUBLIC_C: "3" });
  assertEquals(await seenBy(page, 3), [["A", "2"], ["C", "3"], ["B", null]]);
  assertEquals(await page.evaluate(() => globalThis.rep.getAll()), { A: "2", C: "3" });
  assertEquals(await page.evaluate(() => globalThis.rep.get("B")), undefined);
});

Deno.test("a <base> element does not lead the client to another origin", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1", REP_SENSITIVE_S: "secret" });
  await using browser = await startBrowser();
  const page = await ready(await browser.open(`${gate.url}base.html`));
  assertEquals(await page.evaluate("document.baseURI"), "http://127.0.0.1:9/base/");
  assertEquals(await page.evaluate(() => globalThis.rep.getSecure("S")), "secret");
  await listenOn(page);
  await gate.set({ REP_PUBLIC_A: "2", REP_SENSITIVE_S: "secret" });
  assertEquals(await seenBy(page, 1), [["A", "2"]]);
});

Deno.test("a document has no configuration when a script requests it, and has it as a page, in any order", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1" });
  await using browser = await startBrowser();
  const page = await ready(await browser.open(gate.url));
  const isConfigured = () => page.evaluate("document.getElementById('__rep__') !== null");
  const fetched = () => page.evaluate(async () => (await (await fetch("/other.html")).text()).includes("__rep__"));
  assertEquals([await fetched(), await fetched()], [false, false]); // the second one revalidates the stored fragment
  await page.goto(`${gate.url}other.html`);
  assertEquals([await isConfigured(), await fetched()], [true, false]);
  await page.reload();
  assertEquals(await isConfigured(), true);
});

Deno.test("two tabs both hear of everything", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1" });
  await using browser = await startBrowser();
  const tabs = [await ready(await browser.open(gate.url)), await ready(await browser.open(gate.url))];
  for (const tab of tabs) await listenOn(tab);
  await gate.set({ REP_PUBLIC_A: "2" });
  await gate.set({ REP_PUBLIC_A: "3" });
  for (const tab of tabs) assertEquals(await seenBy(tab, 2), [["A", "2"], ["A", "3"]]);
});

Deno.test("a page that is kept hears, when it is opened again from the HTTP cache, of what changed since", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1" });
  await using browser = await startBrowser();
  const page = await ready(await browser.open(gate.url));
  await page.reload();
  assertEquals(await (await ready(page)).evaluate(() => globalThis.rep.get("A")), "1");
  await gate.set({ REP_PUBLIC_A: "2" });
  await page.reload(); // asks with the old page's ETag, which is not the page's any more
  assertEquals(await (await ready(page)).evaluate(() => globalThis.rep.get("A")), "2");
});

Deno.test("a page that comes back from the back/forward cache catches up", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1" });
  await using browser = await startBrowser();
  const page = await ready(await browser.open(gate.url));
  await listenOn(page);
  await page.evaluate('addEventListener("pageshow", (event) => seen.push(["cached", String(event.persisted)]))');
  await page.goto(`${gate.url}other.html`);
  await gate.set({ REP_PUBLIC_A: "2" });
  await page.evaluate("history.back()");
  assertEquals(await seenBy(page, 2), [["cached", "true"], ["A", "2"]]);
});

Deno.test("id-only messages fire no event, and the next request carries the id", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1" }, { maxStreamAgeMs: 2_000 });
  await using browser = await startBrowser();
  const page = await ready(await browser.open(gate.url));
  await page.evaluate(() => {
    const source = new EventSource("/rep/changes");
    for (const type of ["message", "rep:config:update", "rep:config:delete"]) {
      source.addEventListener(type, () => globalThis.seen.push(type));
    }
    source.addEventListener("open", () => globalThis.seen.push("open"));
  });
  assertEquals(await seenBy(page, 2), ["open", "open"]);
  const first = Number(gate.lines.find(({ msg }) => msg === "rep.config.changed")?.id);
  assertEquals(gate.cursors, ["none", String(first)]);
});

Deno.test("a page that an overloaded gateway sends away comes back, and misses nothing", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1" }, { maxStreams: 1 });
  await using browser = await startBrowser();
  const other = await gate.listen();
  const page = await ready(await browser.open(gate.url));
  await page.evaluate(() => globalThis.listen());
  while (gate.cursors.length < 1) await page.waitForTimeout(20);
  await gate.set({ REP_PUBLIC_A: "2" });
  await other.close();
  assertEquals(await seenBy(page, 1), [["A", "2"]]);
  assert(gate.cursors.length >= 2, "it was sent away at first");
});

Deno.test("a page survives the gateway's SIGKILL and restart: it hears what came before, while it was down, and after", async () => {
  await using directory = await directoryWithPage();
  const env = directory.at("app.env");
  const flags = [
    "--hot-reload",
    "--static-dir",
    directory.at("site"),
    "--env-file",
    env,
    "--kv",
    directory.at("kv.sqlite3"),
  ];
  const write = (value: string) => Deno.writeTextFile(env, `REP_PUBLIC_A=${value}\nREP_SENSITIVE_S=secret\n`);
  await using browser = await startBrowser();
  await write("1");
  let port: string;
  let page: Page;
  {
    await using command = await startCommand(flags);
    port = new URL(command.url).port;
    page = await ready(await browser.open(command.url));
    await listenOn(page);
    await write("2");
    command.signal("SIGHUP");
    assertEquals(await seenBy(page, 1), [["A", "2"]]);
    command.signal("SIGKILL");
    await command.ended();
  }
  await write("3");
  await using command = await startCommand([...flags, "--port", port]);
  assertEquals(await seenBy(page, 2), [["A", "2"], ["A", "3"]]);
  await write("4");
  command.signal("SIGHUP");
  assertEquals(await seenBy(page, 3), [["A", "2"], ["A", "3"], ["A", "4"]]);
  assertEquals(await page.evaluate(() => globalThis.rep.getSecure("S")), "secret"); // with the key of before the kill
});
