import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { Page } from "playwright-core";
import { installNpmPackages, npm } from "../tools/install_npm_packages.ts";
import { type TestBrowser, testBrowser } from "./_browser.ts";
import { RunningCommand, startCommand } from "./_command.ts";

/** The examples that need packages from npm. */
const NPM_EXAMPLES = ["service-worker", "vite-react", "vite-vue"];

const installed = await installNpmPackages(
  new Map(
    await Promise.all(NPM_EXAMPLES.map(async (name): Promise<[string, string]> => {
      return [name, await Deno.readTextFile(`examples/${name}/package.json`)];
    })),
  ),
);

/** Registers a browser test that needs npm packages; without them it is ignored, and its name says why. */
export function testExample(name: string, fn: (browser: TestBrowser) => Promise<void>): void {
  if (typeof installed === "string") return testBrowser(name, fn);
  Deno.test({ name: `${name} (${installed.reason})`, ignore: true, fn() {} });
}

/** A copy of an example that a test may build and change, so that the checkout stays clean. */
export class Example implements AsyncDisposable {
  readonly #path: string;

  private constructor(path: string) {
    this.#path = path;
  }

  /** Copies an example; one with packages to where Node.js finds them, below the folder in which they are installed. */
  static async copy(name: string): Promise<Example> {
    const dir = NPM_EXAMPLES.includes(name) ? join(packages(), name) : undefined;
    const path = await Deno.makeTempDir({ prefix: "example-", ...(dir === undefined ? {} : { dir }) });
    await copyFiles(`examples/${name}`, path);
    return new Example(path);
  }

  at(name: string): string {
    return join(this.#path, name);
  }

  /** Replaces a text that is in a file. The file is replaced atomically, so that nobody reads a part of it. */
  async edit(name: string, from: string | RegExp, to: string): Promise<void> {
    const text = await Deno.readTextFile(this.at(name));
    const edited = text.replace(from, to);
    if (edited === text) throw new Error(`Cannot edit ${name}: expected it to contain ${from}`);
    await Deno.writeTextFile(this.at(`${name}.new`), edited);
    await Deno.rename(this.at(`${name}.new`), this.at(name));
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
    const { success, stdout, stderr } = await npm(["run", "build"], this.#path);
    assertEquals(success, true, `${stdout}\n${stderr}`);
  }

  /** Starts Vite's development server, by default on a free port. */
  async startVite(port = "0"): Promise<RunningCommand> {
    const vite = join(packages(), "node_modules/vite/bin/vite.js");
    const args = [vite, "--host", "127.0.0.1", "--port", port, "--strictPort"];
    return await RunningCommand.start({ program: "node", args, env: {}, cwd: this.#path }, (line) => {
      return /Local: +(http:\S+)/.exec(line)?.[1];
    });
  }

  /** Starts the gateway with the example's manifest and env file. */
  async startGateway(...flags: string[]): Promise<RunningCommand> {
    const files = ["--manifest", this.at(".rep.yaml"), "--env-file", this.at("app.env")];
    return await startCommand(["--kv", ":memory:", "--allowed-hosts", "127.0.0.1", ...files, ...flags]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.#path, { recursive: true });
  }
}

/** Returns the folder in which the packages are installed. */
function packages(): string {
  if (typeof installed !== "string") throw new Error(`Cannot use npm packages: ${installed.reason}`);
  return installed;
}

async function copyFiles(from: string, to: string): Promise<void> {
  for await (const { name, isDirectory } of Deno.readDir(from)) {
    if (name === "node_modules" || name === "dist") continue; // somebody has tried the example
    if (!isDirectory) await Deno.copyFile(join(from, name), join(to, name));
    else {
      await Deno.mkdir(join(to, name));
      await copyFiles(join(from, name), join(to, name));
    }
  }
}

/** A page of an example. */
export class ExamplePage {
  readonly page: Page;
  /** Errors of the page's scripts, and what the browser reports in its console as an error. */
  readonly errors: string[] = [];

  constructor(page: Page) {
    this.page = page;
    page.on("pageerror", ({ message }) => this.errors.push(message));
    page.on("console", (message) => message.type() === "error" && this.errors.push(message.text()));
  }

  /** Opens the page of an example. */
  static async open(browser: TestBrowser, url: string): Promise<ExamplePage> {
    const page = new ExamplePage(await browser.open("about:blank"));
    await page.page.goto(url);
    return page;
  }

  /** Waits until an element has this text. */
  async shows(selector: string, text: string): Promise<void> {
    await this.page.locator(selector, { hasText: new RegExp(`^${text}$`) }).waitFor({ timeout: 20_000 });
  }

  /** Marks the document. The mark is lost if the page is loaded again. */
  async mark(): Promise<void> {
    await this.page.evaluate("globalThis.isMarked = true");
  }

  async isMarked(): Promise<boolean> {
    return await this.page.evaluate("globalThis.isMarked === true");
  }

  /** Checks what all examples show: a PUBLIC value, a SENSITIVE one on demand, and a change without a reload. */
  async check(changeTitle: (from: string, to: string) => Promise<void>): Promise<void> {
    await this.shows("h1", "Hello from the gateway");
    await this.mark();
    await this.page.getByRole("button", { name: "Decrypt" }).click();
    await this.shows("output", "example-map-key");
    await changeTitle("Hello from the gateway", "Good morning");
    await this.shows("h1", "Good morning");
    assertEquals([await this.isMarked(), this.errors], [true, []]);
  }
}
