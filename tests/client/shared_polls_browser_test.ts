/** Pages with an interval of polls, and a plain `EventSource` at the URL of one, in Chromium. */
import { assertEquals, assertGreater, assertLess } from "@std/assert";
import type { Page } from "playwright-core";
import { type TestBrowser, testBrowser } from "../_browser.ts";
import { setUp } from "../_gateway.ts";
import { serveLocally } from "../_serve.ts";
import { TempDirectory } from "../_temp.ts";

/** How often the time of the client passes faster: it polls every half second, and not every 10 s. */
const SPEED = 20;
/** The longest pause between two polls: an interval, and a quarter. */
const LONGEST_MS = 12_500 / SPEED;

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

interface PollRequest {
  readonly search: string;
  readonly lastEventId: string | null;
}

/** Starts a gateway that wants polls, and opens its page. */
async function open(browser: TestBrowser) {
  const directory = await TempDirectory.make({ "index.html": PAGE });
  const gate = await setUp({ REP_PUBLIC_A: "1" }, {
    staticDir: directory.path,
    pollMs: 10_000,
  });
  const requests: PollRequest[] = [];
  const control = { isAway: false };
  const server = serveLocally(async (request, info) => {
    const { pathname, search } = new URL(request.url);
    if (pathname === "/rep/changes") {
      requests.push({
        search,
        lastEventId: request.headers.get("last-event-id"),
      });
      if (control.isAway) return new Response(null, { status: 503 });
    }
    return await gate.gateway.fetch(request, info);
  });
  const page = await browser.open(server.url);
  return {
    gate,
    page,
    requests,
    control,
    async [Symbol.asyncDispose]() {
      await page.close();
      await gate.gateway.close();
      await server.shutdown();
      await directory[Symbol.asyncDispose]();
    },
  };
}

/** Waits until the page has a value, and returns all that it has been told. */
async function valuesUpTo(page: Page, value: string): Promise<unknown[]> {
  await page.waitForFunction(
    (value) => globalThis.rep?.get("A") === value,
    value,
  );
  return await page.evaluate(() => globalThis.values);
}

/** Waits until so many requests have been sent. */
async function sent(requests: readonly PollRequest[], count: number) {
  while (requests.length < count) await pause(10);
}

function pause(ms: number) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Makes the page believe that its tab is shown or hidden; Playwright's browsers show every tab. */
async function setHidden(page: Page, isHidden: boolean) {
  const state = isHidden ? "hidden" : "visible";
  await page.evaluate(`{
    Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true });
    Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });
    document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));
  }`);
}

testBrowser(
  "a page with an interval polls without a Last-Event-ID, at URLs of cursor and interval alone, and misses nothing",
  async (browser) => {
    await using opened = await open(browser);
    const { gate, page, requests } = opened;
    await sent(requests, 2);
    await gate.set({ REP_PUBLIC_A: "2" });
    assertEquals(await valuesUpTo(page, "2"), ["2"]);
    await gate.set({ REP_PUBLIC_A: "3" });
    assertEquals(await valuesUpTo(page, "3"), ["2", "3"]);
    await sent(requests, requests.length + 2);
    const exact = /^\?last_event_id=\d{16}&poll=10$/;
    assertEquals(requests.filter((it) => !exact.test(it.search)), []);
    assertEquals(requests.filter((it) => it.lastEventId !== null), []);
    assertEquals(new Set(requests.map((it) => it.search)).size, 3);
    const status = await page.evaluate(() => globalThis.rep.status());
    assertEquals(status.transport, "poll");
  },
);

testBrowser(
  "a hidden page with an interval does not poll, and polls at once when it is shown",
  async (browser) => {
    await using opened = await open(browser);
    const { gate, page, requests } = opened;
    await sent(requests, 1);
    await setHidden(page, true);
    await page.waitForFunction(() =>
      globalThis.rep.status().state === "closed"
    );
    const before = requests.length;
    await gate.set({ REP_PUBLIC_A: "2" });
    await pause(2 * LONGEST_MS);
    assertEquals(requests.length, before);
    const shownAt = performance.now();
    await setHidden(page, false);
    assertEquals(await valuesUpTo(page, "2"), ["2"]);
    assertLess(performance.now() - shownAt, 7_500 / SPEED); // the shortest interval
    assertEquals(requests.length, before + 1);
  },
);

testBrowser(
  "a page with an interval outlives a gateway that rejects its polls",
  async (browser) => {
    await using opened = await open(browser);
    const { gate, page, requests, control } = opened;
    await sent(requests, 1);
    control.isAway = true;
    await sent(requests, requests.length + 2);
    await gate.set({ REP_PUBLIC_A: "2" });
    control.isAway = false;
    assertEquals(await valuesUpTo(page, "2"), ["2"]);
  },
);

testBrowser(
  "a plain EventSource at the URL of a poll gets the same again when it reconnects with its Last-Event-ID",
  async (browser) => {
    await using opened = await open(browser);
    const { gate, page, requests } = opened;
    await sent(requests, 1);
    await setHidden(page, true); // only the EventSource polls
    await gate.set({ REP_PUBLIC_A: "2" });
    const seen = await page.evaluate(async (search) => {
      const source = new EventSource(`/rep/changes${search}`);
      const seen: string[] = [];
      await new Promise<void>((resolve) => {
        source.addEventListener("rep:config:update", (event) => {
          const { data, lastEventId } = event as MessageEvent;
          seen.push(`${JSON.parse(data).value} ${lastEventId}`);
          if (seen.length === 2) resolve();
        });
      });
      source.close();
      return seen;
    }, requests[0]?.search ?? "");
    assertEquals(new Set(seen).size, 1);
    const reconnects = requests.filter((it) => it.lastEventId !== null);
    assertEquals(reconnects.length, 1);
    assertGreater(reconnects[0]?.lastEventId, ""); // the id of the change, which the gateway ignores
  },
);
