import { join } from "@std/path";
import { cachedFolder } from "./cached_folder.ts";

/** A browser of the Chromium family. */
export interface Browser {
  readonly path: string;
  /** Environment variables that it needs in addition. */
  readonly env: Readonly<Record<string, string>>;
}

/** The package's major version is Chromium's. */
const VERSION = "153.0.0";

/**
 * Runs in a process of its own, for two reasons: the package unpacks into the folder that `TMPDIR` names, and an import
 * would make every type check download its 70 MB.
 */
const PROGRAM =
  `import chromium from "npm:@sparticuz/chromium@${VERSION}"; await chromium.executablePath();`;

/** `--no-config` makes the child ignore the configuration of the folder that contains the cache. */
const ARGS = [
  "eval",
  "--quiet",
  "--no-config",
  "--no-lock",
  "--node-modules-dir=none",
  PROGRAM,
];

/**
 * Unpacks the Chromium of the npm package `@sparticuz/chromium` into a folder that later runs reuse. It needs neither
 * root nor system libraries; it is the headless shell, which has no back/forward cache.
 *
 * @throws {Error} If the package cannot be downloaded, or its browser does not run on this machine.
 */
export async function unpackChromium(): Promise<Browser> {
  const folder = await cachedFolder(`chromium-${VERSION}`, extractChromium);
  return browserIn(folder);
}

function browserIn(folder: string): Browser {
  return {
    path: join(folder, "chromium"),
    env: { LD_LIBRARY_PATH: join(folder, "al2023", "lib") },
  };
}

async function extractChromium(folder: string): Promise<void> {
  // AWS_EXECUTION_ENV makes the package also unpack the libraries that a machine without a browser lacks.
  const env = {
    TMPDIR: folder,
    AWS_EXECUTION_ENV: "AWS_Lambda_nodejs24.x",
    NO_COLOR: "1",
  };
  await run(Deno.execPath(), ARGS, env, "Cannot unpack Chromium from npm");
  const { path, env: browserEnv } = browserIn(folder);
  await run(path, ["--version"], browserEnv, "Cannot run Chromium from npm");
}

async function run(
  command: string,
  args: string[],
  env: Record<string, string>,
  failure: string,
): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, {
    args,
    env,
    stdout: "null",
  }).output();
  if (success) return;
  const [firstLine] = new TextDecoder().decode(stderr).trim().split("\n");
  throw new Error(`${failure}: ${firstLine}`);
}
