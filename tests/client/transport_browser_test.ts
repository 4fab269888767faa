/**
 * Pages behind something that holds or forgets streams, with a gateway, in Chromium. `transport_model_test.ts` has more
 * that networks do, without a browser.
 */
import { assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import { type TestBrowser, testBrowser } from "../_browser.ts";
import { openFastPage, SPEED, valuesUpTo } from "./_fast_page.ts";

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

/** Opens the page of a gateway behind a box. The heartbeats of the gateway are too rare for the client's time. */
async function open(browser: TestBrowser, box: Box) {
  const requests: string[] = [];
  const opened = await openFastPage(browser, {}, async (request, answer) => {
    const response = await answer();
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
  return { ...opened, requests };
}

async function isOpen(page: Page): Promise<void> {
  await page.waitForFunction(() => globalThis.rep?.status().state === "open");
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
