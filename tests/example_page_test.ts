/** Opens the example page in a browser: `examples/page`, as `deno task start` serves it. */
import { assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import { findViolations, testBrowser } from "./_browser.ts";
import { startCommand } from "./_command.ts";

const ENV = await Deno.readTextFile("examples/example.env");

function startExample() {
  return startCommand([
    "--static-dir=examples/page",
    "--manifest=examples/rep.yaml",
    "--env-file=examples/example.env",
    "--allowed-hosts=127.0.0.1",
    "--kv=:memory:",
  ]);
}

async function isLive(page: Page) {
  await page.locator('#state[data-state="open"]').waitFor();
}

testBrowser(
  "the example page shows PUBLIC values, a SENSITIVE one on demand, and that a SERVER one is absent",
  async (browser) => {
    await using example = await startExample();
    const page = await browser.open(example.url);
    await isLive(page);
    assertEquals(await page.locator("tbody tr").allInnerTexts(), [
      "API_URL\thttps://api.example.com",
      "FEATURE_FLAGS\tnew-checkout,gift-cards",
      "GREETING\tHello from the gateway",
      "LOG_LEVEL\tinfo",
      "SUPPORT_EMAIL\thelp@example.com",
    ]);
    await page.getByRole("button", { name: "Decrypt" }).click();
    await page.locator("#secret", { hasText: "example-analytics-key" })
      .waitFor();
    assertEquals(
      await page.locator("#server").innerText(),
      "absent from this page",
    );
    const [, server = ""] = /^REP_SERVER_DATABASE_URL=(.+)$/m.exec(ENV) ?? [];
    assertEquals([server === "", (await page.content()).includes(server)], [
      false,
      false,
    ]);
  },
);

for (const colorScheme of ["light", "dark"] as const) {
  testBrowser(
    `axe finds nothing in the example page, ${colorScheme}`,
    async (browser) => {
      await using example = await startExample();
      const page = await browser.open(example.url, { colorScheme });
      await isLive(page);
      await page.getByRole("button", { name: "Decrypt" }).click();
      await page.locator("#secret", { hasText: "example" }).waitFor();
      assertEquals(await findViolations(page), []);
    },
  );
}
