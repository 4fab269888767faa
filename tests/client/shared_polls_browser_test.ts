/** Pages with an interval of polls, and a plain `EventSource` at the URL of one, in Chromium. */
import { assertEquals, assertGreater } from "@std/assert";
import type { Page } from "playwright-core";
import { type TestBrowser, testBrowser } from "../_browser.ts";
import { openFastPage, SPEED, valuesUpTo } from "./_fast_page.ts";

/** The longest pause between two polls: an interval, and a quarter. */
const LONGEST_MS = 12_500 / SPEED;

interface PollRequest {
  readonly search: string;
  readonly lastEventId: string | null;
}

/** Opens the page of a gateway that wants polls: because of the client's time, every half second instead of 10 s. */
async function open(browser: TestBrowser) {
  const requests: PollRequest[] = [];
  const control = { isAway: false };
  const options = { pollMs: 10_000 };
  const opened = await openFastPage(
    browser,
    options,
    async (request, answer) => {
      const { pathname, search } = new URL(request.url);
      if (pathname !== "/rep/changes") return await answer();
      const lastEventId = request.headers.get("last-event-id");
      requests.push({ search, lastEventId });
      return control.isAway
        ? new Response(null, { status: 503 })
        : await answer();
    },
  );
  return { ...opened, requests, control };
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

/** Makes the page wait for ever wherever it waits for some time. */
async function stopTimers(page: Page) {
  await page.evaluate(`{
    const after = setTimeout;
    globalThis.setTimeout = (callback, ms) => ms > 0 ? 0 : after(callback);
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
    await pause(LONGEST_MS); // a poll may have been on its way
    const before = requests.length;
    await gate.set({ REP_PUBLIC_A: "2" });
    await pause(2 * LONGEST_MS);
    assertEquals(requests.length, before);
    await stopTimers(page); // at once: it must not wait for one
    await setHidden(page, false);
    assertEquals(await valuesUpTo(page, "2"), ["2"]);
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
