import { type Browser, chromium } from "playwright-core";
import { findBrowser } from "./find_browser.ts";

/** Starts the browser that `find_browser.ts` finds. @throws {Error} If there is none. */
export async function launchBrowser(): Promise<Browser> {
  const found = await findBrowser();
  if ("reason" in found) {
    throw new Error(`Cannot start a browser: ${found.reason}`);
  }
  return await chromium.launch({
    executablePath: found.path,
    args: ["--no-sandbox", "--disable-gpu"],
    env: { ...Deno.env.toObject(), ...found.env },
  });
}
