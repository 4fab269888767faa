import { assertEquals } from "@std/assert";
import { ExamplePage } from "./_example.ts";
import { NpmExample, testNpmExample } from "./_npm_example.ts";

/** The component that a test edits. */
const COMPONENTS = { "vite-react": "src/App.tsx", "vite-vue": "src/App.vue" };

for (const [name, component] of Object.entries(COMPONENTS)) {
  testNpmExample(
    `examples/${name}: Vite's dev server behind the gateway replaces modules, and may restart`,
    async (browser) => {
      await using example = await NpmExample.copy(name);
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
        await using _restarted = await example.startVite({ port: new URL(vite.url).port });
        await page.page.waitForFunction("globalThis.isMarked !== true"); // Vite's client reloads the page
        await page.shows("h1", "Good morning");
        await example.edit(component, "Tariff:", "Plan:");
        await page.shows("p", "Plan: free");
      } finally {
        await vite[Symbol.asyncDispose]();
      }
    },
  );

  testNpmExample(
    `examples/${name} compiles with its generated types, and its build works behind the gateway`,
    async (browser) => {
      await using example = await NpmExample.copy(name);
      await example.build();
      await using gateway = await example.startGateway("--static-dir", example.at("dist"));
      const page = await ExamplePage.open(browser, gateway.url);
      await page.check((from, to) => example.edit("app.env", from, to));
      await page.shows("p", "Plan: free");
    },
  );
}

testNpmExample(
  "examples/vite-react works with the client as a package instead of from the gateway",
  async (browser) => {
    await using example = await NpmExample.copy("vite-react");
    await example.edit("vite.config.ts", "react(), clientFromGateway()", "react()");
    await example.build();
    await using gateway = await example.startGateway("--static-dir", example.at("dist"), "--access-log");
    const page = await ExamplePage.open(browser, gateway.url);
    await page.check((from, to) => example.edit("app.env", from, to));
    assertEquals(gateway.output.filter((line) => line.includes("/rep/client.js")), []);
  },
);
