import { isFile } from "./find_program.ts";
import { type Browser, unpackChromium } from "./unpack_chromium.ts";

/** Why there is no browser. */
export interface NoBrowser {
  readonly reason: string;
}

/**
 * Returns the browser that `CHROME_PATH` names, otherwise Chromium from npm, which exists for Linux on x64 only. It
 * never looks for an installed browser: tests would then depend on the machine, since the one from npm, a headless
 * shell, can do less.
 *
 * @throws {Error} If `CHROME_PATH` names no file.
 */
export async function findBrowser(): Promise<Browser | NoBrowser> {
  const path = Deno.env.get("CHROME_PATH");
  if (!path) return await npmBrowser();
  if (await isFile(path)) return { path, env: {} };
  throw new Error(
    `Cannot use CHROME_PATH: expected the path of a browser, got "${path}"`,
  );
}

async function npmBrowser(): Promise<Browser | NoBrowser> {
  const { os, arch } = Deno.build;
  if (os !== "linux" || arch !== "x86_64") {
    const reason = "no CHROME_PATH; the Chromium on npm is for Linux on x64";
    return { reason };
  }
  try {
    return await unpackChromium();
  } catch (error) {
    const message = error instanceof Error ? error.message : error;
    return { reason: `no CHROME_PATH; ${message}` };
  }
}
