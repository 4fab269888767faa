import { assert, assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import type { GatewayOptions } from "../src/options.ts";
import { testBrowser } from "./_browser.ts";
import { startCommand } from "./_command.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { TempDirectory } from "./_temp.ts";

/** A page that loads the client module, and records every change once `listen()` is called. */
const PAGE = `<!doctype html>
<html><head><meta charset="utf-8"><title>test</title><script type="module">
import { rep } from "./rep/client.js";
window.rep = rep;
window.seen = [];
window.listen = () => void rep.onAnyChange((key, value) => window.seen.push([key, value ?? null]));
window.isReady = true;
</script></head><body>The page</body></html>`;

/** A page whose URLs are resolved against another origin, on which nothing listens. */
const PAGE_WITH_BASE = PAGE
  .replace("<head>", '<head><base href="http://127.0.0.1:9/base/">')
  .replace(
    'import { rep } from "./rep/client.js";',
    'const { rep } = await import(location.origin + "/rep/client.js");',
  );

/** The globals of the page that tests use; functions passed to `evaluate` run in the page. */
declare global {
  var rep: typeof import("../src/client/mod.ts").default,
    seen: unknown[],
    listen: () => void,
    isReady: boolean;
}

async function directoryWithPage() {
  const directory = await TempDirectory.make();
  await Deno.mkdir(directory.at("site"));
  await Deno.writeTextFile(directory.at("site/index.html"), PAGE);
  await Deno.writeTextFile(directory.at("site/base.html"), PAGE_WITH_BASE);
  await Deno.writeTextFile(
    directory.at("site/other.html"),
    "<!doctype html><title>other</title>",
  );
  return directory;
}

interface Served extends TestGateway {
  url: string;
  /** The cursor of each stream request: the `Last-Event-ID` header, or else the query parameter. */
  cursors: string[];
}

/** Starts a gateway in this process, on a real port. */
async function serve(
  variables: Record<string, string>,
  options: GatewayOptions = {},
) {
  const directory = await directoryWithPage();
  const gate = await setUp(variables, {
    staticDir: directory.at("site"),
    random: () => 0,
    ...options,
  });
  const cursors: string[] = [];
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request, info) => {
      const { pathname, searchParams } = new URL(request.url);
      const id = request.headers.get("last-event-id") ??
        searchParams.get("last_event_id") ?? "none";
      if (pathname === "/rep/changes") cursors.push(id);
      return gate.gateway.fetch(request, info);
    },
  );
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

async function ready(page: Page) {
  await page.waitForFunction(() => globalThis.isReady);
  return page;
}

/** Waits until the page has recorded this many changes, and returns all it has recorded. */
async function seenBy(page: Page, count: number): Promise<unknown[]> {
  await page.waitForFunction(
    (count) => globalThis.seen.length >= count,
    count,
  );
  return await page.evaluate(() => globalThis.seen);
}

async function listenOn(page: Page) {
  await page.evaluate(() => globalThis.listen());
  await page.waitForFunction(() => globalThis.rep.status().state === "open");
}

testBrowser(
  "a page reads PUBLIC values synchronously and decrypts SENSITIVE ones on demand",
  async (browser) => {
    const values = {
      REP_PUBLIC_A: "</script><b>&amp;\u2028é",
      REP_SENSITIVE_S: "s€cret",
      REP_SERVER_V: "never",
    };
    await using gate = await serve(values);
    const page = await ready(await browser.open(gate.url));
    assertEquals(await page.evaluate(() => globalThis.rep.getAll()), {
      A: values.REP_PUBLIC_A,
    });
    assertEquals(
      await page.evaluate(() => globalThis.rep.getSecure("S")),
      "s€cret",
    );
    assertEquals(await page.evaluate(() => globalThis.rep.verify()), true);
    assertEquals(await page.textContent("body"), "The page");
    assert(!(await page.content()).includes("never"));
    const { sensitiveAvailable, publicCount } =
      await page.evaluate(() => globalThis.rep.meta()) ?? {};
    assertEquals({ sensitiveAvailable, publicCount }, {
      sensitiveAvailable: true,
      publicCount: 1,
    });
  },
);

testBrowser(
  "a page under a base path loads its client, decrypts, and receives changes",
  async (browser) => {
    await using gate = await serve({
      REP_PUBLIC_A: "1",
      REP_SENSITIVE_S: "secret",
    }, { basePath: "/app" });
    const page = await ready(await browser.open(`${gate.url}app`));
    assertEquals(page.url(), `${gate.url}app/`);
    assertEquals(
      await page.evaluate(() => globalThis.rep.getSecure("S")),
      "secret",
    );
    await listenOn(page);
    await gate.set({ REP_PUBLIC_A: "2", REP_SENSITIVE_S: "secret" });
    assertEquals(await seenBy(page, 1), [["A", "2"]]);
  },
);

testBrowser("a page of another origin gets no session key", async (browser) => {
  await using gate = await serve({ REP_SENSITIVE_S: "secret" });
  await using elsewhere = await serve({});
  const page = await ready(await browser.open(elsewhere.url));
  const results = await page.evaluate(async (url) => {
    const attempts = [
      fetch(url),
      fetch(url, { mode: "no-cors" }).then((response) => response.text()),
    ];
    return await Promise.all(
      attempts.map((attempt) => attempt.then(String, () => "rejected")),
    );
  }, `${gate.url}rep/session-key`);
  assertEquals(results, ["rejected", ""]); // the opaque response of a 403 has no text
  const rejected = gate.logged("rep.session_key.rejected");
  assertEquals(rejected.map(({ reason }) => reason), ["origin_mismatch"]); // the other one is only counted
});

testBrowser(
  "a page of an allowed origin gets a session key, one of the gateway's own, unlisted origin does not",
  async (browser) => {
    await using app = await serve({});
    const appOrigin = app.url.slice(0, -1);
    await using gate = await serve({ REP_SENSITIVE_S: "secret" }, {
      allowedOrigins: [appOrigin],
    });
    const page = await ready(await browser.open(app.url));
    const fieldsOf = (url: string) =>
      fetch(url).then(
        async (response) => Object.keys(await response.json()),
        () => ["rejected"],
      );
    assertEquals(await page.evaluate(fieldsOf, `${gate.url}rep/session-key`), [
      "key",
      "expires_at",
    ]);
    const own = await ready(await browser.open(gate.url)); // same-origin, but not listed
    assertEquals(await own.evaluate(fieldsOf, `${gate.url}rep/session-key`), [
      "title",
      "status",
      "detail",
    ]);
  },
);

testBrowser(
  "a page of an allowed origin may send credentials, and headers that its libraries add, to each endpoint",
  async (browser) => {
    await using app = await serve({});
    const variables = { REP_PUBLIC_A: "1", REP_SENSITIVE_S: "secret" };
    await using listed = await serve(variables, {
      allowedOrigins: [app.url.slice(0, -1)],
      ofrep: true,
    });
    await using other = await serve(variables, {
      allowedOrigins: ["https://app.example.com"],
      ofrep: true,
    });
    const page = await ready(await browser.open(app.url));
    const statuses = (url: string) =>
      page.evaluate(async (url) => {
        const ask = async (path: string, method: string) => {
          const headers = {
            "traceparent": `00-${"1".repeat(32)}-${"1".repeat(16)}-01`,
            "baggage": "a=b",
          };
          const init: RequestInit = { method, headers, credentials: "include" };
          const response = await fetch(url + path, init).catch(() => undefined);
          await response?.body?.cancel();
          return response?.status;
        };
        return [
          await ask("rep/session-key", "GET"),
          await ask("rep/session-key?kid=malformed", "GET"),
          await ask("rep/changes", "GET"),
          await ask("ofrep/v1/evaluate/flags", "POST"),
          await ask("ofrep/v1/evaluate/flags/A", "POST"),
          await ask("ofrep/v1/evaluate/flags/NONE", "POST"),
        ];
      }, url);
    assertEquals(await statuses(listed.url), [200, 400, 200, 200, 200, 404]);
    assertEquals(await statuses(other.url), Array(6).fill(undefined));
  },
);

testBrowser(
  "a page receives updates, additions and deletions, and a change made between its load and its stream",
  async (browser) => {
    await using gate = await serve({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" });
    const page = await ready(await browser.open(gate.url));
    await gate.set({ REP_PUBLIC_A: "2", REP_PUBLIC_B: "1" }); // the page does not listen yet
    await listenOn(page);
    assertEquals(await seenBy(page, 1), [["A", "2"]]);
    await gate.set({ REP_PUBLIC_A: "2", REP_PUBLIC_C: "3" });
    assertEquals(await seenBy(page, 3), [["A", "2"], ["C", "3"], ["B", null]]);
    assertEquals(await page.evaluate(() => globalThis.rep.getAll()), {
      A: "2",
      C: "3",
    });
    assertEquals(await page.evaluate(() => globalThis.rep.get("B")), undefined);
  },
);

testBrowser(
  "a <base> element does not lead the client to another origin",
  async (browser) => {
    await using gate = await serve({
      REP_PUBLIC_A: "1",
      REP_SENSITIVE_S: "secret",
    });
    const page = await ready(await browser.open(`${gate.url}base.html`));
    assertEquals(
      await page.evaluate("document.baseURI"),
      "http://127.0.0.1:9/base/",
    );
    assertEquals(
      await page.evaluate(() => globalThis.rep.getSecure("S")),
      "secret",
    );
    await listenOn(page);
    await gate.set({ REP_PUBLIC_A: "2", REP_SENSITIVE_S: "secret" });
    assertEquals(await seenBy(page, 1), [["A", "2"]]);
  },
);

testBrowser(
  "a document has no configuration when a script requests it, and has it as a page, in any order",
  async (browser) => {
    await using gate = await serve({ REP_PUBLIC_A: "1" });
    const page = await ready(await browser.open(gate.url));
    const isConfigured = () =>
      page.evaluate("document.getElementById('__rep__') !== null");
    const fetched = () =>
      page.evaluate(async () =>
        (await (await fetch("/other.html")).text()).includes("__rep__")
      );
    assertEquals([await fetched(), await fetched()], [false, false]); // the second one revalidates the stored fragment
    await page.goto(`${gate.url}other.html`);
    assertEquals([await isConfigured(), await fetched()], [true, false]);
    await page.reload();
    assertEquals(await isConfigured(), true);
  },
);

testBrowser(
  "a page in the HTTP cache has the current values after a reload",
  async (browser) => {
    await using gate = await serve({ REP_PUBLIC_A: "1" });
    const page = await ready(await browser.open(gate.url));
    await page.reload();
    assertEquals(
      await (await ready(page)).evaluate(() => globalThis.rep.get("A")),
      "1",
    );
    await gate.set({ REP_PUBLIC_A: "2" });
    await page.reload(); // revalidates with an ETag that no longer matches
    assertEquals(
      await (await ready(page)).evaluate(() => globalThis.rep.get("A")),
      "2",
    );
  },
);

/**
 * Makes a page believe that its tab is shown or hidden. Browsers that Playwright controls show every tab, and npm's
 * Chromium, a headless shell, does so in any case.
 */
async function setHidden(page: Page, isHidden: boolean) {
  const state = isHidden ? "hidden" : "visible";
  await page.evaluate(`{
    Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true });
    Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });
    document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));
  }`);
}

testBrowser(
  "of eight tabs only the shown one has a stream, and a hidden one catches up when it is shown",
  async (browser) => {
    await using gate = await serve({ REP_PUBLIC_A: "1" });
    const first = await browser.open(gate.url);
    const tabs = [first];
    while (tabs.length < 8) tabs.push(await first.context().newPage());
    const hidden = tabs.slice(0, -1);
    const [last] = tabs.slice(-1) as [Page];
    for (const tab of tabs) {
      await tab.goto(gate.url);
      await listenOn(await ready(tab));
      if (tab !== last) await setHidden(tab, true);
    }
    for (const tab of hidden) {
      await tab.waitForFunction(() =>
        globalThis.rep.status().state === "closed"
      );
    }
    await gate.set({ REP_PUBLIC_A: "2" });
    assertEquals(await seenBy(last, 1), [["A", "2"]]);
    for (const tab of hidden) assertEquals(await seenBy(tab, 0), []);
    await setHidden(last, true);
    await setHidden(first, false);
    assertEquals(await seenBy(first, 1), [["A", "2"]]);
  },
);

testBrowser(
  "an id-only message fires no event and becomes the Last-Event-ID of the next request",
  async (browser) => {
    await using gate = await serve({ REP_PUBLIC_A: "1" }, {
      maxStreamAgeMs: 2_000,
    });
    const page = await ready(await browser.open(gate.url));
    await page.evaluate(() => {
      const source = new EventSource("/rep/changes");
      for (
        const type of ["message", "rep:config:update", "rep:config:delete"]
      ) {
        source.addEventListener(type, () => globalThis.seen.push(type));
      }
      source.addEventListener("open", () => globalThis.seen.push("open"));
    });
    assertEquals((await seenBy(page, 2)).slice(0, 2), ["open", "open"]); // it goes on, every 2 s
    const first = Number(
      gate.logged("rep.config.changed")[0]?.id,
    );
    assertEquals(gate.cursors.slice(0, 2), ["none", String(first)]);
  },
);

testBrowser(
  "a page that an overloaded gateway rejects reconnects and misses no change",
  async (browser) => {
    await using gate = await serve({ REP_PUBLIC_A: "1" }, { maxStreams: 1 });
    const other = await gate.listen();
    const page = await ready(await browser.open(gate.url));
    await page.evaluate(() => globalThis.listen());
    while (gate.cursors.length < 1) await page.waitForTimeout(20);
    await gate.set({ REP_PUBLIC_A: "2" });
    await other.close();
    assertEquals(await seenBy(page, 1), [["A", "2"]]);
    assert(gate.cursors.length >= 2, "the first request was rejected");
  },
);

testBrowser(
  "a page receives every change before, during and after a SIGKILL and restart of the gateway",
  async (browser) => {
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
    const write = (value: string) =>
      Deno.writeTextFile(
        env,
        `REP_PUBLIC_A=${value}\nREP_SENSITIVE_S=secret\n`,
      );
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
    assertEquals(
      await page.evaluate(() => globalThis.rep.getSecure("S")),
      "secret",
    ); // with a key from before the SIGKILL
  },
);
