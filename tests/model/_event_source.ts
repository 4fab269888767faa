import { EventStreamParser } from "./_event_stream_parser.ts";
import type { VirtualTime } from "../_virtual_time.ts";

/** An event that was received. */
export interface ReceivedEvent {
  readonly id: number;
  readonly type: string;
  readonly name: string;
  readonly value: string | undefined;
}

/** A connection that can be lost. */
export interface Network {
  /** Sends a request to any process; rejects if there is none, or if it ends before it answers. */
  fetch(request: Request, onLost: () => void): Promise<Response>;
  readonly time: Pick<VirtualTime, "after" | "sleep">;
  readonly random: () => number;
  fail(reason: string): void;
}

/** HTML standard §9.2.2: "an implementation-defined value, probably in the region of a few seconds". */
const DEFAULT_RETRY_MS = 3_000;

interface Connection {
  isLost: boolean;
  /** It will be lost in the middle of the next chunk. */
  isBreaking: boolean;
  reader?: ReadableStreamDefaultReader<Uint8Array>;
}

/** Options of {@linkcode EventSourceClient}. */
interface EventSourceOptions {
  name: string;
  query: string;
  /** The last event id of an earlier connection. @default {""} */
  lastEventId?: string;
  /** Called with the last event id that was sent, when a stream begins. */
  onConnected: (lastEventId: string) => void;
  /** Called with each read of a stream. */
  onRead?: (reading: Promise<unknown>) => void;
}

/** An `EventSource` as the HTML standard describes it (§9.2), except that it never gives up. */
export class EventSourceClient {
  readonly name: string;
  readonly events: ReceivedEvent[] = [];
  /** While it is paused, it does not read. */
  isPaused = false;
  isClosed = false;
  readonly #network: Network;
  readonly #url: string;
  readonly #onConnected: (lastEventId: string) => void;
  readonly #onRead: (reading: Promise<unknown>) => void;
  #lastEventId = "";
  #firstEventId: string | undefined;
  #retryMs = DEFAULT_RETRY_MS;
  #connection: Connection | undefined;

  constructor(network: Network, options: EventSourceOptions) {
    const { name, query, lastEventId = "", onConnected, onRead = () => {} } =
      options;
    this.#network = network;
    this.name = name;
    this.#url = `http://gateway.test/rep/changes${query}`;
    this.#lastEventId = lastEventId;
    this.#onConnected = onConnected;
    this.#onRead = onRead;
    void this.#connect();
  }

  /** The first event id that it was told, with an event or without. */
  get firstEventId(): string | undefined {
    return this.#firstEventId;
  }

  /** Loses the connection: at once, or in the middle of the next chunk. */
  disconnect(when: "now" | "later"): void {
    const connection = this.#connection;
    if (connection === undefined) return;
    if (when === "later") connection.isBreaking = true;
    else this.#drop(connection);
  }

  /** Closes it for good. */
  close(): void {
    this.isClosed = true;
    this.disconnect("now");
  }

  #drop(connection: Connection): void {
    this.#lose(connection);
    void connection.reader?.cancel();
  }

  async #connect(): Promise<void> {
    const connection: Connection = this.#connection = {
      isLost: false,
      isBreaking: false,
    };
    try {
      const headers: HeadersInit = this.#lastEventId === ""
        ? {}
        : { "last-event-id": this.#lastEventId };
      const sent = this.#lastEventId;
      const response = await this.#network.fetch(
        new Request(this.#url, { headers }),
        () => this.#lose(connection),
      );
      if (connection.isLost) return void response.body?.cancel();
      if (response.status !== 200) {
        this.#network.fail(
          `${this.name} got status ${response.status}, which ends it`,
        );
      }
      this.#onConnected(sent);
      connection.reader = (response.body as ReadableStream<Uint8Array>)
        .getReader();
      await this.#read(connection, connection.reader);
    } catch {
      // The process is not there, or not any more.
    }
    this.#lose(connection);
  }

  async #read(
    connection: Connection,
    reader: ReadableStreamDefaultReader<Uint8Array>,
  ): Promise<void> {
    const { time, random } = this.#network;
    const decoder = new TextDecoder();
    const parser = new EventStreamParser({
      onEvent: (type, data) => this.#receive(type, data),
      onLastEventId: (id) => {
        this.#firstEventId ??= id;
        this.#lastEventId = id;
      },
      onRetry: (ms) => this.#retryMs = ms,
    });
    while (!connection.isLost) {
      while (this.isPaused && !connection.isLost) await time.sleep(100);
      const reading = reader.read();
      this.#onRead(reading);
      const { value, done } = await reading;
      if (done || connection.isLost) return;
      const arrived = connection.isBreaking
        ? value.subarray(0, Math.floor(random() * value.length))
        : value;
      parser.feed(decoder.decode(arrived, { stream: true }));
      if (connection.isBreaking) return this.#drop(connection);
    }
  }

  #lose(connection: Connection): void {
    if (connection.isLost) return;
    connection.isLost = true;
    if (this.#connection === connection) this.#connection = undefined;
    this.#network.time.after(
      this.#retryMs,
      () => this.isClosed || void this.#connect(),
    );
  }

  #receive(type: string, data: string): void {
    if (type === "rep:heartbeat") return;
    const { key, tier, value } = JSON.parse(data);
    const id = Number(this.#lastEventId);
    const last = this.events.at(-1)?.id ?? 0;
    if (!(id > last)) {
      this.#network.fail(
        `${this.name} received event ${this.#lastEventId} after ${last}`,
      );
    }
    if (tier !== "public") {
      this.#network.fail(`${this.name} received a value of the tier ${tier}`);
    }
    this.events.push({ id, type, name: key, value });
  }
}
