/**
 * The program of the npm package, which `npx @rep/gateway` runs. Node.js itself runs the commands that need neither a
 * server nor the store. For all others, this process becomes Deno: the one on the PATH, or the one of npm's package
 * `deno`, which is installed once into a cache.
 *
 * @module
 */
import { spawn, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
} from "node:fs";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";
import process from "node:process";
import { setImmediate } from "node:timers/promises";
import { requireRuntime } from "../../src/core/values/runtime.ts";
import { main, startsOnDeno } from "../../src/command/node_main.ts";

/** The version of Deno that this project is tested with. */
export const TESTED_DENO = "2.9.6";

/** What Deno gets before the module that it runs. */
const DENO_ARGS = [
  "run",
  "--quiet",
  "--allow-all",
  "--unstable-kv",
  "--no-config", // of the folder in which the gateway is started
  "--no-lock",
  // Deno finds its default database by this. Otherwise each version of the package would have a database of its own.
  "--location=https://rep-gateway.invalid/",
];

/** What needs no installation at the start, as in an image. */
const ON_PATH =
  `Deno on the PATH (npm install deno@${TESTED_DENO} while you build an image, and its node_modules/.bin on the PATH)`;

const IS_WINDOWS = process.platform === "win32";
const PROGRAM = IS_WINDOWS ? "deno.exe" : "deno";

/** How long a Deno may take to say its version. */
const ANSWER_MS = 10_000;
/** How long npm's may take for that the first time, when it copies its binary. */
const FIRST_ANSWER_MS = 60_000;

/** The signals that end an installation. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** A problem that users can solve. */
class LaunchError extends Error {}

/**
 * Runs the program.
 *
 * @param gateway The path of the module that Deno runs.
 */
export async function launch(
  args: readonly string[],
  gateway: string,
): Promise<void> {
  try {
    requireNode();
    if (!startsOnDeno(args)) {
      process.exitCode = await main(args);
      return;
    }
    if (!IS_WINDOWS && process.execve === undefined) {
      throw new LaunchError(
        `Cannot start Deno: it needs Node.js 22.15 or newer, got ${process.version}`,
      );
    }
    const deno = findDeno() ?? await installDeno();
    become(deno, [...DENO_ARGS, gateway, ...args]);
  } catch (error) {
    if (!(error instanceof LaunchError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  }
}

/** @throws {LaunchError} If Node.js is too old for any command. */
function requireNode(): void {
  try {
    requireRuntime();
  } catch (error) {
    throw new LaunchError((error as Error).message);
  }
}

/** Returns the binary of the first Deno on the PATH that is new enough. */
function findDeno(): string | undefined {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    const program = join(folder, PROGRAM);
    const binary = existsSync(program) ? binaryOf([program]) : undefined;
    if (binary !== undefined && isIntact(binary)) return binary;
  }
  return undefined;
}

/**
 * Asks a Deno for its binary: npm and version managers put scripts on the PATH, which start it as a child.
 *
 * @returns `undefined` if it does not run, does not answer, or is older than the tested version.
 */
function binaryOf(
  [program, ...args]: readonly [string, ...string[]],
  timeout = ANSWER_MS,
): string | undefined {
  const code =
    "console.log(JSON.stringify([Deno.version.deno, Deno.execPath()]))";
  const { status, stdout } = spawnSync(
    program,
    [...args, "eval", "--no-config", code],
    { encoding: "utf8", timeout, killSignal: "SIGKILL" },
  );
  const answer = /^\["(\S+?)","(.+)"\]$/m.exec(stdout ?? "");
  if (status !== 0 || answer === null) return undefined;
  const [version, binary] = JSON.parse(answer[0]) as [string, string];
  const order = version.localeCompare(TESTED_DENO, "en", { numeric: true });
  return order < 0 ? undefined : binary;
}

/**
 * Returns the binary of npm's Deno, and installs that first, once for each user. A signal ends the process when nothing
 * is left of an incomplete installation.
 */
async function installDeno(): Promise<string> {
  const cache = join(cacheFolder(), "rep-gateway");
  const installed = join(cache, `deno-${TESTED_DENO}`);
  const binary = join(installed, "node_modules", "deno", PROGRAM);
  if (isIntact(binary)) return binary;

  const folder = makeFolder(cache);
  process.stderr.write(
    `Installing Deno ${TESTED_DENO} from npm into ${installed}, once\n`,
  );
  const stop = new AbortController();
  const onSignal = (signal: string) => stop.abort(signal);
  for (const signal of SIGNALS) process.on(signal, onSignal);
  try {
    await installPackage(folder, stop.signal);
    // Node.js calls the listener for what arrived in the meantime in the next round of its event loop.
    await setImmediate();
    await setImmediate();
    if (!stop.signal.aborted) giveName(folder, installed, binary);
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    for (const signal of SIGNALS) process.off(signal, onSignal);
    if (stop.signal.aborted) process.kill(process.pid, stop.signal.reason);
  }
  return binary;
}

/** Returns whether a binary runs. To become one that is damaged or gone would end this process without a word. */
function isIntact(binary: string): boolean {
  return existsSync(binary) && binaryOf([binary]) !== undefined;
}

/** Makes the folder for an installation. */
function makeFolder(cache: string): string {
  try {
    mkdirSync(cache, { recursive: true });
    return mkdtempSync(join(cache, "installing-"));
  } catch (error) {
    throw new LaunchError(
      `Cannot install Deno into "${cache}": ${error}; expected ${ON_PATH}, or a folder that can be written to (on Linux, ` +
        "in the one that XDG_CACHE_HOME names)",
    );
  }
}

/** Gives a complete installation its name, which another process may do at the same time. */
function giveName(folder: string, installed: string, binary: string): void {
  try {
    renameSync(folder, installed);
  } catch { // that of another process is there, or a damaged one
    if (isIntact(binary)) return;
    // Another process may remove it, too.
    rmSync(installed, { recursive: true, force: true, maxRetries: 5 });
    renameSync(folder, installed);
  }
}

function cacheFolder(): string {
  const home = homedir();
  if (IS_WINDOWS) return process.env["LOCALAPPDATA"] || join(home, "AppData");
  if (process.platform === "darwin") return join(home, "Library", "Caches");
  const named = process.env["XDG_CACHE_HOME"] ?? "";
  return isAbsolute(named) ? named : join(home, ".cache"); // a relative path is invalid (XDG Base Directory)
}

async function installPackage(
  folder: string,
  stop: AbortSignal,
): Promise<void> {
  const args = [
    "install",
    "--prefix",
    folder,
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--ignore-scripts",
    "--loglevel=error",
    "--fetch-retry-mintimeout=1000", // npm's own times keep users without a network waiting for more than a minute
    "--fetch-retry-maxtimeout=5000",
    `deno@${TESTED_DENO}`,
  ];
  if (await runNpm(args, stop) !== 0) {
    throw new LaunchError(
      `Cannot install Deno ${TESTED_DENO} from npm: expected a registry that can be reached and has it, or ${ON_PATH}`,
    );
  }
  // Scripts of packages may be off: its first run, too, puts the binary in its place.
  const script = join(folder, "node_modules", "deno", "bin.cjs");
  const first = [process.execPath, script] as const;
  if (binaryOf(first, FIRST_ANSWER_MS) === undefined) {
    throw new LaunchError(
      `Cannot run Deno ${TESTED_DENO} in "${folder}": expected a system that npm's package "deno" supports (Alpine is none, ` +
        "since it has no glibc), and a folder from which programs may run (not one that is mounted with noexec)",
    );
  }
}

/**
 * Runs npm, and ends it with all that it has started when `stop` is aborted: it would go on writing into the folder.
 *
 * @returns Its exit code; `undefined` if there is no npm.
 */
function runNpm(
  args: readonly string[],
  stop: AbortSignal,
): Promise<number | null | undefined> {
  const child = spawn("npm", args, {
    stdio: ["ignore", process.stderr.fd, process.stderr.fd],
    shell: IS_WINDOWS, // there, npm is a script
    detached: !IS_WINDOWS, // it leads a process group of its own
  });
  function end(): void {
    if (IS_WINDOWS) child.kill();
    else if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  }
  stop.addEventListener("abort", end);
  return new Promise((resolve) => {
    child.on("error", () => resolve(undefined));
    child.on("exit", (code) => {
      stop.removeEventListener("abort", end);
      resolve(code);
    });
  });
}

/** Replaces this process: its ID stays, and each signal arrives once. Windows has nothing like that. */
function become(binary: string, args: readonly string[]): void {
  if (!IS_WINDOWS) process.execve!(binary, [binary, ...args], process.env);
  const child = spawn(binary, args, { stdio: "inherit" });
  process.on("SIGINT", () => {}); // Ctrl-C reaches both, and the gateway decides when it ends
  child.on("exit", (code) => process.exit(code ?? 1));
}
