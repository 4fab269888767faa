import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { Page } from "playwright-core";
import type { TestBrowser } from "./_browser.ts";
import { type RunningCommand, startCommand } from "./_command.ts";

/** A copy of an example that a test may change, so that the checkout stays clean. */
export class Example implements AsyncDisposable {
  readonly path: string;

  protected constructor(path: string) {
    this.path = path;
  }

  static async copy(name: string): Promise<Example> {
    return new Example(await copyExample(name));
  }

  at(name: string): string {
    return join(this.path, name);
  }

  /** Replaces a text that is in a file. The file is replaced atomically, so that nobody reads a part of it. */
  async edit(name: string, from: string | RegExp, to: string): Promise<void> {
    const text = await Deno.readTextFile(this.at(name));
    const edited = text.replace(from, to);
    if (edited === text) {
      throw new Error(`Cannot edit ${name}: expected it to contain ${from}`);
    }
    await Deno.writeTextFile(this.at(`${name}.new`), edited);
    await Deno.rename(this.at(`${name}.new`), this.at(name));
  }

  /** Starts the gateway with the example's manifest and env file. */
  async startGateway(...flags: string[]): Promise<RunningCommand> {
    const files = [
      "--manifest",
      this.at(".rep.yaml"),
      "--env-file",
      this.at("app.env"),
    ];
    return await startCommand([
      "--kv",
      ":memory:",
      "--allowed-hosts",
      "127.0.0.1",
      ...files,
      ...flags,
    ]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.path, { recursive: true });
  }
}

/** Copies an example into a new folder, and returns its path. */
export async function copyExample(
  name: string,
  options?: Deno.MakeTempOptions,
): Promise<string> {
  const path = await Deno.makeTempDir({ prefix: "example-", ...options });
  await copyFiles(`examples/${name}`, path);
  return path;
}

/** Copies the contents of a folder. */
export async function copyFiles(from: string, to: string): Promise<void> {
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
    page.on(
      "console",
      (message) =>
        message.type() === "error" && this.errors.push(message.text()),
    );
  }

  /** Opens the page of an example. */
  static async open(browser: TestBrowser, url: string): Promise<ExamplePage> {
    const page = new ExamplePage(await browser.open("about:blank"));
    await page.page.goto(url);
    return page;
  }

  /** Waits until an element has this text. */
  async shows(selector: string, text: string): Promise<void> {
    await this.page.locator(selector, { hasText: new RegExp(`^${text}$`) })
      .waitFor();
  }

  /** Marks the document. The mark is lost if the page is loaded again. */
  async mark(): Promise<void> {
    await this.page.evaluate("globalThis.isMarked = true");
  }

  async isMarked(): Promise<boolean> {
    return await this.page.evaluate("globalThis.isMarked === true");
  }

  /** Checks what all examples show: a PUBLIC value, a SENSITIVE one on demand, and a change without a reload. */
  async check(
    changeTitle: (from: string, to: string) => Promise<void>,
  ): Promise<void> {
    await this.shows("h1", "Hello from the gateway");
    await this.mark();
    await this.page.getByRole("button", { name: "Decrypt" }).click();
    await this.shows("output", "example-map-key");
    await changeTitle("Hello from the gateway", "Good morning");
    await this.shows("h1", "Good morning");
    assertEquals([await this.isMarked(), this.errors], [true, []]);
  }
}
