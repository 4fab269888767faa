/** A service whose pages poll in an interval: through a cache, over restarts and rollouts, and beside REP's SDK. */
import { assertEquals, assertGreater, assertLess } from "@std/assert";
import { memoryStore } from "../src/engines/memory.ts";
import { FakeClock } from "../tools/fake_clock.ts";
import { SeededChoices } from "../tools/seeded_random.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { pageOf, shareStore } from "./_replicas.ts";
import { readSse } from "./_sse.ts";
import { TempDirectory } from "./_temp.ts";

const SECONDS = 10;

/** A cache in front of gateways, which keeps what it may. */
class SharedCache {
  /** How many requests have reached a gateway. */
  misses = 0;
  readonly #clock: FakeClock;
  readonly #stored = new Map<string, { text: string; until: number }>();

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  /** Returns the body; `undefined` for a rejection. */
  async get(url: string, gate: TestGateway): Promise<string | undefined> {
    const now = this.#clock.now();
    const stored = this.#stored.get(url);
    if (stored !== undefined && now < stored.until) return stored.text;
    this.misses++;
    const response = await gate.ask(url);
    const text = await response.text();
    const control = response.headers.get("cache-control") ?? "";
    const maxAge = /^public, max-age=(\d+)/.exec(control)?.[1];
    const until = now + Number(maxAge) * 1_000;
    if (maxAge !== undefined) this.#stored.set(url, { text, until });
    return response.ok ? text : undefined;
  }
}

/** A page: its cursor, its values, and when it polls next. */
class PollingPage {
  readonly values = new Map<string, string>();
  cursor: number;
  nextAt: number;
  steps = 0;

  constructor(cursor: number, nextAt: number) {
    [this.cursor, this.nextAt] = [cursor, nextAt];
  }

  async poll(cache: SharedCache, gate: TestGateway): Promise<void> {
    const url = `/rep/changes?last_event_id=${this.cursor}&poll=${SECONDS}`;
    const text = await cache.get(url, gate);
    if (text === undefined) return;
    const stream = readSse(new Response(text));
    for (let event; (event = await stream.next()) !== undefined;) {
      if (event.event === "rep:heartbeat") continue;
      const { key, value } = event.data;
      assertGreater(event.id, this.cursor); // nothing ever goes back
      this.cursor = event.id;
      if (value === undefined) this.values.delete(key);
      else this.values.set(key, value);
      this.steps++;
    }
  }
}

for (let seed = 1; seed <= 5; seed++) {
  Deno.test(`pages that poll through a cache have all changes in order, over restarts and rollbacks (seed ${seed})`, async () => {
    const choices = new SeededChoices(seed);
    const clock = new FakeClock(1_700_000_000_000);
    const store = memoryStore();
    const cache = new SharedCache(clock);
    let value = 0;
    const start = (text: string) =>
      setUp({ REP_PUBLIC_A: text, REP_PUBLIC_KEPT: "1" }, { store, clock });
    let gates = [await start("0"), await start("0")];
    const pages = Array.from(
      { length: 30 },
      () => new PollingPage(0, clock.now() + choices.between(0, 10_000)),
    );
    const pass = async (seconds: number) => {
      for (let second = 0; second < seconds; second++) {
        await clock.tick(1_000);
        for (const page of pages) {
          if (page.nextAt > clock.now()) continue;
          await page.poll(cache, choices.pick(gates));
          page.nextAt = clock.now() + 7_500 + choices.between(0, 5_000);
        }
      }
    };
    for (let round = 0; round < 12; round++) {
      const what = choices.pick(["edit", "edit", "restart", "rollback"]);
      if (what === "edit") {
        value++;
        for (const gate of gates) {
          await gate.set({ REP_PUBLIC_A: `${value}`, REP_PUBLIC_KEPT: "1" });
        }
      } else {
        if (what === "rollback") value = Math.max(0, value - 1);
        for (const gate of gates) await gate.gateway.close();
        gates = [await start(`${value}`), await start(`${value}`)];
      }
      await pass(choices.between(1, 20));
    }
    await pass(18); // 1.75 intervals
    for (const page of pages) {
      assertEquals(
        Object.fromEntries(page.values),
        { A: `${value}`, KEPT: "1" },
      );
    }
    const polls = 30 * 12; // at the least, in two minutes
    assertLess(cache.misses, polls / 2);
    for (const gate of gates) await gate.gateway.close();
  });
}

Deno.test("after a restart with an empty store, pages with an old cursor get the whole state, once", async () => {
  const clock = new FakeClock(1_700_000_000_000);
  const cache = new SharedCache(clock);
  const before = await setUp({ REP_PUBLIC_A: "1" }, {
    clock,
    random: () => 0.1,
  });
  const page = new PollingPage(0, 0);
  await page.poll(cache, before);
  await before.gateway.close();
  await clock.tick(60_000);
  await using after = await setUp({ REP_PUBLIC_A: "2" }, {
    clock,
    random: () => 0.2,
  });
  await page.poll(cache, after);
  assertEquals([page.values.get("A"), page.steps], ["2", 2]);
  await clock.tick(10_000);
  await page.poll(cache, after);
  assertEquals(page.steps, 2);
});

Deno.test("a page says how often it polls beside the URL of its stream, which REP's SDK opens as it is", async () => {
  await using directory = await TempDirectory.make({ "index.html": "<head>" });
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
    staticDir: directory.path,
    pollMs: 30_000,
  });
  const { _meta } = await pageOf(gate);
  assertEquals(_meta.poll, 30);
  assertEquals(
    /^\/rep\/changes\?last_event_id=\d{16}&state=[\w-]+$/
      .test(_meta.hot_reload ?? ""),
    true,
  );
  const response = await gate.ask(_meta.hot_reload ?? "");
  assertEquals(
    response.headers.get("cache-control"),
    "no-cache, no-store, no-transform",
  );
  const stream = readSse(response);
  await stream.pull();
  const next = stream.takeValues(2);
  await gate.set({ REP_PUBLIC_A: "2" });
  await gate.set({ REP_PUBLIC_A: "3" });
  assertEquals(await next, ["2", "3"]); // it has stayed open
  await stream.close();
});

Deno.test("without an interval, and without hot reload, a page says nothing of polls", async () => {
  await using replicas = await shareStore();
  for (const options of [{}, { hotReload: false, pollMs: 30_000 }]) {
    await using gate = await replicas.start({ REP_PUBLIC_A: "1" }, options);
    assertEquals("poll" in (await pageOf(gate))._meta, false);
  }
});

Deno.test("a poll with a cursor that has yet to come is answered for its client alone: it would take the pages with that cursor back", async () => {
  const clock = new FakeClock(1_700_000_000_000);
  const cache = new SharedCache(clock);
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, { clock });
  const page = new PollingPage(0, 0);
  await page.poll(cache, gate);
  const guessed = page.cursor + 1_000; // the id of an event a millisecond later
  await cache.get(
    `/rep/changes?last_event_id=${guessed}&poll=${SECONDS}`,
    gate,
  );
  await gate.set({ REP_PUBLIC_A: "2" });
  for (let time = 0; time < 2; time++) {
    await clock.tick(1_000);
    await page.poll(cache, gate);
  }
  assertEquals([page.cursor, page.values.get("A")], [guessed, "2"]);
});
