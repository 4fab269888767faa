import { type Event, EventStream } from "./event_stream.ts";
import { OlderPages } from "./older_pages.ts";
import { sleep } from "./waiting.ts";

/** Nobody waits longer for a page. */
const REQUEST_MS = 10_000;
/** The part of the requests that ask for a session key. */
const KEYS = 0.3;
/**
 * A replica has what another one has published, or what was `set`, within 1.5 s (docs/rollouts.md). Other work on the
 * machine may delay it.
 */
const OLDER_MS = 15_000;

/** What users noticed during a fault. */
export interface Noticed {
  requests: number;
  /** Failed requests by what was requested and the status: "page 503". */
  readonly failures: Map<string, number>;
  /** Events that a stream has not received, or received twice or out of order. */
  lost: number;
  /** The longest time from a `set` until the last stream had its event. */
  delayMs: number;
  /** The longest time without a stream. */
  gapMs: number;
  /** For how long pages at most still had an older value of PULSE than earlier pages. */
  olderMs: number;
}

/** Nothing was noticed yet. */
export function nothing(): Noticed {
  const longest = { delayMs: 0, gapMs: 0, olderMs: 0 };
  return { requests: 0, failures: new Map(), lost: 0, ...longest };
}

/** What several groups of users noticed. */
export function together(all: readonly Noticed[]): Noticed {
  const sum = nothing();
  for (const { requests, failures, lost, delayMs, gapMs, olderMs } of all) {
    sum.requests += requests;
    sum.lost += lost;
    sum.delayMs = Math.max(sum.delayMs, delayMs);
    sum.gapMs = Math.max(sum.gapMs, gapMs);
    sum.olderMs = Math.max(sum.olderMs, olderMs);
    for (const [what, count] of failures) {
      sum.failures.set(what, (sum.failures.get(what) ?? 0) + count);
    }
  }
  return sum;
}

/** Options of {@linkcode Users}. */
export interface UsersOptions {
  /** Where they send requests, such as `https://127.0.0.1`. */
  readonly url: string;
  /** Returns the client for a request. @default {Deno's own} */
  readonly client?: () => Deno.HttpClient;
  readonly streams: number;
  /** The ids of the events that gateways say they have published. Ids of events that arrive are added. */
  readonly published?: Set<number>;
  readonly requestsPerSecond: number;
  /** Changes the variable PULSE, and returns whether that was accepted. */
  readonly pulse: (value: number) => Promise<boolean>;
  readonly secondsBetweenPulses: number;
  readonly random: () => number;
}

/** The users of an app: they request pages and keys at a rate, and keep streams open on which a variable changes. */
export class Users implements AsyncDisposable {
  /** The values of THEME that pages may have; others are noticed. */
  themes: readonly string[] = ["dark"];
  readonly #options: UsersOptions;
  readonly #closed = new AbortController();
  readonly #streams: EventStream[];
  readonly #tasks: Promise<void>[];
  readonly #pending = new Set<Promise<void>>();
  readonly #published: Set<number>;
  /** When each value of PULSE was set, the last one that was accepted, and the one that each stream has received. */
  readonly #pulsedAt = new Map<number, number>();
  readonly #pulseOf = new Map<EventStream, number>();
  #lastPulse = 0;
  readonly #values = new Map<EventStream, Map<string, string | null>>();
  /** When a page last had each value of THEME. */
  readonly #seenAt = new Map<string, number>();
  readonly #olderPages = new OlderPages();
  /** The key that was issued for each kind of page. */
  readonly #keys = new Map<string, string>();
  #keyPath = "";
  #noticed = nothing();

  constructor(options: UsersOptions) {
    this.#options = options;
    this.#published = options.published ?? new Set();
    this.#streams = Array.from(
      { length: options.streams },
      () => this.#openStream(),
    );
    this.#tasks = [this.#request(), this.#pulse()];
  }

  /** Whether all streams are open and have the last value of PULSE. */
  get isUpToDate(): boolean {
    return this.#streams.every((stream) =>
      stream.closedSince === undefined &&
      (this.#pulseOf.get(stream) ?? 0) >= this.#lastPulse
    );
  }

  /** Whether all streams have received a value of a variable, or `null`, that it was removed. */
  allHave(name: string, value: string | null): boolean {
    return this.#streams.every((stream) =>
      this.#values.get(stream)?.get(name) === value
    );
  }

  /** Where the newest page gets its key. */
  get keyPath(): string {
    return this.#keyPath;
  }

  /** Returns for how many seconds no page has had a value of THEME. */
  secondsSince(theme: string): number {
    const seenAt = this.#seenAt.get(theme) ?? -Infinity;
    return (performance.now() - seenAt) / 1_000;
  }

  /** Counts something that users noticed. */
  failed(what: string): void {
    const { failures } = this.#noticed;
    failures.set(what, (failures.get(what) ?? 0) + 1);
  }

  /** Uploads some bytes, one a second, and counts it if that fails. */
  async upload(seconds: number): Promise<void> {
    const bytes = new Uint8Array(1_000);
    async function* body() {
      for (let sent = 0; sent < seconds; sent++) {
        yield bytes;
        await sleep(1);
      }
    }
    const response = this.#fetch("/upload", {
      method: "POST",
      body: ReadableStream.from(body()),
      signal: this.#closed.signal,
    });
    const size = seconds * bytes.length;
    await this.#expect(
      "upload",
      response,
      (text) => text === `${size}` ? undefined : "cut off",
    );
  }

  /** Returns what was noticed since the last call, and begins anew. */
  take(): Noticed {
    const taken = this.#noticed;
    this.#noticed = nothing();
    const now = performance.now();
    for (const stream of this.#streams) {
      const { closedSince = now } = stream;
      const gap = Math.max(stream.longestGapMs, now - closedSince);
      taken.gapMs = Math.max(taken.gapMs, gap);
      taken.lost += this.#lostBy(stream);
      stream.longestGapMs = 0;
    }
    return taken;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort();
    const streams = this.#streams.map((it) => it[Symbol.asyncDispose]());
    await Promise.all([...streams, ...this.#tasks, ...this.#pending]);
  }

  #openStream(): EventStream {
    return new EventStream({
      open: (headers, signal) =>
        this.#fetch("/rep/changes", { headers, signal }),
      onEvent: (event, stream) => this.#receive(event, stream),
      onFailure: (status) => this.failed(`stream ${status}`),
    });
  }

  #receive({ id, name, value }: Event, stream: EventStream): void {
    this.#published.add(id);
    const values = this.#values.get(stream) ?? new Map();
    this.#values.set(stream, values.set(name, value ?? null));
    if (name === "PULSE") this.#receivePulse(Number(value), stream);
  }

  /** A stream skips values that were replaced before they were published. */
  #receivePulse(value: number, stream: EventStream): void {
    const now = performance.now();
    const before = this.#pulseOf.get(stream) ?? 0;
    this.#pulseOf.set(stream, Math.max(before, value));
    for (let pulse = before + 1; pulse <= value; pulse++) {
      const delay = now - (this.#pulsedAt.get(pulse) ?? now);
      this.#noticed.delayMs = Math.max(this.#noticed.delayMs, delay);
    }
  }

  /**
   * Returns how many events a stream has skipped, or received twice or too late, since the last call. An event that is
   * newer than all received ones may still be on its way.
   */
  #lostBy(stream: EventStream): number {
    const { firstId = Infinity, ids } = stream;
    const disordered = ids.filter((id, at) => id <= (ids[at - 1] ?? firstId));
    const received = new Set(ids.splice(0));
    const last = Math.max(firstId, ...received);
    const missing = this.#published.values()
      .filter((id) => firstId < id && id < last && !received.has(id));
    const lost = disordered.length + missing.toArray().length;
    if (stream.firstId !== undefined) stream.firstId = last;
    return lost;
  }

  #fetch(path: string, init: RequestInit): Promise<Response> {
    const { url, client } = this.#options;
    const headers = new Headers(init.headers);
    headers.set("x-forwarded-for", this.#address()); // HAProxy replaces it
    const options = client === undefined ? {} : { client: client() };
    return fetch(`${url}${path}`, { ...init, headers, ...options });
  }

  #address(): string {
    return `10.0.${Math.floor(256 * this.#options.random())}.1`;
  }

  /** Requests a page or a key, again and again, whether or not the last one was answered. */
  async #request(): Promise<void> {
    const { signal } = this.#closed;
    const start = performance.now();
    for (let sent = 1; !signal.aborted; sent++) {
      const isKey = this.#options.random() < KEYS && this.#keyPath !== "";
      const request = isKey
        ? this.requestKey(this.#keyPath)
        : this.#requestPage();
      this.#pending.add(request);
      void request.then(() => this.#pending.delete(request));
      const due = start + 1_000 * sent / this.#options.requestsPerSecond;
      const seconds = (due - performance.now()) / 1_000;
      if (seconds > 0) await sleep(seconds, signal).catch(() => {}); // closed
    }
  }

  async #requestPage(): Promise<void> {
    const requestedAt = performance.now();
    await this.#expect("page", this.#fetch("/", this.#init()), (page) => {
      const payload = />({"public".*?)<\/script>/.exec(page)?.[1];
      if (payload === undefined) return "without variables";
      const { public: { THEME, PULSE = 0 }, sensitive, _meta } = JSON.parse(
        payload,
      );
      const receivedAt = performance.now();
      this.#seenAt.set(THEME, receivedAt);
      const times = { requestedAt, receivedAt };
      const olderMs = this.#olderPages.add(Number(PULSE), times);
      const noticed = this.#noticed;
      noticed.olderMs = Math.max(noticed.olderMs, olderMs);
      if (!this.themes.includes(THEME)) return `with THEME=${THEME}`;
      if (sensitive === undefined) return "without SENSITIVE";
      this.#keyPath = _meta.key_endpoint;
      if (olderMs > OLDER_MS) return "with an older PULSE";
    });
  }

  /** Requests the key of a page. It never changes. */
  async requestKey(path: string): Promise<void> {
    const headers = { origin: this.#options.url };
    const response = this.#fetch(path, this.#init(headers));
    await this.#expect("key", response, (text) => {
      const { key } = JSON.parse(text);
      const issued = this.#keys.get(path) ?? key;
      this.#keys.set(path, issued);
      return key === issued ? undefined : "with another value";
    });
  }

  #init(headers: Record<string, string> = {}): RequestInit {
    const timeout = AbortSignal.timeout(REQUEST_MS);
    return { headers, signal: AbortSignal.any([this.#closed.signal, timeout]) };
  }

  /** Counts a response. One that is not 200, or is wrong, counts as a failure. */
  async #expect(
    what: string,
    responding: Promise<Response>,
    wrong: (text: string) => string | undefined,
  ): Promise<void> {
    const noticed = this.#noticed;
    try {
      const response = await responding;
      const text = await response.text();
      const failure = response.ok ? wrong(text) : `${response.status}`;
      if (failure !== undefined) this.failed(`${what} ${failure}`);
    } catch (error) {
      if (this.#closed.signal.aborted) return;
      const isTimeout = (error as Error).name === "TimeoutError";
      this.failed(`${what} ${isTimeout ? "timeout" : "no answer"}`);
    }
    noticed.requests++;
  }

  /** Changes PULSE again and again. */
  async #pulse(): Promise<void> {
    const { signal } = this.#closed;
    const { pulse, secondsBetweenPulses } = this.#options;
    for (let value = 1; !signal.aborted; value++) {
      this.#pulsedAt.set(value, performance.now());
      if (await pulse(value)) this.#lastPulse = value;
      else {
        this.#pulsedAt.delete(value);
        if (!signal.aborted) this.failed("set");
      }
      await sleep(secondsBetweenPulses, signal).catch(() => {}); // closed
    }
  }
}
