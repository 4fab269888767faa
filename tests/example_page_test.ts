/** Opens the example page in a browser: `examples/page`, as `deno task start` serves it. */
import { assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import { findViolations, testBrowser } from "./_browser.ts";
import { type RunningCommand, startCommand } from "./_command.ts";
import { TempDirectory } from "./_temp.ts";

const ENV = await Deno.readTextFile("examples/example.env");

/** The example on a copy of its env file. */
class RunningExample implements AsyncDisposable {
  readonly #directory: TempDirectory;
  readonly gateway: RunningCommand;

  constructor(directory: TempDirectory, gateway: RunningCommand) {
    this.#directory = directory;
    this.gateway = gateway;
  }

  static async start(): Promise<RunningExample> {
    const directory = await TempDirectory.make({ "app.env": ENV });
    const gateway = await startCommand([
      "--static-dir=examples/page",
      "--manifest=examples/rep.yaml",
      `--env-file=${directory.at("app.env")}`,
      "--allowed-hosts=127.0.0.1",
      "--kv=:memory:",
    ]);
    return new RunningExample(directory, gateway);
  }

  async save(text: string): Promise<void> {
    await Deno.writeTextFile(this.#directory.at("app.env"), text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.gateway[Symbol.asyncDispose]();
    await this.#directory[Symbol.asyncDispose]();
  }
}

async function isLive(page: Page): Promise<void> {
  await page.locator('#state[data-state="open"]').waitFor();
}

testBrowser(
  "the example page shows PUBLIC values, a SENSITIVE one on demand, and that a SERVER one is absent",
  async (browser) => {
    await using example = await RunningExample.start();
    const page = await browser.open(example.gateway.url);
    await isLive(page);
    assertEquals(await page.locator("tbody tr").allInnerTexts(), [
      "API_URL\thttps://api.example.com",
      "FEATURE_FLAGS\tnew-checkout,gift-cards",
      "GREETING\tHello from the gateway",
      "LOG_LEVEL\tinfo",
      "SUPPORT_EMAIL\thelp@example.com",
    ]);
    await page.getByRole("button", { name: "Decrypt" }).click();
    await page.locator("#secret", { hasText: "example-analytics-key" })
      .waitFor();
    assertEquals(
      await page.locator("#server").innerText(),
      "absent from this page",
    );
    const [, server = ""] = /^REP_SERVER_DATABASE_URL=(.+)$/m.exec(ENV) ?? [];
    assertEquals([server === "", (await page.content()).includes(server)], [
      false,
      false,
    ]);
  },
);

testBrowser(
  "what the example page proposes to do next works",
  async (browser) => {
    await using example = await RunningExample.start();
    const page = await browser.open(example.gateway.url);
    const links = await page.locator("main a").evaluateAll((elements) =>
      elements.map((a) => a.getAttribute("href"))
    );
    const statuses: number[] = [];
    for (const link of links) {
      const response = await fetch(new URL(link ?? "", example.gateway.url));
      statuses.push(response.status);
      await response.body?.cancel();
    }
    assertEquals(statuses, [200, 200]);
    const line = await page.locator("li code", { hasText: "=" }).innerText();
    await example.save(`${ENV}\n${line}\n`);
    await example.gateway.logged(({ msg, issues }) =>
      msg === "rep.config.rejected" &&
      JSON.stringify(issues).includes("LOG_LEVEL")
    );
  },
);

for (const colorScheme of ["light", "dark"] as const) {
  testBrowser(
    `axe finds nothing in the example page, ${colorScheme}`,
    async (browser) => {
      await using example = await RunningExample.start();
      const page = await browser.open(example.gateway.url, { colorScheme });
      await isLive(page);
      await page.getByRole("button", { name: "Decrypt" }).click();
      await page.locator("#secret", { hasText: "example" }).waitFor();
      assertEquals(await findViolations(page), []);
    },
  );
}
