/** A page whose client's time passes faster, and its gateway, behind a server that a test may disturb. */
import type { Page } from "playwright-core";
import type { GatewayOptions } from "../../src/options.ts";
import type { TestBrowser } from "../_browser.ts";
import { setUp, type TestGateway } from "../_gateway.ts";
import { serveLocally } from "../_serve.ts";
import { TempDirectory } from "../_temp.ts";

/** How often the time of the client passes faster. */
export const SPEED = 20;

const PAGE = `<!doctype html>
<html><head><title>test</title><script type="module">
const passed = performance.now.bind(performance);
const after = setTimeout;
performance.now = () => ${SPEED} * passed();
globalThis.setTimeout = (callback, ms) => after(callback, ms / ${SPEED});
const { rep } = await import("./rep/client.js");
globalThis.rep = rep;
globalThis.values = [];
rep.onChange("A", (value) => globalThis.values.push(value));
</script></head></html>`;

/** The globals of the page. */
declare global {
  var rep: typeof import("../../src/client/mod.ts").default,
    values: unknown[];
}

/** What a test gets from {@linkcode openFastPage}. */
export interface FastPage extends AsyncDisposable {
  readonly gate: TestGateway;
  readonly page: Page;
}

/**
 * Starts a gateway whose variable A is 1, and opens its page.
 *
 * @param respond Responds to a request; `answer` is the gateway.
 */
export async function openFastPage(
  browser: TestBrowser,
  options: Partial<GatewayOptions>,
  respond: (
    request: Request,
    answer: () => Response | Promise<Response>,
  ) => Promise<Response>,
): Promise<FastPage> {
  const directory = await TempDirectory.make({ "index.html": PAGE });
  const gate = await setUp({ REP_PUBLIC_A: "1" }, {
    staticDir: directory.path,
    ...options,
  });
  const server = serveLocally((request, info) =>
    respond(request, () => gate.gateway.fetch(request, info))
  );
  const page = await browser.open(server.url);
  return {
    gate,
    page,
    async [Symbol.asyncDispose]() {
      await page.close();
      await gate.gateway.close();
      await server.shutdown();
      await directory[Symbol.asyncDispose]();
    },
  };
}

/** Waits until the page has a value, and returns all that it has been told. */
export async function valuesUpTo(
  page: Page,
  value: string,
): Promise<unknown[]> {
  await page.waitForFunction(
    (value) => globalThis.rep?.get("A") === value,
    value,
  );
  return await page.evaluate(() => globalThis.values);
}
