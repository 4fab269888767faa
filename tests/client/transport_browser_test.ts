/**
 * Pages behind something that holds or forgets streams, with a gateway, in Chromium. `transport_model_test.ts` has more
 * that networks do, without a browser.
 */
import { assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import { type TestBrowser, testBrowser } from "../_browser.ts";
import { setUp } from "../_gateway.ts";
import { TempDirectory } from "../_temp.ts";
import { serveLocally } from "../_serve.ts";

/** How often the time passes faster: of the client, and of `retry:`. The heartbeats of the gateway are too rare then. */
const SPEED = 20;

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

/** What happens to the body of a stream, chunk by chunk. */
type Box = () => Transformer<string, string>;

/** It passes a body when it is complete. */
function holdingBox(): Transformer<string, string> {
  const chunks: string[] = [];
  return {
    transform(chunk) {
      chunks.push(chunk);
    },
    flush(controller) {
      controller.enqueue(chunks.join(""));
    },
  };
}

/** It forgets all connections that are open at a moment. */
function forgettingBox() {
  const open = new Set<object>();
  function create(): Transformer<string, string> {
    const connection = {};
    open.add(connection);
    return {
      transform(chunk, controller) {
        if (open.has(connection)) controller.enqueue(chunk);
      },
    };
  }
  return { create, forget: () => open.clear() };
}

/** Makes the browser reconnect faster. */
function hurry(chunk: string): string {
  return chunk.replace(
    /^retry: (\d+)/gm,
    (_, ms) => `retry: ${Math.round(Number(ms) / SPEED)}`,
  );
}

/** Starts a gateway behind a box, and opens its page. */
async function open(browser: TestBrowser, box: Box) {
  const directory = await TempDirectory.make({ "index.html": PAGE });
  const gate = await setUp({ REP_PUBLIC_A: "1" }, {
    staticDir: directory.path,
  });
  const requests: string[] = [];
  const server = serveLocally(async (request, info) => {
    const response = await gate.gateway.fetch(request, info);
    const { pathname, searchParams } = new URL(request.url);
    if (pathname !== "/rep/changes" || !response.body) return response;
    requests.push(searchParams.has("poll") ? "poll" : "stream");
    const hurrying = new TransformStream<string, string>({
      transform: (chunk, controller) => controller.enqueue(hurry(chunk)),
    });
    const body = response.body
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(hurrying)
      .pipeThrough(new TransformStream(box()))
      .pipeThrough(new TextEncoderStream());
    return new Response(body, response);
  });
  const page = await browser.open(server.url);
  return {
    gate,
    page,
    requests,
    async [Symbol.asyncDispose]() {
      await page.close();
      await gate.gateway.close();
      await server.shutdown();
      await directory[Symbol.asyncDispose]();
    },
  };
}

async function isOpen(page: Page): Promise<void> {
  await page.waitForFunction(() => globalThis.rep?.status().state === "open");
}

/** Waits until the page has a value, and returns all that it has been told. */
async function valuesUpTo(page: Page, value: string): Promise<unknown[]> {
  await page.waitForFunction(
    (value) => globalThis.rep?.get("A") === value,
    value,
  );
  return await page.evaluate(() => globalThis.values);
}

function transportOf(page: Page): Promise<string> {
  return page.evaluate(() => globalThis.rep.status().transport);
}

testBrowser(
  "behind a box that holds streams, a page polls after two of them, and misses nothing",
  async (browser) => {
    await using opened = await open(browser, holdingBox);
    const { gate, page, requests } = opened;
    await isOpen(page);
    await gate.set({ REP_PUBLIC_A: "2" });
    assertEquals(await valuesUpTo(page, "2"), ["2"]);
    assertEquals(requests.slice(0, 3), ["stream", "stream", "poll"]);
    assertEquals(await transportOf(page), "poll");
    await gate.set({ REP_PUBLIC_A: "3" });
    assertEquals(await valuesUpTo(page, "3"), ["2", "3"]);
    assertEquals(requests.filter((kind) => kind === "stream").length, 2);
  },
);

testBrowser(
  "a page whose stream is forgotten opens it again, and misses nothing",
  async (browser) => {
    const box = forgettingBox();
    await using opened = await open(browser, box.create);
    const { gate, page, requests } = opened;
    await gate.set({ REP_PUBLIC_A: "2" });
    assertEquals(await valuesUpTo(page, "2"), ["2"]);
    box.forget();
    await gate.set({ REP_PUBLIC_A: "3" });
    assertEquals(await valuesUpTo(page, "3"), ["2", "3"]);
    assertEquals(await transportOf(page), "stream");
    assertEquals(new Set(requests), new Set(["stream"]));
  },
);
