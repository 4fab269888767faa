import { chromium, type Page } from "playwright-core";
import { findBrowser } from "../tools/find_browser.ts";

/** A browser that a test controls. */
export interface TestBrowser {
  /** Opens a page with its own storage and cache. */
  open(url: string): Promise<Page>;
}

/** What the browser must not do on a machine that is offline, or that runs it as root. */
const ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

const found = await findBrowser();

/** Registers a test that has a browser of its own; without any browser the test is ignored, and its name says why. */
export function testBrowser(
  name: string,
  fn: (browser: TestBrowser, context: Deno.TestContext) => Promise<void>,
): void {
  if ("reason" in found) return Deno.test({ name: `${name} (${found.reason})`, ignore: true, fn() {} });
  Deno.test({
    name,
    sanitizeOps: false, // Playwright's timers and pipes outlive the browser
    sanitizeResources: false,
    async fn(context) {
      await using browser = await startBrowser(found);
      await fn(browser, context);
    },
  });
}

async function startBrowser({ path, env }: Exclude<typeof found, { reason: string }>) {
  const browser = await chromium.launch({
    executablePath: path,
    args: ARGS,
    env: { ...Deno.env.toObject(), ...env },
    ignoreDefaultArgs: ["--disable-back-forward-cache"], // Playwright switches it off
  });
  return {
    async open(url: string) {
      const page = await browser.newPage();
      await page.goto(url);
      return page;
    },
    [Symbol.asyncDispose]: () => browser.close(),
  };
}
