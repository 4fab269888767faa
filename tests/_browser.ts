import { type Browser, chromium, type Page } from "playwright-core";

/** What keeps Chromium from looking for servers that are not there. */
const ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** A browser that is closed after the test. */
export interface TestBrowser extends AsyncDisposable {
  /** Opens a tab; tabs of one browser share nothing but the machine. */
  open(url: string): Promise<Page>;
}

/** Starts Chromium. Its back/forward cache is on, which Playwright would switch off. */
export async function startBrowser(): Promise<TestBrowser> {
  const browser: Browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ARGS,
    ignoreDefaultArgs: ["--disable-back-forward-cache"],
  });
  return {
    async open(url) {
      const page = await browser.newPage();
      await page.goto(url);
      return page;
    },
    [Symbol.asyncDispose]: () => browser.close(),
  };
}
