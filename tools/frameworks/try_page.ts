import type { Browser } from "playwright-core";

const TITLE = "Hello from the gateway";
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
async function untilServed(url: string): Promise<void> {
  const deadline = Date.now() + TIMEOUT_MS;
  while (Date.now() < deadline) {
    const response = await fetch(url).catch(() => undefined);
    await response?.body?.cancel();
    if (response?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("no page");
}

/**
 * Opens the page of a project, and tries all that the gateway promises.
 *
 * @param envFile The path of the project's env file, which is changed and restored.
 * @throws {Error} With what does not work.
 */
export async function tryPage(
  browser: Browser,
  url: string,
  envFile: string,
): Promise<void> {
  await untilServed(url);
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
