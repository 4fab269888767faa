import { nothing, type Noticed } from "./users.ts";
import { sleep } from "./waiting.ts";

/** Between two visits. */
const VISIT_SECONDS = 0.05;
/** Nobody waits longer for a response. */
const REQUEST_MS = 10_000;
/** So many tabs stay open, of all builds that were visited. */
const OPEN_TABS = 40;

/** Options of {@linkcode Visitors}. */
export interface VisitorsOptions {
  /** Where they send requests. */
  readonly url: string;
  readonly client: Deno.HttpClient;
  readonly random: () => number;
}

/** Visitors of an app with hashed files: each loads the page and its entry, and an older tab loads a lazy chunk. */
export class Visitors implements AsyncDisposable {
  readonly #options: VisitorsOptions;
  readonly #closed = new AbortController();
  readonly #running: Promise<void>;
  readonly #visits = new Set<Promise<void>>();
  /** The chunks of each open tab. */
  readonly #tabs: string[][] = [];
  #noticed = nothing();

  constructor(options: VisitorsOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  /** Returns what was noticed since the last call, and begins anew. */
  take(): Noticed {
    const taken = this.#noticed;
    this.#noticed = nothing();
    return taken;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort();
    await this.#running;
    await Promise.all(this.#visits);
  }

  async #run(): Promise<void> {
    const { signal } = this.#closed;
    while (!signal.aborted) {
      const visit = this.#visit().finally(() => this.#visits.delete(visit));
      this.#visits.add(visit);
      await sleep(VISIT_SECONDS, signal).catch(() => {}); // closed
    }
  }

  async #visit(): Promise<void> {
    const older = this.#tabs[Math.floor(this.#random() * this.#tabs.length)];
    const page = await this.#load("build page", "/");
    const chunks = page?.match(/\/assets\/[\w.-]+/g) ?? [];
    if (chunks.length === 0) return;
    await this.#load("entry", chunks[0]!);
    if (older !== undefined) {
      const chunk = older[Math.floor(this.#random() * older.length)]!;
      await this.#load("lazy chunk", chunk);
    }
    this.#tabs[Math.floor(this.#random() * OPEN_TABS)] = chunks;
  }

  #random(): number {
    return this.#options.random();
  }

  /** Returns the text of a response. One that is not 200 counts as a failure. */
  async #load(what: string, path: string): Promise<string | undefined> {
    const { url, client } = this.#options;
    const noticed = this.#noticed;
    noticed.requests++;
    let failure = "no answer";
    try {
      const signal = AbortSignal.timeout(REQUEST_MS);
      const response = await fetch(`${url}${path}`, { client, signal });
      const text = await response.text();
      if (response.ok) return text;
      failure = `${response.status}`;
    } catch {
      // It is down, or silent.
    }
    const key = `${what} ${failure}`;
    noticed.failures.set(key, (noticed.failures.get(key) ?? 0) + 1);
    return undefined;
  }
}
