/**
 * A page behind a network that fails at random: what it is told never goes back, in the end it has the newest value, and
 * it asks at most once in 5 s, but for the first requests; with an interval, too.
 */
import { assertEquals, assertGreater, assertLessOrEqual } from "@std/assert";
import type { PageEvent, StreamMessage } from "../../src/client/page.ts";
import { SeededChoices } from "../../tools/seeded_random.ts";
import { VirtualTime } from "../_virtual_time.ts";
import { openSimulatedPage } from "./_simulated_page.ts";

const MINUTE = 60_000;

/** What the network does with the responses of the gateway. */
const NETWORKS = [
  "passes",
  "holds bodies",
  "holds responses",
  "forgets after 30 s",
  "cuts after 5 s",
  "holds bodies, and cuts after 15 s",
  "holds responses, and answers 504 after 10 s",
  "removes Last-Event-ID",
  "cuts at once",
  "leads to a gateway that rejects streams",
  "never answers",
  "answers 502 now and then",
  "answers 502",
  "is down",
] as const;

type Network = typeof NETWORKS[number];

/** Behind these a page can have everything, */
const PASSABLE = NETWORKS.slice(0, 8);
/** in this time. */
const LONGEST_MS = 150_000;

class World {
  readonly choices: SeededChoices;
  readonly time = new VirtualTime(() => Promise.resolve());
  readonly streams = new Set<FakeEventSource>();
  network: Network = "passes";
  /** The id of the newest event, which is its value as well. */
  newest = 100;
  /** How many requests were sent beyond one in 5 s, at the last request and at most. */
  excess = 0;
  mostExcess = 0;
  #lastRequestAt = 0;
  /** How many streams were opened that are no polls. */
  opened = 0;

  constructor(seed: number) {
    this.choices = new SeededChoices(seed);
  }

  countRequest() {
    const allowed = (this.time.now - this.#lastRequestAt) / 5_000;
    this.excess = Math.max(0, this.excess - allowed) + 1;
    this.mostExcess = Math.max(this.mostExcess, this.excess);
    this.#lastRequestAt = this.time.now;
  }

  publish() {
    this.newest++;
    for (const stream of this.streams) stream.update();
  }
}

/** An `EventSource`, with the gateway and the network behind it. */
class FakeEventSource {
  readyState = 0;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  readonly #world: World;
  readonly #listeners = new Map<string, (event: StreamMessage) => void>();
  readonly #query: URLSearchParams;
  #lastEventId = "";
  #retryMs = 3_000;
  /** The response: what of it is held back, and whether it is forgotten. */
  #held: (() => void)[] | undefined;
  #isForgotten = false;
  #cancels: (() => void)[] = [];

  constructor(world: World, url: string) {
    this.#world = world;
    this.#query = new URL(url).searchParams;
    this.#request();
  }

  addEventListener(type: string, listener: (event: StreamMessage) => void) {
    this.#listeners.set(type, listener);
  }

  close() {
    this.readyState = 2;
    this.#leave();
  }

  #leave() {
    this.#world.streams.delete(this);
    for (const cancel of this.#cancels) cancel();
    this.#cancels = [];
  }

  #after(ms: number, callback: () => void) {
    this.#cancels.push(this.#world.time.after(ms, callback));
  }

  #request() {
    this.#world.countRequest();
    this.#after(50, () => this.#respond());
  }

  #respond() {
    const { network, choices } = this.#world;
    if (network === "is down") return this.#end();
    if (network === "never answers") return;
    const fails = network === "answers 502" ||
      network === "answers 502 now and then" && choices.chance(0.5);
    if (fails) return this.#fail();
    const isHeld = network.startsWith("holds");
    this.#held = isHeld ? [] : undefined;
    this.#isForgotten = false;
    if (!network.startsWith("holds responses")) this.#open();
    else this.#held?.push(() => this.#open());
    if (network === "forgets after 30 s") {
      this.#after(30_000, () => this.#isForgotten = true);
    }
    if (network === "cuts after 5 s") this.#after(5_000, () => this.#end());
    if (network === "holds bodies, and cuts after 15 s") {
      this.#after(15_000, () => this.#end());
    }
    if (network === "holds responses, and answers 504 after 10 s") {
      this.#after(10_000, () => this.#fail());
    }
    if (network === "cuts at once") return this.#end();
    if (network === "leads to a gateway that rejects streams") {
      return this.#reject();
    }
    this.#serve();
  }

  /** The gateway sends the opening and the catch-up; a poll then ends. */
  #serve() {
    const { choices, streams, newest, network } = this.#world;
    const header = network === "removes Last-Event-ID" ? "" : this.#lastEventId;
    const cursor = header || this.#query.get("last_event_id") || "";
    const isPoll = this.#query.has("poll");
    const retryMs = isPoll
      ? choices.between(5_000, 10_000)
      : choices.between(2_000, 8_000);
    this.#pass(() => {
      this.#retryMs = retryMs;
      this.#lastEventId = cursor;
    });
    this.#dispatch("rep:heartbeat", {});
    if (Number(cursor) < newest) this.update();
    if (isPoll) return this.#complete();
    this.#world.opened++;
    streams.add(this);
    this.#beat();
  }

  /** The gateway stops, or cannot read its store: it sends no catch-up. */
  #reject() {
    this.#retryMs = this.#world.choices.between(5_000, 30_000);
    this.#dispatch("rep:heartbeat", {});
    this.#complete();
  }

  /** Sends the newest value: of each variable, a stream may skip what is outdated. */
  update() {
    const { newest } = this.#world;
    const data = { key: "A", value: `${newest}` };
    this.#dispatch("rep:config:update", data, `${newest}`);
  }

  #beat() {
    this.#after(this.#world.choices.between(12_000, 15_000), () => {
      this.#dispatch("rep:heartbeat", {});
      this.#beat();
    });
  }

  #dispatch(type: string, data: object, id?: string) {
    this.#pass(() => {
      if (id !== undefined) this.#lastEventId = id;
      this.#listeners.get(type)?.({
        type,
        data: JSON.stringify(data),
        lastEventId: this.#lastEventId,
      });
    });
  }

  /** Passes a part of the response, unless the network keeps it. */
  #pass(part: () => void) {
    if (this.#isForgotten) return;
    if (this.#held) this.#held.push(part);
    else if (this.readyState !== 2) part();
  }

  #complete() {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const part of held) this.#pass(part);
    if (this.readyState !== 2) this.#end();
  }

  #open() {
    this.readyState = 1;
    this.onopen?.();
  }

  /** The browser gives up, as after a status other than 200. */
  #fail() {
    this.close();
    this.onerror?.();
  }

  /** The connection ends, and the browser reconnects later. */
  #end() {
    this.#leave();
    this.readyState = 0;
    this.#after(this.#retryMs, () => this.#request());
    this.onerror?.();
  }
}

/** Opens a page that listens to changes. */
function openPage(world: World, poll: number | undefined) {
  const { time, choices } = world;
  const listeners = new Map<PageEvent, () => void>();
  const visibility = { hidden: false };
  const payload = {
    public: { A: "100" },
    _meta: { hot_reload: "/rep/changes?last_event_id=100", poll },
  };
  const client = openSimulatedPage({
    time,
    choices,
    payload,
    visibility,
    EventSource: class extends FakeEventSource {
      constructor(url: string) {
        super(world, url);
      }
    },
    addEventListener: (type, listener) => listeners.set(type, listener),
  });
  const values: number[] = [];
  client.onChange("A", (value) => values.push(Number(value)));
  return {
    client,
    values,
    /** The user goes to another tab, or comes back. */
    setHidden(hidden: boolean) {
      visibility.hidden = hidden;
      listeners.get("visibilitychange")?.();
    },
    goOnline: () => listeners.get("online")?.(),
  };
}

/** Half an hour in which everything happens, and then one network that lets values through. */
async function play(seed: number, poll?: number) {
  const world = new World(seed);
  const { choices, time } = world;
  const page = openPage(world, poll);
  while (time.now < 30 * MINUTE) {
    world.network = choices.pick(NETWORKS);
    if (choices.chance(0.5)) page.goOnline();
    const end = time.now + choices.between(1, 10) * MINUTE;
    while (time.now < end) {
      if (choices.chance(0.3)) world.publish();
      if (choices.chance(0.2)) page.setHidden(choices.chance(0.4));
      const longest = choices.pick([2_000, 60_000]);
      await time.advance(choices.between(100, longest));
    }
  }
  page.setHidden(false);
  world.network = choices.pick(PASSABLE);
  world.publish();
  await time.advance(LONGEST_MS);
  return { ...page, world };
}

Deno.test("behind a network that fails at random, a page never goes back, has the newest value, and is no storm", async () => {
  const met = { poll: 0, stream: 0 };
  for (let seed = 1; seed <= 300; seed++) {
    const { client, values, world } = await play(seed);
    const message = `seed ${seed}, behind a network that ${world.network}`;
    assertEquals(values, values.toSorted((a, b) => a - b), message);
    assertEquals(client.get("A"), `${world.newest}`, message);
    assertLessOrEqual(world.mostExcess, 14, message);
    met[client.status().transport]++;
  }
  assertGreater(met.poll, 50);
  assertGreater(met.stream, 50);
});

Deno.test("with an interval, such a page only polls", async () => {
  for (let seed = 1; seed <= 100; seed++) {
    const { client, values, world } = await play(seed, 10);
    const message = `seed ${seed}, behind a network that ${world.network}`;
    assertEquals(values, values.toSorted((a, b) => a - b), message);
    assertEquals(client.get("A"), `${world.newest}`, message);
    assertLessOrEqual(world.mostExcess, 14, message);
    assertEquals([client.status().transport, world.opened], ["poll", 0]);
  }
});
