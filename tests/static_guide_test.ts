/** What docs/static.md says about builds that are opened as files, as in an app on a device. */
import { assertEquals } from "@std/assert";
import { toFileUrl } from "@std/path";
import { testBrowser } from "./_browser.ts";
import { run } from "./command/commands/_run.ts";
import { TempDirectory } from "./_temp.ts";

const PAGE =
  `<!doctype html><html><head></head><body><output></output><script src="classic.js"></script>
<script type="module" src="module.js"></script></body></html>`;

/** What a build tool makes of a page that calls the client: one classic script. */
const CLASSIC = `const text = document.getElementById("__rep__").textContent;
document.querySelector("output").textContent = JSON.parse(text).public.TITLE;
`;

testBrowser(
  "an injected build shows its values from file://, where Chromium loads no module scripts",
  async (browser) => {
    await using build = await TempDirectory.make({
      "index.html": PAGE,
      "classic.js": CLASSIC,
      "module.js": 'document.title = "module";',
    });
    const { code } = await run(["inject", build.path], {
      REP_PUBLIC_TITLE: "Hello",
    });
    assertEquals(code, 0);
    const page = await browser.open(toFileUrl(build.at("index.html")).href);
    assertEquals(await page.locator("output").innerText(), "Hello");
    assertEquals(await page.title(), "");
  },
);
