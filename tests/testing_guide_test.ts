/** What docs/testing.md says of pages in a browser; `tests/vite/real_vite_test.ts` tries what it says of Vitest. */
import { serveLocally } from "./_serve.ts";
import { assertEquals } from "@std/assert";
import { replaceVariables } from "../src/client/testing/mod.ts";
import { createGateway } from "../src/gateway.ts";
import { testBrowser } from "./_browser.ts";

const PAGE = `<!doctype html><html><head></head><body><h1></h1><p></p>
<script type="module">
import rep from "/rep/client.js";
const show = () => document.querySelector("h1").textContent = rep.get("TITLE");
show();
rep.onChange("TITLE", show);
document.querySelector("p").textContent = await rep.getSecure("KEY");
</script></body></html>`;

const HTML = { headers: { "content-type": "text/html" } };

testBrowser(
  "replaceVariables() gives a page other values, whose integrity check succeeds, with keys and changes as before",
  async (browser) => {
    const variables = {
      REP_PUBLIC_TITLE: "Of the server",
      REP_SENSITIVE_KEY: "secret",
    };
    const gateway = await createGateway({
      variables: () => variables,
      hotReload: true,
    });
    await using server = serveLocally(async (request, info) =>
      await gateway.handle(request, info) ??
        await gateway.inject(new Response(PAGE, HTML), request)
    );
    await using _streams = gateway; // first, as the server waits for its streams
    const page = await browser.open(server.url);
    const errors: string[] = [];
    page.on("pageerror", ({ message }) => void errors.push(message));
    await page.route("**/", async (route) => {
      const response = await route.fetch();
      const html = await response.text();
      const body = await replaceVariables(html, { TITLE: "Of the test" });
      await route.fulfill({ response, body });
    });
    await page.reload();
    await page.getByText("Of the test").waitFor();
    await page.getByText("secret").waitFor();
    variables.REP_PUBLIC_TITLE = "Changed";
    await gateway.reload();
    await page.getByText("Changed").waitFor();
    assertEquals(errors, []);
  },
);
