import { assertEquals } from "@std/assert";
import { testBrowser } from "./_browser.ts";
import { startCommand } from "./_command.ts";
import { ExamplePage } from "./_example.ts";
import { NpmExample, testNpmExample } from "./_npm_example.ts";
import { TempDirectory } from "./_temp.ts";

/** Waits until the service worker is active and controls the page. */
async function controlled({ page }: ExamplePage) {
  await page.waitForFunction(
    "navigator.serviceWorker.controller?.state === 'activated'",
  );
}

/** Waits until the service worker has stored the responses for these paths, which it does after it has sent them. */
async function stored(
  { page }: ExamplePage,
  paths: readonly string[],
) {
  for (const path of paths) {
    await page.waitForFunction((path) => caches.match(path), path);
  }
}

testNpmExample(
  "examples/service-worker: a page works offline, unless it has SENSITIVE values",
  async (browser) => {
    await using example = await NpmExample.copy("service-worker");
    await example.build();
    const gateway = await example.startGateway(
      "--static-dir",
      example.at("dist"),
    );
    const page = await ExamplePage.open(browser, gateway.url);
    const startAgain = () =>
      example.startGateway(
        "--static-dir",
        example.at("dist"),
        "--port",
        new URL(gateway.url).port,
      );
    try {
      await controlled(page);
      await page.page.reload(); // now through the service worker
      await page.check((from, to) => example.edit("app.env", from, to));
      await stored(page, ["/rep/client.js"]);
      assertEquals(
        await page.page.evaluate(
          "caches.match('/').then((response) => response === undefined)",
        ),
        true,
      );
    } finally {
      await gateway[Symbol.asyncDispose]();
    }
    await example.edit("app.env", /REP_SENSITIVE_.*/, "");
    {
      await using _withoutSecrets = await startAgain();
      await page.page.reload();
      await stored(page, ["/", "/rep/client.js"]);
    }
    await page.page.goto(`${gateway.url}/any/page`);
    await page.shows("h1", "Good morning");
    await page.mark();
    await example.edit("app.env", "Good morning", "Good evening");
    await using _restarted = await startAgain();
    await page.shows("h1", "Good evening");
    assertEquals(await page.isMarked(), true);
  },
);

testNpmExample(
  "examples/service-worker: a page that is precached, as is the plugin's default, has no configuration",
  async (browser) => {
    await using example = await NpmExample.copy("service-worker");
    await example.edit("vite.config.ts", / {6}workbox: {[^]*\n {6}},\n/, "");
    await example.build();
    await using gateway = await example.startGateway(
      "--static-dir",
      example.at("dist"),
    );
    const page = await ExamplePage.open(browser, gateway.url);
    await controlled(page);
    const isConfigured = () =>
      page.page.evaluate("document.getElementById('__rep__') !== null");
    assertEquals(await isConfigured(), true); // this page came from the network
    await page.page.reload();
    assertEquals(await isConfigured(), false);
    assertEquals(await page.page.textContent("h1"), "");
  },
);

/** Returns the first code block of a guide in this language. */
async function codeBlock(guide: string, language: string) {
  const text = await Deno.readTextFile(guide);
  const [, code] =
    new RegExp(`^\`\`\`${language} ignore\n([^]*?)^\`\`\``, "m").exec(text) ??
      [];
  if (code === undefined) {
    throw new Error(`Cannot find a code block in ${guide}`);
  }
  return code;
}

testBrowser(
  "docs/service_workers.md: the worker without Workbox keeps a page that is not secret",
  async (browser) => {
    const register = 'navigator.serviceWorker.register("sw.js")';
    await using site = await TempDirectory.make({
      "index.html": `<!doctype html><script type="module">${register}</script>`,
      "sw.js": await codeBlock("docs/service_workers.md", "js"),
    });
    const results: unknown[] = [];
    for (
      const variables of [{ REP_PUBLIC_A: "1" }, {
        REP_PUBLIC_A: "1",
        REP_SENSITIVE_B: "2",
      }]
    ) {
      await using gateway = await startCommand([
        "--kv",
        ":memory:",
        "--static-dir",
        site.path,
      ], variables);
      const { page } = await ExamplePage.open(browser, gateway.url);
      await page.waitForFunction(
        "navigator.serviceWorker.ready.then(({ active }) => active.state === 'activated')",
      );
      await page.reload();
      const isStored = await page.evaluate(
        "caches.match('/').then((response) => response !== undefined)",
      );
      await gateway[Symbol.asyncDispose]();
      const isConfigured = () =>
        page.evaluate("document.getElementById('__rep__') !== null");
      results.push([
        isStored,
        await page.reload().then(isConfigured, () => "offline"),
      ]);
    }
    assertEquals(results, [[true, true], [false, "offline"]]);
  },
);

testNpmExample(
  "the plugin for Vite warns of precached pages, until the configuration is that of the guide",
  async () => {
    await using example = await NpmExample.copy("service-worker");
    const isWarned = async () => {
      const { success, output } = await example.run("vite", "build");
      assertEquals(success, true, output);
      return output.includes(
        "[rep] dist/sw.js: from the second visit on, precached pages have no configuration",
      );
    };
    await example.edit(
      "vite.config.ts",
      /^/,
      'import { rep } from "@rep/gateway/vite";\n',
    );
    await example.edit("vite.config.ts", "plugins: [", "plugins: [rep(),");
    assertEquals(await isWarned(), false);
    await example.edit("vite.config.ts", "navigateFallback: null,", "");
    assertEquals(await isWarned(), true);
    await example.edit("vite.config.ts", /globPatterns:.*/, "");
    assertEquals(await isWarned(), true);
  },
);
