import { assertRejects } from "@std/assert";
import { testBrowser } from "./_browser.ts";
import { Example, ExamplePage } from "./_example.ts";
import { until } from "./_time.ts";

testBrowser(
  "examples/csp: a page with a strict policy has the configuration",
  async (browser) => {
    await using example = await Example.copy("csp");
    await using gateway = await example.startGateway(
      "--static-dir",
      example.at("public"),
    );
    const page = await ExamplePage.open(browser, gateway.url);
    await page.check((from, to) => example.edit("app.env", from, to));
    const insertScript = () =>
      page.page.evaluate("document.createElement('script').textContent = '1'");
    await assertRejects(
      insertScript,
      Error,
      "requires 'TrustedScript' assignment",
    );
  },
);

testBrowser(
  "examples/csp: without connect-src, a page has PUBLIC values but neither key nor stream",
  async (browser) => {
    await using example = await Example.copy("csp");
    await example.edit("public/index.html", "connect-src 'self'; ", "");
    await using gateway = await example.startGateway(
      "--static-dir",
      example.at("public"),
    );
    const page = await ExamplePage.open(browser, gateway.url);
    await page.shows("h1", "Hello from the gateway");
    await page.page.getByRole("button").click();
    for (const path of ["/rep/session-key", "/rep/changes"]) {
      await until(() => page.errors.some((text) => text.includes(path)));
    }
  },
);
