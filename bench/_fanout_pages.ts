import { delay } from "@std/async/delay";
import { deadline } from "@std/async/deadline";
import { EventQueue } from "./_event_queue.ts";
import { readResponse } from "./_poll_clients.ts";

/** Options of {@linkcode FanoutPages.open}. */
export interface FanoutPagesOptions {
  readonly pages: number;
  /** The hosts of the sites, of which each page has one. */
  readonly hosts: readonly string[];
  /** The ports of the caches, of which each page has one. */
  readonly ports: readonly number[];
  /** The seconds between two polls of a page: between 0.75 and 1.25 of them. */
  readonly interval: number;
  /** How many times faster the pages poll. */
  readonly speed: number;
  /** What follows the cursor in the URL. */
  readonly query: string;
}

/** A simulated page. */
interface Page {
  readonly host: string;
  cursor: number;
  /** The number of the change that it has; -1 for none. */
  change: number;
  /** When it polls next, in milliseconds after the start. */
  pollsAt: number;
}

/** A change of the variable: the value, and when it was published. */
interface Change {
  readonly value: number;
  readonly at: number;
}

/** How many connections the pages share, to each cache. */
const CONNECTIONS = 64;
const TICK_MS = 5;
/** How much longer than it should anything may take. */
const MAX_DELAY_MS = 60_000;

/** Pages that poll through caches, as cheap as Deno allows: bare connections, without an `EventSource`. */
export class FanoutPages implements AsyncDisposable {
  /** How many responses they have received, and how many of these or of their connections have failed. */
  responses = 0;
  failures = 0;
  /** How often a page has received an event or a value that is older than its own, or a value of another site. */
  backwards = 0;
  foreign = 0;
  /** The milliseconds from each change to each page. */
  delays: number[] = [];
  /** By how many milliseconds a poll was sent late, at most: because this process, or the caches, cannot keep up. */
  latestMs = 0;
  readonly #options: FanoutPagesOptions;
  readonly #startedAt = performance.now();
  readonly #waiting = new EventQueue();
  readonly #pages: readonly Page[];
  /** By cache: the pages whose time has come, and the connections that wait for one. */
  readonly #due: Queue<Page>[];
  readonly #idle: ((page: Page | undefined) => void)[][];
  readonly #changes: Change[] = [];
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #loops: Promise<void>[];
  #isClosed = false;

  constructor(options: FanoutPagesOptions) {
    this.#options = options;
    const { hosts, ports, pages } = options;
    this.#due = ports.map(() => new Queue());
    this.#idle = ports.map(() => []);
    this.#pages = Array.from({ length: pages }, (_, index): Page => {
      const host = hosts[index % hosts.length] ?? "";
      return { host, cursor: 0, change: -1, pollsAt: 0 };
    });
    for (const [index, page] of this.#pages.entries()) {
      this.#poll(page, index, this.#intervalMs * index / pages);
    }
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
    this.#loops = ports.flatMap((port, cache) =>
      Array.from({ length: CONNECTIONS }, () => this.#serve(port, cache))
    );
  }

  get #intervalMs(): number {
    return this.#options.interval * 1_000 / this.#options.speed;
  }

  /** Notes that a value is published now, and returns the number of this change. */
  change(value: number): number {
    return this.#changes.push({ value, at: performance.now() }) - 1;
  }

  /** Waits until every page has a change. @throws {DOMException} If that takes much longer than it should. */
  async haveAll(change: number): Promise<void> {
    const wait = async () => {
      while (this.#pages.some((page) => page.change < change)) await delay(20);
    };
    await deadline(wait(), 2 * this.#intervalMs + MAX_DELAY_MS);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    for (const take of this.#idle.flat()) take(undefined);
    await Promise.all(this.#loops);
  }

  #poll(page: Page, index: number, afterMs: number): void {
    page.pollsAt = performance.now() - this.#startedAt + afterMs;
    const due = this.#due[index % this.#due.length];
    this.#waiting.add(page.pollsAt, () => due?.push(page));
  }

  #tick(): void {
    this.#waiting.runUntil(performance.now() - this.#startedAt);
    for (const [cache, idle] of this.#idle.entries()) {
      const due = this.#due[cache]!;
      while (idle.length > 0 && due.length > 0) idle.pop()?.(due.take());
    }
  }

  async #nextDue(cache: number): Promise<Page | undefined> {
    const due = this.#due[cache]!;
    if (this.#isClosed || due.length > 0) return due.take();
    const { promise, resolve } = Promise.withResolvers<Page | undefined>();
    this.#idle[cache]?.push(resolve);
    return await promise;
  }

  /** Sends the polls of a cache's pages over one connection, one after the other. */
  async #serve(port: number, cache: number): Promise<void> {
    let connection: Deno.TcpConn | undefined;
    while (!this.#isClosed) {
      const page = await this.#nextDue(cache);
      if (page === undefined) continue;
      const lateMs = performance.now() - this.#startedAt - page.pollsAt;
      this.latestMs = Math.max(this.latestMs, lateMs);
      try {
        connection ??= await Deno.connect({ hostname: "127.0.0.1", port });
        await connection.write(this.#request(page));
        this.#receive(page, await readResponse(connection));
      } catch {
        this.failures++;
        connection?.close();
        connection = undefined;
      }
      const share = 0.75 + Math.random() / 2;
      this.#poll(page, cache, this.#intervalMs * share);
    }
    connection?.close();
  }

  #request({ host, cursor }: Page): Uint8Array<ArrayBuffer> {
    const { query } = this.#options;
    return encoder.encode(
      `GET /rep/changes?last_event_id=${cursor}${query} HTTP/1.1\r\n` +
        `Host: ${host}\r\nCache-Control: no-cache\r\nPragma: no-cache\r\n\r\n`,
    );
  }

  #receive(page: Page, text: string): void {
    this.responses++;
    if (!text.startsWith("HTTP/1.1 200 ")) {
      this.failures++;
      return;
    }
    const cursor = [...text.matchAll(/^id: (\d+)$/gm)].at(-1)?.[1];
    if (Number(cursor) < page.cursor) this.backwards++;
    if (cursor !== undefined) page.cursor = Number(cursor);
    const changes = text.matchAll(/"key":"SITE",.*"value":"(.+) (\d+)"/g);
    for (const [, host, value] of changes) {
      if (host !== page.host) this.foreign++;
      this.#note(page, Number(value));
    }
  }

  #note(page: Page, value: number): void {
    const change = this.#changes.findIndex((change, index) =>
      index >= page.change && change.value === value
    );
    if (change === -1) this.backwards++;
    const now = performance.now();
    while (page.change < change) {
      const { at } = this.#changes[++page.change]!;
      this.delays.push(now - at);
    }
  }
}

/** Items in the order in which they were added. `Array.shift()` would move all the others, once there are many. */
class Queue<T> {
  #items: T[] = [];
  #taken = 0;

  get length(): number {
    return this.#items.length - this.#taken;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  take(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.#items[this.#taken++];
    if (this.#taken > this.#items.length / 2) {
      this.#items = this.#items.slice(this.#taken);
      this.#taken = 0;
    }
    return item;
  }
}

const encoder = new TextEncoder();
