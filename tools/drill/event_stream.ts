import { sleep } from "./waiting.ts";

/** An event as a page receives it. */
export interface Event {
  readonly id: number;
  readonly name: string;
  readonly value: string | undefined;
}

/** Options of {@linkcode EventStream}. */
export interface EventStreamOptions {
  /** Requests the stream. */
  readonly open: (
    headers: Record<string, string>,
    signal: AbortSignal,
  ) => Promise<Response>;
  readonly onEvent: (event: Event, stream: EventStream) => void;
  /** Called for each attempt that did not get a stream, with the status or the reason. */
  readonly onFailure: (status: string) => void;
}

/** An event stream that reconnects as an `EventSource` does: with its `Last-Event-ID`, after the time that `retry` names. */
export class EventStream implements AsyncDisposable {
  /** The id with which it began: it has to receive what comes after it. */
  firstId: number | undefined;
  /** The ids of all events, in the order in which they came. */
  readonly ids: number[] = [];
  /** Since when it has not been open, by `performance.now()`. */
  closedSince: number | undefined = performance.now();
  /** The longest time for which it was not open, since it was set to 0. */
  longestGapMs = 0;
  readonly #options: EventStreamOptions;
  readonly #closed = new AbortController();
  readonly #running: Promise<void>;
  #lastId = "";
  #retryMs = 3_000;

  constructor(options: EventStreamOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#closed;
    while (!signal.aborted) {
      try {
        await this.#connect(signal);
      } catch {
        if (signal.aborted) return;
        if (this.closedSince !== undefined) this.#options.onFailure("refused");
      }
      this.closedSince ??= performance.now();
      await sleep(this.#retryMs / 1_000, signal).catch(() => {}); // closed
    }
  }

  /** Reads one response to its end. */
  async #connect(signal: AbortSignal): Promise<void> {
    const headers = { "last-event-id": this.#lastId };
    const { status, body } = await this.#options.open(
      this.#lastId === "" ? {} : headers,
      signal,
    );
    if (status !== 200 || body === null) {
      await body?.cancel();
      return this.#options.onFailure(`${status}`);
    }
    let text = "";
    for await (
      const chunk of body.pipeThrough(new TextDecoderStream(), { signal })
    ) {
      const messages = (text + chunk).split("\n\n");
      text = messages.pop()!;
      for (const message of messages) this.#read(message);
    }
  }

  #read(message: string): void {
    const field = (name: string) =>
      RegExp(`^${name}: (.*)$`, "m").exec(message)?.[1];
    const retry = field("retry");
    if (retry !== undefined) this.#retryMs = Number(retry);
    const id = field("id");
    if (id === undefined) return; // a heartbeat
    this.#opened();
    this.#lastId = id;
    this.firstId ??= Number(id);
    const data = field("data");
    if (data === undefined) return; // the opening
    this.ids.push(Number(id));
    const { key, value } = JSON.parse(data);
    this.#options.onEvent({ id: Number(id), name: key, value }, this);
  }

  #opened(): void {
    if (this.closedSince === undefined) return;
    const gap = performance.now() - this.closedSince;
    this.longestGapMs = Math.max(this.longestGapMs, gap);
    this.closedSince = undefined;
  }
}
