import { assertEquals } from "@std/assert";
import { dirname, join } from "@std/path";
import { createRequire } from "node:module";
import { findFreePort } from "../tools/free_port.ts";
import { installNpmPackages, npm } from "../tools/install_npm_packages.ts";
import { type TestBrowser, testBrowser } from "./_browser.ts";
import { RunningCommand } from "./_command.ts";
import { copyExample, copyFiles, Example } from "./_example.ts";
import { npmPackage } from "./_npm_package.ts";
import { pathOf } from "./_runtimes.ts";

/** The examples with a `package.json`. */
const NPM_EXAMPLES = ["service-worker", "vite-react", "vite-vue"];

/**
 * What other tests of packages need: Angular's service worker, Svelte, and the versions of Vite and Vitest with which the
 * plugin works.
 */
const OTHER_PROJECTS = {
  "angular": { devDependencies: { "@angular/service-worker": "22.2.0" } },
  "vite-6": { devDependencies: { vite: "6.4.6" } },
  "vite-7": { devDependencies: { vite: "7.3.8" } },
  "vite-8": {
    devDependencies: {
      jsdom: "31.0.1",
      vite: "8.3.8",
      vitest: "5.1.1",
      vue: "3.5.45",
    },
  },
  "svelte": {
    devDependencies: {
      "@sveltejs/vite-plugin-svelte": "7.1.2",
      jsdom: "31.0.1",
      svelte: "5.57.3",
      vite: "8.3.8",
      vitest: "5.1.1",
    },
  },
  ...vitestProjects(["2.1.9", "3.2.7", "4.1.12"]),
  "gateway": { dependencies: { re2js: "2.10.0" } },
};

/** Projects like `vite-8` with older versions of Vitest, which bring their own Vite. */
function vitestProjects<Version extends string>(versions: readonly Version[]) {
  const others = { jsdom: "31.0.1", vue: "3.5.45" };
  return Object.fromEntries(
    versions.map((
      vitest,
    ) => [`vitest-${vitest}`, { devDependencies: { vitest, ...others } }]),
  ) as Record<`vitest-${Version}`, object>;
}

const installed = await installNpmPackages(
  new Map(
    await Promise.all([
      ...NPM_EXAMPLES.map(readPackageJson),
      ...Object.entries(OTHER_PROJECTS).map(([name, project]) =>
        [name, JSON.stringify({ name, ...project })] as const
      ),
    ]),
  ),
);

/** Returns what an example needs, without the gateway's own package, which is not published yet. */
async function readPackageJson(
  name: string,
): Promise<readonly [name: string, text: string]> {
  const { dependencies, ...others } = JSON.parse(
    await Deno.readTextFile(`examples/${name}/package.json`),
  );
  delete dependencies?.["@rep/gateway"];
  return [name, JSON.stringify({ ...others, dependencies })];
}

/** Registers a browser test that needs npm packages; without them it is ignored, and its name says why. */
export function testNpmExample(
  name: string,
  fn: (browser: TestBrowser) => Promise<void>,
): void {
  if (typeof installed === "string") return testBrowser(name, fn);
  Deno.test({ name: `${name} (${installed.reason})`, ignore: true, fn() {} });
}

/** Returns the folder in which the packages are installed. */
function packages(): string {
  if (typeof installed !== "string") {
    throw new Error(`Cannot use npm packages: ${installed.reason}`);
  }
  return installed;
}

/** A project with npm packages, among them the gateway's own. */
export class NpmExample extends Example {
  /** Copies an example to where Node.js finds its packages, below the folder in which they are installed. */
  static override async copy(name: string): Promise<NpmExample> {
    return await NpmExample.#withGateway(
      await copyExample(name, { dir: join(packages(), name) }),
    );
  }

  /** Makes a project from files, by their paths. @param name Whose packages it has. */
  static async make(
    name: keyof typeof OTHER_PROJECTS,
    files: Record<string, string>,
  ): Promise<NpmExample> {
    const path = await Deno.makeTempDir({
      prefix: "example-",
      dir: join(packages(), name),
    });
    for (
      const [file, text] of Object.entries({
        "package.json": '{"type":"module"}',
        ...files,
      })
    ) {
      await Deno.mkdir(dirname(join(path, file)), { recursive: true });
      await Deno.writeTextFile(join(path, file), text);
    }
    return await NpmExample.#withGateway(path);
  }

  static async #withGateway(path: string): Promise<NpmExample> {
    const target = join(path, "node_modules/@rep/gateway");
    await Deno.mkdir(target, { recursive: true });
    await copyFiles((await npmPackage()).folder, target);
    return new NpmExample(path);
  }

  /** Runs the script `build`, which checks the types as well. */
  async build(): Promise<void> {
    const { success, stdout, stderr } = await npm(
      ["run", "build"],
      this.path,
      nodeEnvironment(),
    );
    assertEquals(success, true, `${stdout}\n${stderr}`);
  }

  /** Starts a server of Vite, by default for development and on a free port. */
  async startVite(
    { command = "dev", port = String(findFreePort()), mode = "" } = {},
  ): Promise<RunningCommand> {
    const args = [
      await this.#programOf("vite"),
      command,
      "--host",
      "127.0.0.1",
      "--port",
      port,
      "--strictPort",
      ...mode === "" ? [] : ["--mode", mode],
    ];
    return await RunningCommand.start({
      program: nodeProgram(),
      args,
      env: {},
      cwd: this.path,
    }, localUrl);
  }

  /** Returns the path of a file in a package. */
  fileOf(specifier: string): string {
    return createRequire(this.at("package.json")).resolve(specifier);
  }

  /** Runs Vite or Vitest to its end, and returns what it has printed and whether it has succeeded. */
  async run(
    name: "vite" | "vitest",
    ...args: readonly string[]
  ): Promise<{ success: boolean; output: string }> {
    const options = {
      args: [await this.#programOf(name), ...args],
      cwd: this.path,
      env: { NO_COLOR: "1" },
    };
    const { success, stdout, stderr } = await new Deno.Command(
      nodeProgram(),
      options,
    ).output();
    const decoder = new TextDecoder();
    return { success, output: decoder.decode(stdout) + decoder.decode(stderr) };
  }

  /** Runs a program of the project that prints where it listens, as Vite does. */
  async startProgram(name: string): Promise<RunningCommand> {
    return await RunningCommand.start({
      program: nodeProgram(),
      args: [name],
      env: {},
      cwd: this.path,
    }, localUrl);
  }

  /** Returns the path of a package's program. */
  async #programOf(name: string): Promise<string> {
    const manifest = createRequire(this.at("package.json")).resolve(
      `${name}/package.json`,
    );
    return join(
      dirname(manifest),
      JSON.parse(await Deno.readTextFile(manifest)).bin[name],
    );
  }
}

function localUrl(line: string): string | undefined {
  return /Local: +(http\S+)/.exec(line)?.[1];
}

/** Returns the program of Node.js 22, the oldest with which the plugin works; that of the system where npm has none. */
function nodeProgram(): string {
  return Deno.build.os === "linux" ? pathOf("Node 22") : "node";
}

/** Returns the environment in which npm runs that program. */
function nodeEnvironment(): Record<string, string> {
  return Deno.build.os === "linux"
    ? { PATH: `${dirname(nodeProgram())}:${Deno.env.get("PATH")}` }
    : {};
}
