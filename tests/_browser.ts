import axe from "axe-core";
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from "playwright-core";
import { findBrowser } from "../tools/find_browser.ts";

/** A browser that a test controls. */
export interface TestBrowser {
  /** Opens a page with its own storage and cache. */
  open(url: string, options?: BrowserContextOptions): Promise<Page>;
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

/** How long a browser may take for its start, a navigation, or what a test waits for, on a busy machine. */
const TIMEOUT_MS = 60_000;

const found = await findBrowser();

/** The browser of all tests of a file, once one of them needs it. */
let browser: Promise<Browser> | undefined;

Deno.test.afterAll(async () => await (await browser)?.close());

/** Registers a test that needs a browser; without any browser the test is ignored, and its name says why. */
export function testBrowser(
  name: string,
  fn: (browser: TestBrowser, context: Deno.TestContext) => Promise<void>,
): void {
  if ("reason" in found) {
    return Deno.test({
      name: `${name} (${found.reason})`,
      ignore: true,
      fn() {},
    });
  }
  Deno.test({
    name,
    sanitizeOps: false, // the browser, and Playwright's timers and pipes, outlive the test
    sanitizeResources: false,
    async fn(context) {
      browser ??= startBrowser(found);
      await using pages = new TestPages(await browser);
      await fn(pages, context);
    },
  });
}

function startBrowser(
  { path, env }: Exclude<typeof found, { reason: string }>,
): Promise<Browser> {
  return chromium.launch({
    executablePath: path,
    args: ARGS,
    timeout: TIMEOUT_MS,
    env: { ...Deno.env.toObject(), ...env },
    ignoreDefaultArgs: ["--disable-back-forward-cache"], // Playwright switches it off
  });
}

/** The pages of one test. */
class TestPages implements TestBrowser, AsyncDisposable {
  readonly #browser: Browser;
  readonly #contexts: BrowserContext[] = [];

  constructor(browser: Browser) {
    this.#browser = browser;
  }

  async open(url: string, options: BrowserContextOptions = {}): Promise<Page> {
    const context = await this.#browser.newContext(options);
    context.setDefaultTimeout(TIMEOUT_MS);
    this.#contexts.push(context);
    const page = await context.newPage();
    await page.goto(url);
    return page;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const context of this.#contexts) await context.close();
  }
}

/** Returns what axe finds in a page: the rule, and the elements. */
export async function findViolations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate("axe.run()") as {
    violations: { id: string; nodes: { html: string }[] }[];
  };
  return violations.map(({ id, nodes }) =>
    `${id}: ${nodes.map(({ html }) => html).join(" ")}`
  );
}
