import {
  findFile,
  findProgram,
  foldersOnPath,
  type Machine,
  THIS_MACHINE,
} from "./find_program.ts";
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
 * Finds a browser: the one that `CHROME_PATH` names, an installed Chromium, Chrome or Edge, or Chromium from npm, which
 * exists for Linux on x64 only.
 *
 * @throws {Error} If `CHROME_PATH` names no file.
 */
export async function findBrowser(
  { machine = THIS_MACHINE, unpack = unpackChromium }: FindBrowserOptions = {},
): Promise<Browser | NoBrowser> {
  const path = await configuredBrowser(machine) ??
    await installedBrowser(machine);
  return path === undefined
    ? await npmBrowser(machine, unpack)
    : { path, env: {} };
}

async function configuredBrowser(
  { env, isFile }: Machine,
): Promise<string | undefined> {
  const path = env("CHROME_PATH");
  if (!path) return undefined;
  if (!await isFile(path)) {
    throw new Error(
      `Cannot use CHROME_PATH: expected the path of a browser, got "${path}"`,
    );
  }
  return path;
}

async function installedBrowser(machine: Machine): Promise<string | undefined> {
  const { names, places } = machine.os === "windows"
    ? windows(machine)
    : machine.os === "darwin"
    ? mac(machine)
    : LINUX;
  return await findProgram(names, foldersOnPath(machine), machine) ??
    await findFile(places, machine);
}

/** Where a system keeps browsers: names of programs on the `PATH`, and the paths that installers use. */
interface BrowserLocations {
  readonly names: readonly string[];
  readonly places: readonly string[];
}

const LINUX: BrowserLocations = {
  names: [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "microsoft-edge-stable",
  ],
  places: [
    "/snap/bin/chromium",
    "/opt/google/chrome/chrome",
    "/opt/microsoft/msedge/msedge",
  ],
};

function mac({ env }: Machine): BrowserLocations {
  const folders = ["/Applications", `${env("HOME") ?? ""}/Applications`];
  const apps = ["Chromium", "Google Chrome", "Microsoft Edge"];
  return {
    names: ["chromium"],
    places: apps.flatMap((app) =>
      folders.map((folder) => `${folder}/${app}.app/Contents/MacOS/${app}`)
    ),
  };
}

function windows({ env }: Machine): BrowserLocations {
  const folders = ["LOCALAPPDATA", "PROGRAMFILES", "PROGRAMFILES(X86)"].map(env)
    .filter((it) => it !== undefined);
  const programs = [
    "Chromium\\Application\\chrome.exe",
    "Google\\Chrome\\Application\\chrome.exe",
    "Microsoft\\Edge\\Application\\msedge.exe",
  ];
  return {
    names: ["chromium.exe", "chrome.exe", "msedge.exe"],
    places: programs.flatMap((program) =>
      folders.map((folder) => `${folder}\\${program}`)
    ),
  };
}

async function npmBrowser(
  { os, arch }: Machine,
  unpack: () => Promise<Browser>,
): Promise<Browser | NoBrowser> {
  const none = "no CHROME_PATH and no installed Chromium, Chrome or Edge";
  if (os !== "linux" || arch !== "x86_64") {
    return { reason: `${none}; the one on npm is for Linux on x64` };
  }
  try {
    return await unpack();
  } catch (error) {
    return {
      reason: `${none}; ${error instanceof Error ? error.message : error}`,
    };
  }
}
