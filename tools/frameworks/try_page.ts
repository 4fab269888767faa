import type { Browser } from "playwright-core";

export const TITLE = "Hello from the gateway";
const CHANGED = "Good morning";
const MAP_KEY = "example-map-key";

/** How long a page may take to show something: a framework compiles it first. */
const TIMEOUT_MS = 30_000;

/** A page whose stream is open is never idle. */
const IDLE_MS = 5_000;

/** The variables of each project. */
export const ENV_FILE =
  `REP_PUBLIC_TITLE=${TITLE}\nREP_SENSITIVE_MAP_KEY=${MAP_KEY}\n`;

/** The manifest of each project. */
export const MANIFEST = `version: "0.1.0"
variables:
  TITLE: { tier: public, required: true }
  MAP_KEY: { tier: sensitive, required: true }
settings: { hot_reload: true, hot_reload_mode: file_watch }
`;

/** Waits until a server sends a page. */
export async function untilServed(url: string): Promise<void> {
  const deadline = Date.now() + TIMEOUT_MS;
  while (Date.now() < deadline) {
    const response = await fetch(url).catch(() => undefined);
    await response?.body?.cancel();
    if (response?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("no page");
}

/** @throws {Error} If the HTML of a server does not contain the value. */
async function checkHeading(url: string): Promise<void> {
  const headers = { accept: "text/html" };
  const html = await (await fetch(url, { headers })).text();
  const [, heading] = /<h1[^>]*>(.*?)<\/h1>/s.exec(html) ?? [];
  if (heading?.includes(TITLE)) return;
  throw new Error(`the server has rendered <h1>${heading}</h1>`);
}

/** Options of {@linkcode tryPage}. */
interface TryPageOptions {
  readonly url: string;
  /** The path of the project's env file, which is changed and restored. */
  readonly envFile: string;
  /** Whether the server renders the values. */
  readonly rendersValues: boolean;
}

/**
 * Opens the page of a project, and tries everything that the gateway promises.
 *
 * @throws {Error} With what does not work.
 */
export async function tryPage(
  browser: Browser,
  { url, envFile, rendersValues }: TryPageOptions,
): Promise<void> {
  await untilServed(url);
  if (rendersValues) await checkHeading(url);
  const page = await browser.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  const errors: string[] = [];
  page.on("pageerror", ({ message }) => errors.push(message));
  try {
    const shows = (selector: string, text: string) =>
      page.locator(selector, { hasText: text }).waitFor().catch(() => {
        throw new Error(`${selector} without "${text}" ${errors.join(", ")}`);
      });
    await page.goto(url);
    await shows("h1", TITLE);
    // At the first page of a project, Vite may find packages to prepare, and reload it.
    await page.waitForLoadState("networkidle", { timeout: IDLE_MS })
      .catch(() => {});
    errors.splice(0);
    // A page listens to changes once its scripts run.
    const isRunning = page.waitForRequest(/\/rep\/changes/);
    await page.reload();
    await isRunning;
    await shows("h1", TITLE);
    const elements = await page.locator("#__rep__").count();
    if (elements !== 1) throw new Error(`${elements} configurations`);
    await page.getByRole("button", { name: "Decrypt" }).click();
    await shows("output", MAP_KEY);
    await page.evaluate("globalThis.isMarked = true");
    await Deno.writeTextFile(envFile, ENV_FILE.replace(TITLE, CHANGED));
    await shows("h1", CHANGED);
    const isMarked = await page.evaluate("globalThis.isMarked === true");
    if (!isMarked) throw new Error("reloaded by a change");
    if (errors.length > 0) throw new Error(errors.join(", "));
  } finally {
    await Deno.writeTextFile(envFile, ENV_FILE);
    await page.close();
  }
}

/**
 * Opens the second route of a project by its URL.
 *
 * @throws {Error} If it shows another page, or two pages at once.
 */
export async function tryOtherRoute(
  browser: Browser,
  url: string,
): Promise<void> {
  const page = await browser.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  try {
    const response = await page.goto(`${url}other`);
    if (response?.status() !== 200) {
      throw new Error(`/other: status ${response?.status()}`);
    }
    await page.locator("h1", { hasText: "Other" }).waitFor().catch(() => {});
    const headings = await page.locator("h1").allInnerTexts();
    if (headings.join() !== "Other") {
      throw new Error(`/other: expected one heading, got ${headings}`);
    }
  } finally {
    await page.close();
  }
}
