/** The status page in a real browser. */
import { assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import type { GatewayOptions, ProcessInfo } from "../src/options.ts";

import { findViolations, testBrowser } from "./_browser.ts";
import { setUp } from "./_gateway.ts";
import { serveLocally } from "./_serve.ts";

/** Serves the health port of a gateway in this process. */
async function serveStatus(
  variables: Record<string, string>,
  options: GatewayOptions = {},
  process: Partial<ProcessInfo> = {},
) {
  const gate = await setUp(variables, options, process);
  const server = serveLocally(gate.gateway.fetchHealth);
  const shutdown = () => server.shutdown();
  return {
    ...gate,
    /** Closes the port, as if the process had ended. */
    shutdown,
    url: `${server.url}/status`,
    async [Symbol.asyncDispose]() {
      await gate.gateway.close();
      await shutdown();
    },
  };
}

/** Waits until the page has polled. */
async function waitForPoll(page: Page) {
  await page.waitForResponse((response) => response.url().endsWith("/status"));
  assertEquals(
    await page.locator("#connection").textContent(),
    "Updated every 2 s, times in UTC",
  );
}

const VARIABLES = {
  REP_PUBLIC_API_URL: `https://api.example.com/${"a-long-path/".repeat(20)}`,
  REP_PUBLIC_TOKEN: "ghp_0123456789abcdefghij",
  REP_SENSITIVE_KEY: "s3cret",
};

for (const width of [360, 1280]) {
  for (const colorScheme of ["light", "dark"] as const) {
    testBrowser(
      `the status page can be read ${width} px wide, and axe finds nothing, in ${colorScheme}`,
      async (browser) => {
        await using gate = await serveStatus(VARIABLES);
        await gate.set({ ...VARIABLES, REP_SERVER_KEY: "1" }).catch(() => {}); // rejected
        const page = await browser.open(gate.url, {
          viewport: { width, height: 800 },
          colorScheme,
        });
        const problems: string[] = [];
        page.on("console", (message) => problems.push(message.text()));
        page.on("pageerror", (error) => problems.push(String(error)));
        await page.reload();
        await waitForPoll(page);
        await page.locator("summary").click();
        assertEquals([await findViolations(page), problems], [[], []]);
        assertEquals(
          await page.evaluate("document.documentElement.scrollWidth"),
          width,
        );
      },
    );
  }
}

testBrowser(
  "the status page follows the gateway, and keeps the focus, what is scrolled, and open details",
  async (browser) => {
    const wide = { [`REP_PUBLIC_${"WIDE_".repeat(20)}`]: "1" };
    await using gate = await serveStatus(
      {
        ...wide,
        REP_PUBLIC_A: "before",
        REP_SENSITIVE_S: "1",
        REP_SENSITIVE_T: "2",
      },
      {},
      {
        shownOptions: () => Promise.resolve({ "--strict": "true" }),
      },
    );
    const page = await browser.open(gate.url, {
      viewport: { width: 360, height: 300 },
    });
    await page.locator("summary").click();
    const table = page.getByRole("region", { name: "PUBLIC variables" });
    await table.focus();
    await page.evaluate(
      "scrollTo(0, 200); document.activeElement.scrollLeft = 10",
    );
    const state = () =>
      page.evaluate(
        "[document.activeElement.ariaLabel, document.activeElement.scrollLeft, scrollY]",
      );
    const before = await state();
    await gate.set({
      ...wide,
      REP_PUBLIC_A: "after",
      REP_PUBLIC_TOKEN: "ghp_0123456789abcdefghij",
      REP_SENSITIVE_S: "1",
    });
    await page.getByRole("cell", { name: "after", exact: true }).waitFor();
    await page.getByText("Warning: TOKEN").waitFor();
    assertEquals(await state(), before);
    assertEquals(before, ["PUBLIC variables", 10, 200]);
    assertEquals(
      await page.getByRole("cell", { name: "--strict" }).isVisible(),
      true,
    );
    assertEquals(await page.getByText("SENSITIVE: 1").count(), 1);
  },
);

testBrowser(
  "the status page says when the gateway is gone, and when it was there last",
  async (browser) => {
    await using gate = await serveStatus({ REP_PUBLIC_A: "1" });
    const page = await browser.open(gate.url, {
      viewport: { width: 360, height: 300 },
    });
    await waitForPoll(page);
    await page.evaluate("scrollTo(0, document.body.scrollHeight)");
    await gate.shutdown();
    await page.locator("#connection", {
      hasText: /does not answer. Below is what it said at \d{4}-.*Z$/,
    }).waitFor();
    const top = await page.evaluate(
      "document.querySelector('#connection').getBoundingClientRect().top",
    );
    assertEquals([
      await page.getByText("Healthy").isVisible(),
      top,
      await findViolations(page),
    ], [true, 0, []]);
  },
);

testBrowser(
  "the status page can be read without JavaScript",
  async (browser) => {
    await using gate = await serveStatus({ REP_PUBLIC_A: "the value" });
    const page = await browser.open(gate.url, { javaScriptEnabled: false });
    assertEquals(
      await page.getByRole("cell", { name: "the value" }).isVisible(),
      true,
    );
    assertEquals(
      await page.getByText("Reload the page for newer data").isVisible(),
      true,
    );
  },
);

testBrowser(
  "a hostile name, value or reason is text in the status page, even after the page has polled",
  async (browser) => {
    const hostile =
      `"><img src=x onerror="document.body.className='run'"><script>document.body.className="run"</script>`;
    await using gate = await serveStatus({
      [`REP_PUBLIC_${hostile}`]: hostile,
      [`REP_SENSITIVE_S${hostile}`]: "1",
    });
    const page = await browser.open(gate.url);
    await gate.set({
      [`REP_PUBLIC_${hostile}`]: hostile,
      [`REP_SERVER_${hostile}`]: "1",
    }).catch(() => {});
    await page.getByText("The last reload was rejected").waitFor();
    assertEquals(
      await page.evaluate(
        "[document.images.length, document.scripts.length, document.body.className]",
      ),
      [
        0,
        1,
        "",
      ],
    );
    assertEquals(
      await page.getByRole("cell", { name: hostile, exact: true }).count() > 2,
      true,
    );
  },
);
