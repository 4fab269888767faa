import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import { findFreePort } from "../tools/free_port.ts";
import { installNpmPackages, npm } from "../tools/install_npm_packages.ts";
import { type TestBrowser, testBrowser } from "./_browser.ts";
import { RunningCommand } from "./_command.ts";
import { copyExample, Example } from "./_example.ts";

/** The examples with a `package.json`. */
const NPM_EXAMPLES = ["service-worker", "vite-react", "vite-vue"];

const installed = await installNpmPackages(new Map(await Promise.all(NPM_EXAMPLES.map(readPackageJson))));

async function readPackageJson(name: string): Promise<[name: string, text: string]> {
  return [name, await Deno.readTextFile(`examples/${name}/package.json`)];
}

/** Registers a browser test that needs npm packages; without them it is ignored, and its name says why. */
export function testNpmExample(name: string, fn: (browser: TestBrowser) => Promise<void>): void {
  if (typeof installed === "string") return testBrowser(name, fn);
  Deno.test({ name: `${name} (${installed.reason})`, ignore: true, fn() {} });
}

/** Returns the folder in which the packages are installed. */
function packages(): string {
  if (typeof installed !== "string") throw new Error(`Cannot use npm packages: ${installed.reason}`);
  return installed;
}

/** A copy of an example with npm packages. */
export class NpmExample extends Example {
  /** Copies an example to where Node.js finds its packages, below the folder in which they are installed. */
  static override async copy(name: string): Promise<NpmExample> {
    return new NpmExample(await copyExample(name, { dir: join(packages(), name) }));
  }

  /** Adds a package with these modules, by what they are imported as, such as JSR makes it for npm. */
  async addPackage(name: string, modules: Record<string, string>): Promise<void> {
    const folder = this.at(`node_modules/${name}`);
    await Deno.mkdir(folder, { recursive: true });
    const exports = Object.fromEntries(Object.keys(modules).map((path) => [path, `${path}.js`]));
    await Deno.writeTextFile(join(folder, "package.json"), JSON.stringify({ name, type: "module", exports }));
    for (const [path, text] of Object.entries(modules)) await Deno.writeTextFile(join(folder, `${path}.js`), text);
  }

  /** Runs the script `build`, which checks the types as well. */
  async build(): Promise<void> {
    const { success, stdout, stderr } = await npm(["run", "build"], this.path);
    assertEquals(success, true, `${stdout}\n${stderr}`);
  }

  /** Starts Vite's development server, by default on a free port. */
  async startVite(port = String(findFreePort())): Promise<RunningCommand> {
    const vite = join(packages(), "node_modules/vite/bin/vite.js");
    const args = [vite, "--host", "127.0.0.1", "--port", port, "--strictPort"];
    return await RunningCommand.start({ program: "node", args, env: {}, cwd: this.path }, (line) => {
      return /Local: +(http:\S+)/.exec(line)?.[1];
    });
  }
}
