/** Angular's service worker, as npm has it, in front of the gateway, and with a build that `inject` has changed. */
import { assertEquals, assertMatch } from "@std/assert";
import { dirname, join } from "@std/path";
import type { Page } from "playwright-core";
import type { TestBrowser } from "./_browser.ts";
import { startCommand } from "./_command.ts";
import { run } from "./command/commands/_run.ts";
import { NpmExample, testNpmExample } from "./_npm_example.ts";
import { serveLocally } from "./_serve.ts";

const VARIABLES = { REP_PUBLIC_A: "1" };

/** The manifest of a service worker as `ng add @angular/pwa` makes it, with these differences. */
function configWith(differences: object, files = ["/index.html", "/*.js"]) {
  const app = { name: "app", installMode: "prefetch", resources: { files } };
  return { index: "/index.html", assetGroups: [app], ...differences };
}

/** Makes a build of an app for Angular's service worker. */
async function makeBuild(config: object): Promise<NpmExample> {
  const base = '<!doctype html><html><head><base href="/"></head><body>';
  const example = await NpmExample.make("angular", {
    "ngsw-config.json": JSON.stringify(config),
    "dist/index.html": `${base}<script src="main.js"></script></body></html>`,
    "dist/main.js":
      'addEventListener("load", () => navigator.serviceWorker.register("/ngsw-worker.js"));',
  });
  await Deno.copyFile(
    example.fileOf("@angular/service-worker/ngsw-worker.js"),
    example.at("dist/ngsw-worker.js"),
  );
  await writeHashes(example);
  return example;
}

/** Writes `dist/ngsw.json`, as `ng build` does. */
async function writeHashes(example: NpmExample) {
  const manifest = example.fileOf("@angular/service-worker/package.json");
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-lock",
      "-A",
      join(dirname(manifest), "ngsw-config.js"),
      "dist",
      "ngsw-config.json",
      "/",
    ],
    cwd: example.path,
  }).output();
  assertEquals(success, true, new TextDecoder().decode(stderr));
}

/** Opens a page, and waits until the worker has stored the build, or has rejected it. */
async function install(browser: TestBrowser, url: string, isStored = true) {
  const page = await browser.open(url);
  await page.waitForFunction(
    isStored
      ? "caches.match('/main.js').then((response) => response !== undefined)"
      : "fetch('/ngsw/state').then((it) => it.text()).then((it) => /state: EXISTING_CLIENTS_ONLY/.test(it))",
  );
  await page.waitForFunction("navigator.serviceWorker.controller !== null");
  return page;
}

/** Returns the value in the page at a path; `undefined` without a configuration, and `offline` without a page. */
async function visit(page: Page, url: string): Promise<unknown> {
  const response = await page.goto(url).catch(() => null);
  if (!response?.ok()) return "offline"; // the worker may answer 504
  return await page.evaluate(
    "JSON.parse(document.getElementById('__rep__')?.textContent ?? '{}').public?.A",
  );
}

const STRATEGIES: Record<string, [config: object, results: unknown[]]> = {
  "the default settings": [
    configWith({}),
    [undefined, undefined, undefined, undefined],
  ],
  'navigationRequestStrategy: "freshness"': [
    configWith({ navigationRequestStrategy: "freshness" }),
    ["1", "1", undefined, undefined],
  ],
  "files without index.html": [
    configWith({}, ["/*.js"]),
    ["1", "1", "1", "offline"],
  ],
};

for (const [name, [config, expected]] of Object.entries(STRATEGIES)) {
  testNpmExample(
    `Angular's service worker with ${name}: pages from the second visit on, and offline`,
    async (browser) => {
      await using build = await makeBuild(config);
      const flags = ["--kv", ":memory:", "--static-dir", build.at("dist")];
      const gateway = await startCommand(flags, VARIABLES);
      try {
        const page = await install(browser, gateway.url);
        const results = [];
        for (const path of ["/", "/any/page", "/index.html"]) {
          results.push(await visit(page, `${gateway.url}${path}`));
        }
        await gateway[Symbol.asyncDispose]();
        results.push(await visit(page, `${gateway.url}/`));
        assertEquals(results, expected);
      } finally {
        await gateway[Symbol.asyncDispose]();
      }
    },
  );
}

testNpmExample(
  "inject says what to do about Angular's service worker, which then has the page offline, too",
  async (browser) => {
    await using build = await makeBuild(configWith({}));
    const { code, err } = await run(["inject", build.at("dist")], VARIABLES);
    assertEquals(code, 0);
    assertMatch(String(err), /ngsw\.json contains the hashes of the previous/);
    const pages: unknown[] = [];
    for (const areHashesRight of [false, true]) {
      if (areHashesRight) await writeHashes(build);
      const server = serveLocally(async (request) => {
        const { pathname } = new URL(request.url);
        const name = pathname === "/" ? "/index.html" : pathname;
        const file = await Deno.readFile(build.at(`dist${name}`))
          .catch(() => undefined);
        if (file === undefined) return new Response(null, { status: 404 });
        const type = name.endsWith(".js") ? "text/javascript" : "text/html";
        return new Response(file, { headers: { "content-type": type } });
      });
      const page = await install(browser, server.url, areHashesRight);
      pages.push(await visit(page, server.url));
      await server.shutdown();
      pages.push(await visit(page, server.url));
    }
    assertEquals(pages, ["1", "offline", "1", "1"]);
  },
);
