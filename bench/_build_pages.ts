import { delay } from "@std/async/delay";
import { TextLineStream } from "../tools/text_lines.ts";

/** How many lazy chunks a page loads. */
const LAZY = 4;
/** How long the last pages may take until they are told: a process that was killed counts for 30 s. */
const SETTLED_MS = 35_000;

/** What pages have noticed. */
interface Noticed {
  /** How often a page was loaded or reloaded, how often without its HTML, and how often without its entry. */
  loads: number;
  failed: number;
  white: number;
  /** The lazy chunks, and those that were missing. */
  lazy: number;
  missing: number;
}

/** A page, as its HTML says it. */
interface Page {
  /** The number of its build, and the ID that the gateway has given to it. */
  readonly number: number;
  readonly id: string | undefined;
  readonly chunks: readonly string[];
  /** Where its stream is; `undefined` if there is none. */
  readonly stream: string | undefined;
}

/** Where a visitor has a page open. */
interface Tab {
  page: Page;
  readonly closing: AbortController;
}

/** A reload because of a notice. */
interface Reload {
  readonly tab: Tab;
  /** The ID of the build that it was told of, and the number of the one that it got; `undefined` if it got none. */
  readonly told: string;
  readonly got: number | undefined;
  /** How many rollouts had begun when it was told, and when it had reloaded. */
  readonly toldAt: number;
  readonly gotAt: number;
}

/**
 * The pages of visitors: each loads its HTML and its entry at once, and some lazy chunks later, as a tab does that
 * nobody reloads. Beside that, it keeps the stream of `onNewBuild()`, and reloads as soon as it is told of another build.
 */
export class BuildPages {
  readonly noticed: Noticed = {
    loads: 0,
    failed: 0,
    white: 0,
    lazy: 0,
    missing: 0,
  };
  readonly #url: string;
  readonly #random: () => number;
  /** The numbers of the builds in the order in which they were rolled out, also again. */
  readonly #rollouts: number[] = [];
  /** The number of each build by its ID. */
  readonly #numbers = new Map<string, number>();
  readonly #reloads: Reload[] = [];
  readonly #tabs = new Set<Tab>();
  /** Of how many tabs at the end, so many had an older build. */
  #left = { all: 0, older: 0 };
  #isClosed = false;

  constructor(url: string, random: () => number) {
    this.#url = url;
    this.#random = random;
  }

  /** Notes that the rollout of a build begins. */
  beginRollout(number: number): void {
    this.#rollouts.push(number);
  }

  /** Figures about notices: how many there were, and how often one was wrong. */
  get notices(): readonly [what: string, count: number, all: number][] {
    const all = this.#reloads.length;
    const older = this.#reloads.filter((reload) => this.#isOlder(reload));
    const again = [...Map.groupBy(this.#reloads, ({ tab }) => tab).values()]
      .flatMap((reloads) => {
        const rollouts = reloads.map((reload) => this.#rolloutOf(reload));
        return rollouts.filter((it, index) => rollouts.indexOf(it) < index);
      });
    return [
      ["notices", all, this.noticed.loads],
      ["reloads that brought an older build than told", older.length, all],
      ["reloads for the same build again", again.length, all],
      ["pages left with an older build", this.#left.older, this.#left.all],
    ];
  }

  /** Opens a page for some time. */
  async visit(forMs: number): Promise<void> {
    if (this.#isClosed) return;
    const page = await this.#load();
    if (page === undefined) return;
    const tab = { page, closing: new AbortController() };
    const { signal } = tab.closing;
    this.#tabs.add(tab);
    const timer = setTimeout(
      () => tab.closing.abort(),
      this.#isClosed ? 0 : forMs,
    );
    const following = this.#follow(tab);
    for (const ms of this.#lazyPauses(forMs)) {
      const isOpen = await delay(ms, { signal }).then(() => true, () => false);
      if (isOpen) await this.#loadLazily(page);
    }
    await following;
    clearTimeout(timer);
    this.#tabs.delete(tab);
  }

  /** Waits until all open pages have the newest build, as long as that may take, and closes them. */
  async close(): Promise<void> {
    const newest = this.#rollouts.at(-1);
    const older = () =>
      [...this.#tabs].filter(({ page: { number, stream } }) =>
        stream !== undefined && number !== newest
      );
    const endsAt = performance.now() + SETTLED_MS;
    while (older().length > 0 && performance.now() < endsAt) await delay(100);
    this.#isClosed = true;
    this.#left = { all: this.#tabs.size, older: older().length };
    for (const { closing } of this.#tabs) closing.abort();
  }

  /** Returns the pauses before each lazy chunk: most are loaded early, some long after. */
  #lazyPauses(forMs: number): number[] {
    const times = Array.from(
      { length: LAZY },
      () => forMs * this.#random() ** 2,
    ).sort((a, b) => a - b);
    return times.map((at, index) => at - (times[index - 1] ?? 0));
  }

  /** Loads the HTML and its entry. */
  async #load(): Promise<Page | undefined> {
    this.noticed.loads++;
    const html = await load(`${this.#url}/`);
    if (html === undefined) return void this.noticed.failed++;
    const page = parsePage(html);
    if (page.id !== undefined) this.#numbers.set(page.id, page.number);
    const isThere = await this.#hasChunk(page.chunks.at(-1)!);
    if (!isThere) return void this.noticed.white++;
    return page;
  }

  async #loadLazily({ chunks }: Page): Promise<void> {
    this.noticed.lazy++;
    const name = chunks[Math.floor(this.#random() * chunks.length)]!;
    if (!await this.#hasChunk(name)) this.noticed.missing++;
  }

  async #hasChunk(name: string): Promise<boolean> {
    return await load(`${this.#url}/assets/${name}`) === chunkText(name);
  }

  /** Reloads a page each time that it is told of another build, until it is closed. */
  async #follow(tab: Tab): Promise<void> {
    for (;;) {
      const told = await this.#told(tab.page, tab.closing.signal);
      if (told === undefined) return;
      const toldAt = this.#rollouts.length;
      const page = await this.#load();
      const gotAt = this.#rollouts.length;
      this.#reloads.push({ tab, told, got: page?.number, toldAt, gotAt });
      if (page === undefined) return tab.closing.abort(); // the browser's error page
      tab.page = page;
    }
  }

  /** Waits until a page is told of another build, as an `EventSource` does; returns `undefined` once the page is closed. */
  async #told(
    { stream, id = "" }: Page,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    if (stream === undefined) return await aborted(signal);
    const url = new URL(stream, this.#url);
    url.searchParams.set("build", id);
    url.searchParams.set("heartbeat", "event");
    let lastId = "";
    let retryMs = 3_000;
    while (!signal.aborted) {
      try {
        const headers = lastId === "" ? {} : { "last-event-id": lastId };
        const { body } = await fetch(url, { headers, signal });
        const lines = body!.pipeThrough(new TextDecoderStream(), { signal })
          .pipeThrough(new TextLineStream());
        for await (const line of lines) {
          const [, name, value = ""] = /^(\w+): (.*)$/.exec(line) ?? [];
          if (name === "retry") retryMs = Number(value);
          if (name === "id") lastId = value;
          if (name === "data" && "build" in JSON.parse(value)) {
            return JSON.parse(value).build; // which ends the request
          }
        }
      } catch {
        // The connection broke, or the page is closed.
      }
      await delay(retryMs, { signal }).catch(() => {});
    }
    return undefined;
  }

  /** Returns which rollout a page was told of: the last one of that build that had begun. */
  #rolloutOf({ told, toldAt }: Reload): number {
    const number = this.#numbers.get(told);
    if (number === undefined) return Infinity; // no page has ever got it
    return this.#rollouts.lastIndexOf(number, toldAt - 1);
  }

  /** Returns whether a page got an older build than it was told of. */
  #isOlder(reload: Reload): boolean {
    const { got, gotAt } = reload;
    if (got === undefined) return false; // it counts as failed, or white
    const gotRollout = this.#rollouts.lastIndexOf(got, gotAt - 1);
    return gotRollout < this.#rolloutOf(reload);
  }
}

/** Returns the page of a build. The entry is the last chunk. */
export function pageText(number: number, chunks: readonly string[]): string {
  const links = chunks.map((name) => `<link href="/assets/${name}">`);
  return `<!doctype html><head><meta name="build" content="${number}">${
    links.join("\n")
  }</head>`;
}

/** Returns the text of a chunk. */
export function chunkText(name: string): string {
  return `// ${name}\n`.repeat(40);
}

function parsePage(html: string): Page {
  const chunks = html.matchAll(/"\/assets\/([^"]+)"/g);
  return {
    number: Number(/ content="(\d+)"/.exec(html)?.[1]),
    id: / data-rep-build="([^"]*)"/.exec(html)?.[1],
    chunks: Array.from(chunks, ([, name = ""]) => name),
    stream: /"hot_reload":"([^"]*)"/.exec(html)?.[1],
  };
}

/** Returns the text of a response; `undefined` if it is not 200. */
async function load(url: string): Promise<string | undefined> {
  try {
    const response = await fetch(url);
    const text = await response.text();
    return response.ok ? text : undefined;
  } catch {
    return undefined; // the connection broke: for a visitor, it is the same
  }
}

async function aborted(signal: AbortSignal): Promise<undefined> {
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
}
