import { assertEquals } from "@std/assert";
import { CLIENT_JS } from "../src/client/bundle.ts";
import { runCommand } from "./_command.ts";
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

for (const name of TYPED) {
  Deno.test(`examples/${name}/src/rep.d.ts has the types of its manifest`, async () => {
    const { stdout } = await runCommand(["typegen", "--manifest", `examples/${name}/.rep.yaml`]);
    assertEquals(await Deno.readTextFile(`examples/${name}/src/rep.d.ts`), stdout);
  });
}
