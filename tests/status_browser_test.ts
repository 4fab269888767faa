/** The status page in a real browser. */
import { assertEquals, assertNotEquals } from "@std/assert";
import type { Page } from "playwright-core";
import type { GatewayOptions, ProcessInfo } from "../src/options.ts";

import { findViolations, testBrowser } from "./_browser.ts";
import { setUp } from "./_gateway.ts";
import { serveSites } from "./command/sites/_sites.ts";
import { serveLocally } from "./_serve.ts";
import { eventually } from "./_time.ts";

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
  const { search } = new URL(page.url());
  const url = `/status${search}`;
  await page.waitForResponse((response) => response.url().endsWith(url));
  await page.locator("#connection", {
    hasText: /^Updated every 2 s, times in UTC$/,
  }).waitFor();
}

const VARIABLES = {
  REP_PUBLIC_API_URL: `https://api.example.com/${"a-long-path/".repeat(20)}`,
  REP_PUBLIC_TOKEN: "ghp_0123456789abcdefghij",
  REP_SENSITIVE_KEY: "s3cret",
};

/** The visible tables in a page, by whether they have more than they show, and whether the page says so. */
async function tablesOf(page: Page): Promise<[string, boolean, boolean][]> {
  return await page.evaluate(
    `[...document.querySelectorAll(".table")].filter((it) => it.checkVisibility()).map((it) => [
    it.ariaLabel,
    it.scrollWidth > it.clientWidth || it.scrollHeight > it.clientHeight,
    it.previousElementSibling.checkVisibility(),
  ])`,
  );
}

/** Waits until exactly these tables scroll, only they have a hint, and the page itself does not scroll. */
async function assertScrolls(page: Page, width: number, names: string[]) {
  await eventually(async () => {
    const tables = await tablesOf(page);
    const scrolled = tables.filter(([, scrolls]) => scrolls);
    assertEquals(scrolled.map(([name]) => name), names);
    assertEquals(tables.filter(([, scrolls, hint]) => scrolls !== hint), []);
    assertEquals(
      await page.evaluate("document.documentElement.scrollWidth"),
      width,
    );
  });
}

for (const width of [320, 390, 1280]) {
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
        const wide = ["Rollout", "Events", "PUBLIC variables"];
        await assertScrolls(page, width, width < 1_000 ? wide : []);
      },
    );
  }
}

testBrowser(
  "a table of the status page says that it scrolls as long as it does, and scrolls by keyboard",
  async (browser) => {
    const shown = { [`--${"long".repeat(30)}`]: "", "--strict": "" };
    await using gate = await serveStatus({ REP_PUBLIC_A: "" }, {}, {
      shownOptions: () => Promise.resolve(shown),
    });
    const page = await browser.open(gate.url, {
      viewport: { width: 390, height: 800 },
    });
    await waitForPoll(page);
    await assertScrolls(page, 390, ["Events"]);
    await page.locator("summary").click();
    await assertScrolls(page, 390, ["Events", "Options"]);
    await page.setViewportSize({ width: 1_280, height: 800 });
    await assertScrolls(page, 1_280, []);
    const many = Array.from({ length: 40 }, (_, n) => [`REP_PUBLIC_V${n}`, ""]);
    await gate.set(Object.fromEntries(many)); // they are longer than the table
    await page.getByText("PUBLIC: 40").waitFor();
    await assertScrolls(page, 1_280, ["Events", "PUBLIC variables"]);
    await page.setViewportSize({ width: 320, height: 800 });
    const table = page.getByRole("region", { name: "Events" });
    await table.focus();
    await eventually(async () => { // the window may still be wide
      await page.keyboard.press("ArrowRight");
      assertNotEquals(
        await page.evaluate("document.activeElement.scrollLeft"),
        0,
      );
    });
  },
);

testBrowser(
  "a phone without JavaScript is told that tables may scroll",
  async (browser) => {
    await using gate = await serveStatus({ REP_PUBLIC_A: "1" });
    for (const [width, expected] of [[390, true], [1_280, false]] as const) {
      const page = await browser.open(gate.url, {
        javaScriptEnabled: false,
        viewport: { width, height: 800 },
      });
      const hint = page.getByText("Scroll the table to see all of it").first();
      assertEquals(await hint.isVisible(), expected);
    }
  },
);

for (const colorScheme of ["light", "dark"] as const) {
  testBrowser(
    `the status page lists sites, on a phone too, and that of a site stays its own, in ${colorScheme}`,
    async (browser) => {
      await using sites = await serveSites({
        files: {
          "sites/z.example/app.env": "REP_PUBLIC_A\n",
          "sites/a.example/app.env": "REP_PUBLIC_OF_A=1\n",
        },
      });
      await using server = serveLocally(sites.sites.fetchHealth);
      for (const width of [320, 390, 1280]) {
        const page = await browser.open(`${server.url}/status`, {
          viewport: { width, height: 800 },
          colorScheme,
        });
        await waitForPoll(page);
        await assertScrolls(page, width, width < 1_000 ? ["Sites"] : []);
        assertEquals(await findViolations(page), []);
        await page.getByRole("link", { name: "a.example" }).click();
        const cell = page.getByRole("cell", { name: "OF_A" }).first();
        await cell.waitFor();
        await waitForPoll(page);
        assertEquals(await cell.isVisible(), true);
      }
    },
  );
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
    await table.getByRole("cell", { name: "after", exact: true }).waitFor();
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
    const table = page.getByRole("region", { name: "PUBLIC variables" });
    assertEquals(
      await table.getByRole("cell", { name: "the value" }).isVisible(),
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
