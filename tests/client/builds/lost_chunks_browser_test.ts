/** What `reloadOnLostChunk()` does in a browser, which enforces policies. */
import { assertEquals } from "@std/assert";
import { createGateway } from "../../../src/gateway.ts";
import { bundle } from "../../../tools/bundle_client.ts";
import { testBrowser } from "../../_browser.ts";
import { serveLocally } from "../../_serve.ts";
import { TempDirectory } from "../../_temp.ts";

/** The policy that docs/csp.md calls enough. */
const STRICT =
  "default-src 'none'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/** Pages of apps, without their build. */
const HEADS: Readonly<Record<string, string>> = {
  "a page without a policy": "",
  "a page with a strict policy":
    `<meta http-equiv="Content-Security-Policy" content="${STRICT}">`,
};

function pageOf(head: string, build: string): string {
  return `<!doctype html><html><head>${head}<title>${build}</title><script type="module" src="/app.js"></script></head></html>`;
}

const APP = `import { reloadOnLostChunk } from "./lost_chunks.js";
reloadOnLostChunk();
`;

/** Waits until the gateway sends a build: it looks for another one once a second. */
async function sends(url: string, build: string): Promise<void> {
  while (true) {
    const response = await fetch(url);
    if ((await response.text()).includes(build)) return;
  }
}

testBrowser(
  "a page that has lost a chunk is reloaded once another build answers, whatever its policy",
  async (browser, context) => {
    const module = await bundle("src/client/builds/lost_chunks.ts");
    for (const [name, head] of Object.entries(HEADS)) {
      await context.step(name, async () => {
        await using directory = await TempDirectory.make({
          "app.js": APP,
          "lost_chunks.js": module,
          "index.html": pageOf(head, "one"),
        });
        const gateway = await createGateway({ staticDir: directory.path });
        await using server = serveLocally(gateway.fetch);
        const page = await browser.open(server.url);
        await directory.write("index.html", pageOf(head, "another"));
        await sends(server.url, "another");
        const reloaded = page.waitForEvent("load");
        await page.evaluate("dispatchEvent(new Event('vite:preloadError'))");
        await reloaded;
        assertEquals(await page.title(), "another");
        await page.context().close();
        await gateway.close();
      });
    }
  },
);
