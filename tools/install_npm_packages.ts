import { join } from "@std/path";
import { encodeBase64 } from "@std/encoding/base64";
import { cachedFolder } from "./cached_folder.ts";

/** Why the packages are not installed. */
export interface NotInstalled {
  readonly reason: string;
}

/** What npm reports for a registry that cannot be reached. */
const NETWORK_ERROR =
  /\b(EAI_AGAIN|ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|ETIMEDOUT|network timeout)\b/;

/** `npm install` would try for minutes. */
const PROBE_ARGS = [
  "ping",
  "--loglevel=error",
  "--fetch-retries=0",
  "--fetch-timeout=5000",
];

const INSTALL_ARGS = [
  "install",
  "--ignore-scripts",
  "--no-audit",
  "--no-fund",
  "--no-package-lock",
  "--no-update-notifier",
  "--prefer-offline",
  "--loglevel=error",
];

/**
 * Installs the packages of several projects as npm workspaces, once for each version of their `package.json` files.
 *
 * @param projects The text of each project's `package.json`, by name.
 * @returns The folder that contains `node_modules` and a folder for each project.
 * @throws {Error} If npm rejects the packages for another reason than the network.
 */
export async function installNpmPackages(
  projects: ReadonlyMap<string, string>,
): Promise<string | NotInstalled> {
  async function install(folder: string): Promise<void> {
    await writeProjects(folder, projects);
    const { success, stderr } = await runNpm(folder);
    if (!success) throw new InstallError(stderr);
  }
  try {
    return await cachedFolder(`npm-${await digest(projects)}`, install);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) {
      return { reason: "npm is not installed" };
    }
    if (error instanceof InstallError && NETWORK_ERROR.test(error.message)) {
      return { reason: "the npm registry cannot be reached" };
    }
    throw error;
  }
}

class InstallError extends Error {
  constructor(stderr: string) {
    super(`Cannot install npm packages: ${stderr.trim()}`);
  }
}

async function digest(projects: ReadonlyMap<string, string>): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify([...projects]));
  const hash = encodeBase64(await crypto.subtle.digest("SHA-256", bytes));
  return hash.replaceAll(/[^A-Za-z0-9]/g, "").slice(0, 16);
}

async function writeProjects(
  folder: string,
  projects: ReadonlyMap<string, string>,
): Promise<void> {
  const root = { private: true, workspaces: [...projects.keys()] };
  await Deno.writeTextFile(join(folder, "package.json"), JSON.stringify(root));
  for (const [name, manifest] of projects) {
    await Deno.mkdir(join(folder, name));
    await Deno.writeTextFile(join(folder, name, "package.json"), manifest);
  }
}

async function runNpm(folder: string): Promise<NpmOutcome> {
  const probe = await npm(PROBE_ARGS, folder);
  return NETWORK_ERROR.test(probe.stderr)
    ? probe
    : await npm(INSTALL_ARGS, folder);
}

/** How a run of npm ended, and what it printed. */
export interface NpmOutcome {
  readonly success: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs npm in a folder.
 *
 * @param env Variables beside those of this process.
 * @throws {Deno.errors.NotFound} If npm is not installed.
 */
export async function npm(
  args: readonly string[],
  cwd: string,
  env: Record<string, string> = {},
): Promise<NpmOutcome> {
  const program = Deno.build.os === "windows" ? "npm.cmd" : "npm";
  const command = new Deno.Command(program, {
    args: [...args],
    cwd,
    env: { NO_COLOR: "1", ...env },
    stdin: "null",
  });
  const { success, stdout, stderr } = await command.output();
  const decoder = new TextDecoder();
  return {
    success,
    stdout: decoder.decode(stdout),
    stderr: decoder.decode(stderr),
  };
}
