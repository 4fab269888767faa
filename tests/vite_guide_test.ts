import { assertEquals, assertExists } from "@std/assert";
import { ExamplePage } from "./_example.ts";
import { NpmExample, testNpmExample } from "./_npm_example.ts";

/** What the file of an app with React has already. */
const IMPORTS =
  'import react from "@vitejs/plugin-react";\nimport { defineConfig } from "vite";\n';

/** The component that a test edits. */
const COMPONENTS = { "vite-react": "src/App.tsx", "vite-vue": "src/App.vue" };

testNpmExample(
  "the quick start with Vite in README.md gives an open page its values, and changes them",
  async (browser) => {
    const [, section = ""] = (await Deno.readTextFile("README.md")).split(
      "\n## Quick start with Vite\n",
    );
    const [, config = ""] = /```ts ignore\n([^]*?)```/.exec(section) ?? [];
    const [, variable] = /Write\s+`(REP_PUBLIC_TITLE=Hello)`/.exec(section) ??
      [];
    assertExists(variable);
    await using example = await NpmExample.copy("vite-react");
    await Deno.writeTextFile(
      example.at("vite.config.ts"),
      `${IMPORTS}${config}`,
    );
    await Deno.writeTextFile(example.at("app.env"), `${variable}\n`);
    await using vite = await example.startVite();
    const page = await ExamplePage.open(browser, vite.url);
    await page.shows("h1", "Hello");
    await page.mark();
    await example.edit("app.env", "Hello", "Good morning");
    await page.shows("h1", "Good morning");
    assertEquals(await page.isMarked(), true);
  },
);

for (const [name, component] of Object.entries(COMPONENTS)) {
  testNpmExample(
    `examples/${name}: values and modules change in open pages, and Vite may restart`,
    async (browser) => {
      await using example = await NpmExample.copy(name);
      await using vite = await example.startVite();
      const page = await ExamplePage.open(browser, vite.url);
      await page.check((from, to) => example.edit("app.env", from, to));

      await example.edit(component, "Plan:", "Tariff:");
      await page.shows("p", "Tariff: free");
      await page.shows("output", "example-map-key"); // the component has kept its state
      await example.edit(
        "app.env",
        "REP_PUBLIC_TITLE",
        "REP_PUBLIC_PLAN=any\nREP_PUBLIC_TITLE",
      );
      const overlay = page.page.locator("vite-error-overlay");
      await overlay.getByText("app.env:1: Cannot use REP_PUBLIC_PLAN")
        .waitFor();
      await example.edit("app.env", "PLAN=any", "PLAN=pro");
      await page.shows("p", "Tariff: pro");
      await overlay.waitFor({ state: "detached" });
      assertEquals([await page.isMarked(), page.errors], [true, []]);

      await example.edit(
        "vite.config.ts",
        "plugins",
        "appType: 'spa', plugins",
      );
      await example.edit("app.env", "PLAN=pro", "PLAN=free");
      await page.page.waitForFunction("globalThis.isMarked !== true"); // Vite's client reloads the page
      await page.shows("p", "Tariff: free");
      await example.edit("app.env", "PLAN=free", "PLAN=pro");
      await page.shows("p", "Tariff: pro");
    },
  );

  testNpmExample(
    `examples/${name} compiles with its generated types, and its build works in the preview and behind the gateway`,
    async (browser) => {
      await using example = await NpmExample.copy(name);
      await example.build();
      {
        await using preview = await example.startVite({ command: "preview" });
        const page = await ExamplePage.open(browser, preview.url);
        await page.check((from, to) => example.edit("app.env", from, to));
        await example.edit("app.env", "Good morning", "Hello from the gateway");
      }
      await using gateway = await example.startGateway(
        "--static-dir",
        example.at("dist"),
        "--access-log",
      );
      const page = await ExamplePage.open(browser, gateway.url);
      await page.check((from, to) => example.edit("app.env", from, to));
      await page.shows("p", "Plan: free");
      assertEquals(
        gateway.output.filter((line) => line.includes("/rep/client.js")),
        [],
      ); // it is in the build
    },
  );

  testNpmExample(
    `examples/${name} without the plugin: a dev server behind the gateway replaces modules, and may restart`,
    async (browser) => {
      await using example = await NpmExample.copy(name);
      await example.edit("vite.config.ts", /, rep\(.*\)/, "");
      const vite = await example.startVite();
      try {
        await using gateway = await example.startGateway(
          "--upstream",
          vite.url,
        );
        const page = await ExamplePage.open(browser, gateway.url);
        await page.check((from, to) => example.edit("app.env", from, to));

        await example.edit(component, "Plan:", "Tariff:");
        await page.shows("p", "Tariff: free");
        await page.shows("output", "example-map-key"); // the component has kept its state
        assertEquals(
          vite.output.filter((line) => /error|fail/i.test(line)),
          [],
        );
        assertEquals([await page.isMarked(), page.errors], [true, []]);

        await vite[Symbol.asyncDispose]();
        await using _restarted = await example.startVite({
          port: new URL(vite.url).port,
        });
        await page.page.waitForFunction("globalThis.isMarked !== true"); // Vite's client reloads the page
        await page.shows("h1", "Good morning");
        await example.edit(component, "Tariff:", "Plan:");
        await page.shows("p", "Plan: free");
      } finally {
        await vite[Symbol.asyncDispose]();
      }
    },
  );
}
