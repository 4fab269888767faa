import { assertEquals, assertRejects } from "@std/assert";
import { Hono } from "hono";
import { CLIENT_JS } from "../src/client/bundle.ts";
import { configuration } from "../examples/hono/configuration.ts";
import { testBrowser } from "./_browser.ts";
import { runCommand, startModule } from "./_command.ts";
import { setUp } from "./_gateway.ts";
import { Example, ExamplePage, testExample } from "./_example.ts";

/** The component that a test edits. */
const COMPONENTS = { "vite-react": "src/App.tsx", "vite-vue": "src/App.vue" };

const TYPED = ["vite-react", "vite-vue", "service-worker"];

for (const [name, component] of Object.entries(COMPONENTS)) {
  testExample(
    `examples/${name}: Vite's dev server behind the gateway replaces modules, and may restart`,
    async (browser) => {
      await using example = await Example.copy(name);
      const vite = await example.startVite();
      try {
        await using gateway = await example.startGateway("--upstream", vite.url);
        const page = await ExamplePage.open(browser, gateway.url);
        await page.check((from, to) => example.edit("app.env", from, to));

        await example.edit(component, "Plan:", "Tariff:");
        await page.shows("p", "Tariff: free");
        await page.shows("output", "example-map-key"); // the component has kept its state
        assertEquals(vite.output.filter((line) => /error|fail/i.test(line)), []);
        assertEquals([await page.isMarked(), page.errors], [true, []]);

        await vite[Symbol.asyncDispose]();
        await using _restarted = await example.startVite(new URL(vite.url).port);
        await page.page.waitForFunction("globalThis.isMarked !== true"); // Vite's client reloads the page
        await page.shows("h1", "Good morning");
        await example.edit(component, "Tariff:", "Plan:");
        await page.shows("p", "Plan: free");
      } finally {
        await vite[Symbol.asyncDispose]();
      }
    },
  );

  testExample(
    `examples/${name} compiles with its generated types, and its build works behind the gateway`,
    async (browser) => {
      await using example = await Example.copy(name);
      await example.build();
      await using gateway = await example.startGateway("--static-dir", example.at("dist"));
      const page = await ExamplePage.open(browser, gateway.url);
      await page.check((from, to) => example.edit("app.env", from, to));
      await page.shows("p", "Plan: free");
    },
  );
}

testExample("examples/vite-react works with the client as a package instead of from the gateway", async (browser) => {
  await using example = await Example.copy("vite-react");
  await example.edit("vite.config.ts", "react(), clientFromGateway()", "react()");
  await example.addPackage("@rep/gateway", { "./client": CLIENT_JS });
  await example.build();
  await using gateway = await example.startGateway("--static-dir", example.at("dist"), "--access-log");
  const page = await ExamplePage.open(browser, gateway.url);
  await page.check((from, to) => example.edit("app.env", from, to));
  assertEquals(gateway.output.filter((line) => line.includes("/rep/client.js")), []);
});

/** Waits until the service worker is active and controls the page. */
async function controlled({ page }: ExamplePage): Promise<void> {
  await page.waitForFunction("navigator.serviceWorker.controller?.state === 'activated'");
}

testExample("examples/service-worker: a page works offline, unless it has SENSITIVE values", async (browser) => {
  await using example = await Example.copy("service-worker");
  await example.build();
  const flags = ["--static-dir", example.at("dist")];
  const gateway = await example.startGateway(...flags);
  const page = await ExamplePage.open(browser, gateway.url);
  const isStored = () => page.page.evaluate("caches.match('/').then((response) => response !== undefined)");
  try {
    await controlled(page);
    await page.page.reload(); // now through the service worker
    await page.check((from, to) => example.edit("app.env", from, to));
    assertEquals(await isStored(), false);
    await example.edit("app.env", /REP_SENSITIVE_.*/, "");
    await gateway.logged(({ msg, sensitive }) => msg === "rep.config.reloaded" && sensitive === 0);
    await page.page.reload();
    assertEquals(await isStored(), true);
  } finally {
    await gateway[Symbol.asyncDispose]();
  }
  await page.page.goto(`${gateway.url}/any/page`);
  await page.shows("h1", "Good morning");
  await page.mark();
  await example.edit("app.env", "Good morning", "Good evening");
  await using _restarted = await example.startGateway(...flags, "--port", new URL(gateway.url).port);
  await page.shows("h1", "Good evening");
  assertEquals(await page.isMarked(), true);
});

testExample(
  "examples/service-worker: a page that is precached, as is the plugin's default, has no configuration",
  async (browser) => {
    await using example = await Example.copy("service-worker");
    await example.edit("vite.config.ts", / {6}workbox: {[^]*\n {6}},\n/, "");
    await example.build();
    await using gateway = await example.startGateway("--static-dir", example.at("dist"));
    const page = await ExamplePage.open(browser, gateway.url);
    await controlled(page);
    const isConfigured = () => page.page.evaluate("document.getElementById('__rep__') !== null");
    assertEquals(await isConfigured(), true); // this page came from the network
    await page.page.reload();
    assertEquals(await isConfigured(), false);
    assertEquals(await page.page.textContent("h1"), "");
  },
);

testBrowser("examples/hono: a page with a nonce has the configuration", async (browser) => {
  await using example = await Example.copy("hono");
  await using server = await startModule("examples/hono/server.ts", [example.at("variables.json"), "0"]);
  const page = await ExamplePage.open(browser, server.url);
  await page.check(async (from, to) => {
    await example.edit("variables.json", from, to);
    server.signal("SIGHUP");
  });
  assertEquals(await (await fetch(`${server.url}/rep/health`)).json().then(({ status }) => status), "healthy");
});

Deno.test("examples/hono: a page has the headers of the gateway, not those of the original response", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1", REP_SENSITIVE_B: "2" });
  const headers = {
    "cache-control": "max-age=60",
    "content-length": "13",
    "etag": '"a"',
    "expires": "0",
    "x-own": "kept",
  };
  const app = new Hono()
    .use(configuration(gate.gateway))
    .get("/", (context) => context.html("<title>a</title>", { headers }));
  const page = await app.request("/");
  assertEquals((await page.text()).includes("__rep__"), true);
  assertEquals(Object.fromEntries(page.headers), {
    "cache-control": "no-store",
    "content-type": "text/html; charset=UTF-8",
    "vary": "Sec-Fetch-Dest, Sec-Fetch-Mode",
    "x-own": "kept",
  });
  assertEquals((await app.request("/rep/health")).status, 200);
});

testBrowser("examples/csp: a page with a strict policy has the configuration", async (browser) => {
  await using example = await Example.copy("csp");
  await using gateway = await example.startGateway("--static-dir", example.at(""));
  const page = await ExamplePage.open(browser, gateway.url);
  await page.check((from, to) => example.edit("app.env", from, to));
  const insertScript = () => page.page.evaluate("document.createElement('script').textContent = '1'");
  await assertRejects(insertScript, Error, "requires 'TrustedScript' assignment");
});

testBrowser(
  "examples/csp: without connect-src, a page has PUBLIC values but neither key nor stream",
  async (browser) => {
    await using example = await Example.copy("csp");
    await example.edit("index.html", "connect-src 'self'; ", "");
    await using gateway = await example.startGateway("--static-dir", example.at(""));
    const page = await ExamplePage.open(browser, gateway.url);
    await page.shows("h1", "Hello from the gateway");
    await page.page.getByRole("button").click();
    await page.page.waitForEvent("console", () => page.errors.some((text) => text.includes("/rep/session-key")));
    assertEquals(page.errors.some((text) => text.includes("/rep/changes")), true);
  },
);

for (const name of TYPED) {
  Deno.test(`examples/${name}/src/rep.d.ts has the types of its manifest`, async () => {
    const { stdout } = await runCommand(["typegen", "--manifest", `examples/${name}/.rep.yaml`]);
    assertEquals(await Deno.readTextFile(`examples/${name}/src/rep.d.ts`), stdout);
  });
}
