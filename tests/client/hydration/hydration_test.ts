/** Pages that a server renders with values of its gateway, hydrated in a browser: the first render must be the same. */
import { assertEquals } from "@std/assert";
import { createElement } from "react";
import { renderToString as renderReact } from "react-dom/server";
import { renderToString as renderVue } from "vue/server-renderer";
import { createGateway } from "../../../main.ts";
import { GATEWAYS } from "../../../src/client/page.ts";
import { type TestBrowser, testBrowser } from "../../_browser.ts";
import { App } from "./react_app.ts";
import { createApp } from "./vue_app.ts";
import { serveLocally } from "../../_serve.ts";

declare global {
  /** The newest title that has arrived. */
  var changedTitle: string | undefined;
  /** Hydrates the page. */
  var hydrate: () => void;
}

/** How each framework renders the app. */
const FRAMEWORKS = {
  react: () => renderReact(createElement(App)),
  vue: () => renderVue(createApp()),
};

/** Vue warns of a bundle that does not define them. */
const VUE_FLAGS =
  "globalThis.__VUE_OPTIONS_API__ = globalThis.__VUE_PROD_DEVTOOLS__ = " +
  "globalThis.__VUE_PROD_HYDRATION_MISMATCH_DETAILS__ = true;";

/** Bundles what a page runs, with the framework as it is in development, where it reports mismatches. */
async function bundlePage(framework: string) {
  const page = new URL(`${framework}_page.ts`, import.meta.url).href;
  const command = new Deno.Command(Deno.execPath(), {
    args: ["bundle", "--quiet", "--no-lock", "--platform", "browser", page],
  });
  const { success, stdout, stderr } = await command.output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return VUE_FLAGS + new TextDecoder().decode(stdout);
}

/** Serves a page whose app a function renders, and opens it. */
async function open(
  browser: TestBrowser,
  framework: string,
  render: () => string | Promise<string>,
) {
  Reflect.deleteProperty(globalThis, GATEWAYS); // as in a process that has just started
  const script = await bundlePage(framework);
  const variables: Record<string, string> = {
    REP_PUBLIC_TITLE: "One",
    REP_SENSITIVE_KEY: "abc-123",
  };
  const gateway = await createGateway({
    variables: () => variables,
    hotReload: true,
  });
  async function change(title: string) {
    variables["REP_PUBLIC_TITLE"] = title;
    await gateway.reload();
  }
  async function renderPage(request: Request) {
    const html = `<!doctype html><head><link rel="icon" href="data:,"></head>` +
      `<div id="app">${await render()}</div>` +
      `<script type="module" src="/page.js"></script>`;
    const headers = { "content-type": "text/html" };
    return await gateway.inject(new Response(html, { headers }), request);
  }
  async function handle(request: Request) {
    if (request.url.endsWith("/page.js")) {
      const headers = { "content-type": "text/javascript" };
      return new Response(script, { headers });
    }
    const answer = await gateway.handle(request);
    return answer ?? await gateway.run(() => renderPage(request));
  }
  const server = serveLocally(handle);
  const page = await browser.open("about:blank");
  const problems: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) {
      problems.push(message.text());
    }
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(server.url);
  await page.waitForFunction(() => globalThis.hydrate !== undefined);
  return {
    page,
    change,
    problems,
    title: () => page.textContent("h1"),
    hydrate: () => page.evaluate(() => globalThis.hydrate()),
    async shows(text: string, element = "h1") {
      await page.waitForFunction(
        `document.querySelector("${element}").textContent === "${text}"`,
      );
    },
    async [Symbol.asyncDispose]() {
      await page.close();
      await gateway.close();
      await server.shutdown();
    },
  };
}

for (const [framework, render] of Object.entries(FRAMEWORKS)) {
  testBrowser(
    `useRep() of ${framework}: a page is rendered and hydrated with the value, and changes`,
    async (browser) => {
      await using app = await open(browser, framework, render);
      assertEquals(await app.title(), "One");
      await app.hydrate();
      await app.change("Two");
      await app.shows("Two");
      assertEquals(app.problems, []);
    },
  );

  testBrowser(
    `useRep() of ${framework}: hydration agrees if a change has arrived before`,
    async (browser) => {
      await using app = await open(browser, framework, render);
      await app.change("Two");
      await app.page.waitForFunction(() => globalThis.changedTitle === "Two");
      assertEquals(await app.title(), "One");
      await app.hydrate();
      await app.shows("Two");
      assertEquals(app.problems, []);
    },
  );

  testBrowser(
    `useRep() of ${framework}: hydration agrees if the server had no gateway`,
    async (browser) => {
      const prerendered = () =>
        "<main><h1>none</h1><p>loading</p><small>loading</small></main>";
      await using app = await open(browser, framework, prerendered);
      assertEquals(await app.title(), "none");
      await app.hydrate();
      await app.shows("One");
      assertEquals(app.problems, []);
    },
  );

  testBrowser(
    `useRepSecure() of ${framework}: the value arrives after the hydration`,
    async (browser) => {
      await using app = await open(browser, framework, render);
      assertEquals(await app.page.textContent("p"), "loading");
      await app.hydrate();
      await app.shows("abc-123", "p");
      assertEquals(app.problems, []);
    },
  );
}

testBrowser(
  "useRepSecure() of react says why a value cannot be read",
  async (browser) => {
    await using app = await open(browser, "react", FRAMEWORKS.react);
    await app.hydrate();
    await app.shows("REPError", "small");
  },
);
