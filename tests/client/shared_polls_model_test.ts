/**
 * Pages that poll in an interval, through caches that do whatever RFC 9111 and RFC 5861 permit and some things that they do
 * not, in front of gateways that restart, lag behind, and are away. What a page is told never goes back.
 */
import { assertEquals, assertGreater } from "@std/assert";
import type { StreamMessage } from "../../src/client/page.ts";
import {
  sharedPollCacheControl,
  sharedPollSeconds,
} from "../../src/core/values/shared_polls.ts";
import { SeededChoices } from "../../tools/seeded_random.ts";
import { VirtualTime } from "../_virtual_time.ts";
import { openSimulatedPage } from "./_simulated_page.ts";

const SECONDS = 10;
const MINUTE = 60_000;
const NAMES = ["A", "B", "C"];
/** A time in milliseconds. */
const T = 1_700_000_000_000;

interface Event {
  readonly id: number;
  readonly name: string;
  readonly value: number;
}

/** A response, and what of its head a cache reads. */
interface Answer {
  /** The client's own cursor, if the log knows it. */
  readonly cursor: number | undefined;
  readonly events: readonly Event[];
  /** In milliseconds; 0 if it must not be stored. */
  readonly maxAge: number;
  readonly staleIfError: number;
  readonly age: number;
}

/** Something that is asked for a URL's query. It returns `undefined` if it fails. */
type Ask = (query: string) => Answer | undefined;

/** The gateways, on one store. */
class Gateways {
  readonly #time: VirtualTime;
  readonly #choices: SeededChoices;
  /** All events, as in a log that is never compacted. */
  log: Event[] = [];
  tag = 1;
  isAway = false;
  asked = 0;

  constructor(time: VirtualTime, choices: SeededChoices) {
    [this.#time, this.#choices] = [time, choices];
    for (const name of NAMES) this.publish(name, 0);
  }

  get head(): number {
    return this.log.at(-1)?.id ?? 0;
  }

  /** The id of an event that is published after so many milliseconds. */
  idAfter(ms: number): number {
    const time = T + Math.floor(this.#time.now + ms);
    return Math.max(Math.floor(this.head / 1_000) + 1, time) * 1_000 + this.tag;
  }

  publish(name: string, value: number) {
    this.log.push({ id: this.idAfter(0), name, value });
  }

  newestOf(name: string): number {
    return this.log.findLast((event) => event.name === name)?.value ?? 0;
  }

  /** A restart with an empty store: the log begins anew, with the current values. */
  forget() {
    const values = NAMES.map((name) => [name, this.newestOf(name)] as const);
    this.log = [];
    this.tag++;
    for (const [name, value] of values) this.publish(name, value);
  }

  /** As `/rep/changes` does, of which one process lags behind. */
  readonly ask: Ask = (query) => {
    this.asked++;
    if (this.isAway) return undefined;
    const seconds = sharedPollSeconds(query) ?? NaN;
    const control = sharedPollCacheControl(seconds);
    const [, maxAge, staleIfError] = /max-age=(\d+), stale-if-error=(\d+)/
      .exec(control) ?? [];
    const cursor = Number(new URLSearchParams(query).get("last_event_id"));
    const lag = this.#choices.pick([0, 0, 1, 2]);
    const known = this.log.slice(0, this.log.length - lag);
    const hasHead = cursor <= (known.at(-1)?.id ?? 0);
    const log = hasHead ? known : this.log; // a newer cursor makes it read the log
    const head = log.at(-1)?.id ?? 0;
    const isKnown = cursor <= head && cursor % 1_000 === this.tag;
    const newest = log.filter(({ id, name }) =>
      log.findLast((event) => event.name === name)?.id === id
    );
    return {
      cursor: isKnown ? cursor : undefined,
      events: newest.filter(({ id }) => !isKnown || id > cursor),
      maxAge: cursor > head ? 0 : Number(maxAge) * 1_000,
      staleIfError: Number(staleIfError) * 1_000,
      age: 0,
    };
  };
}

/** A cache in front of something. Each has other habits. */
function createCache(time: VirtualTime, choices: SeededChoices, ask: Ask): Ask {
  const stored = new Map<string, Answer & { at: number }>();
  const hasAge = choices.chance(0.5); // nginx sends none, so the next cache counts from zero
  const keeps = choices.pick([0, 0.5, 1]); // of what it may keep
  const isStaleOnError = choices.chance(0.7);
  const isStaleForEver = choices.chance(0.2); // as Apache is by default
  const updating = choices.pick([0, 0, 0.3]); // how often another request is just fetching it
  return (query) => {
    const entry = stored.get(query);
    const age = entry === undefined ? 0 : entry.age + time.now - entry.at;
    const old = entry && { ...entry, age: hasAge ? age : 0 };
    const isFresh = entry !== undefined && age < entry.maxAge;
    if (isFresh && !choices.chance(0.05)) return old;
    if (old !== undefined && choices.chance(updating)) return old;
    const answer = ask(query);
    if (answer === undefined) {
      const late = age - (entry?.maxAge ?? 0);
      const mayServe = isStaleForEver || late < (entry?.staleIfError ?? 0);
      return isStaleOnError && mayServe ? old : undefined;
    }
    if (answer.maxAge > 0 && choices.chance(keeps)) {
      stored.set(query, { ...answer, at: time.now });
    }
    return answer;
  };
}

/** An `EventSource` whose responses have come to their end. */
class FakeEventSource {
  readyState = 0;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  readonly #listeners = new Map<string, (event: StreamMessage) => void>();
  readonly #cancel: () => void;

  constructor(time: VirtualTime, ask: Ask, url: string, cutAfter: number) {
    const respond = () => this.#respond(ask(new URL(url).search), cutAfter);
    this.#cancel = time.after(50, respond);
  }

  addEventListener(type: string, listener: (event: StreamMessage) => void) {
    this.#listeners.set(type, listener);
  }

  close() {
    this.readyState = 2;
    this.#cancel();
  }

  #respond(answer: Answer | undefined, cutAfter: number) {
    if (answer === undefined) {
      this.readyState = 2;
      return this.onerror?.();
    }
    this.readyState = 1;
    this.onopen?.();
    const { cursor = "", events } = answer;
    this.#dispatch("rep:heartbeat", {}, `${cursor}`);
    for (const { id, name, value } of events.slice(0, cutAfter)) {
      const data = { key: name, value: `${value}` };
      this.#dispatch("rep:config:update", data, `${id}`);
    }
    this.readyState = 0;
    this.onerror?.();
    assertEquals(this.readyState, 2); // else the browser would reconnect with a header
  }

  #dispatch(type: string, data: object, lastEventId: string) {
    const message = { type, data: JSON.stringify(data), lastEventId };
    this.#listeners.get(type)?.(message);
  }
}

/** Opens a page with the current values. It returns what the page was told, by name. */
function openPage(
  time: VirtualTime,
  choices: SeededChoices,
  { gateways, ask }: { gateways: Gateways; ask: Ask },
) {
  const values = NAMES.map((name) => [name, `${gateways.newestOf(name)}`]);
  const payload = {
    public: Object.fromEntries(values),
    _meta: {
      hot_reload: `/rep/changes?last_event_id=${gateways.head}&state=abc`,
      poll: SECONDS,
    },
  };
  const client = openSimulatedPage({
    time,
    choices,
    payload,
    visibility: { hidden: false },
    EventSource: class extends FakeEventSource {
      constructor(url: string) {
        const cutAfter = choices.chance(0.05) ? 1 : Infinity;
        super(time, ask, url, cutAfter);
      }
    },
    addEventListener: () => {},
  });
  const told = new Map(NAMES.map((name) => [name, [] as number[]]));
  client.onAnyChange((key, value) => told.get(key)?.push(Number(value)));
  return { client, told };
}

/** Half an hour in which everything happens, and then ten minutes in which nothing does. */
async function play(seed: number) {
  const choices = new SeededChoices(seed);
  const time = new VirtualTime(() => Promise.resolve());
  const gateways = new Gateways(time, choices);
  const inner = [0, 1].map(() => createCache(time, choices, gateways.ask));
  const outer = [0, 1, 2].map(() =>
    createCache(time, choices, (query) => choices.pick(inner)(query))
  );
  const all = [...inner, ...outer];
  let cached = 0;
  const ask: Ask = (query) => {
    const { asked } = gateways;
    const answer = choices.pick(all)(query);
    cached += Number(gateways.asked === asked);
    return answer;
  };
  const pages: ReturnType<typeof openPage>[] = [];
  while (time.now < 30 * MINUTE) {
    if (pages.length < 20) {
      pages.push(openPage(time, choices, { gateways, ask }));
    }
    const what = choices.between(0, 20);
    if (what === 0) gateways.forget();
    gateways.isAway = what === 1 || what === 2;
    const pauseMs = choices.between(1, choices.pick([100, 30_000]));
    // Somebody guesses when the next change comes, and has caches store what there is at its cursor until then.
    const guessed = gateways.idAfter(pauseMs);
    for (const cache of all) {
      cache(`?last_event_id=${guessed}&poll=${SECONDS}`);
    }
    await time.advance(pauseMs);
    const name = choices.pick(NAMES);
    if (what > 2) gateways.publish(name, gateways.newestOf(name) + 1);
  }
  gateways.isAway = false;
  await time.advance(10 * MINUTE);
  return { pages, gateways, cached };
}

Deno.test("behind any caches, pages that poll in an interval never go back, and have the newest values in the end", async () => {
  for (let seed = 1; seed <= 15; seed++) {
    const { pages, gateways, cached } = await play(seed);
    assertGreater(cached, 100);
    for (const { client, told } of pages) {
      for (const name of NAMES) {
        const values = told.get(name) ?? [];
        const message = `seed ${seed}, ${name}`;
        assertEquals(values, values.toSorted((a, b) => a - b), message);
        assertEquals(client.get(name), `${gateways.newestOf(name)}`, message);
      }
    }
  }
});
