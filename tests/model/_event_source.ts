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
export function openEventSource(
  network: Network,
  { name, query, onConnected, onRead = () => {}, ...options }:
    EventSourceOptions,
) {
  const url = `http://gateway.test/rep/changes${query}`;
  const events: ReceivedEvent[] = [];
  let { lastEventId = "" } = options;
  let retryMs = DEFAULT_RETRY_MS;
  let current: Connection | undefined;
  let isClosed = false;
  const source = {
    events,
    /** While it is paused, it does not read. */
    isPaused: false,
    /** The first event id that it was told, with an event or without. */
    firstEventId: undefined as string | undefined,
    /** Loses the connection: at once, or in the middle of the next chunk. */
    disconnect(when: "now" | "later") {
      if (current === undefined) return;
      if (when === "later") current.isBreaking = true;
      else drop(current);
    },
    /** Closes it for good. */
    close() {
      isClosed = true;
      if (current) drop(current);
    },
  };

  function drop(connection: Connection) {
    lose(connection);
    void connection.reader?.cancel();
  }

  async function connect() {
    const connection: Connection = { isLost: false, isBreaking: false };
    current = connection;
    try {
      const headers: HeadersInit = lastEventId === ""
        ? {}
        : { "last-event-id": lastEventId };
      const sent = lastEventId;
      const response = await network.fetch(
        new Request(url, { headers }),
        () => lose(connection),
      );
      if (connection.isLost) return void response.body?.cancel();
      if (response.status !== 200) {
        network.fail(`${name} got status ${response.status}, which ends it`);
      }
      onConnected(sent);
      connection.reader = (response.body as ReadableStream<Uint8Array>)
        .getReader();
      await read(connection, connection.reader);
    } catch {
      // The process is not there, or not any more.
    }
    lose(connection);
  }

  async function read(
    connection: Connection,
    reader: ReadableStreamDefaultReader<Uint8Array>,
  ) {
    const { time, random } = network;
    const decoder = new TextDecoder();
    const parser = new EventStreamParser({
      onEvent: receive,
      onLastEventId: (id) => {
        source.firstEventId ??= id;
        lastEventId = id;
      },
      onRetry: (ms) => retryMs = ms,
    });
    while (!connection.isLost) {
      while (source.isPaused && !connection.isLost) await time.sleep(100);
      const reading = reader.read();
      onRead(reading);
      const { value, done } = await reading;
      if (done || connection.isLost) return;
      const arrived = connection.isBreaking
        ? value.subarray(0, Math.floor(random() * value.length))
        : value;
      parser.feed(decoder.decode(arrived, { stream: true }));
      if (connection.isBreaking) return drop(connection);
    }
  }

  function lose(connection: Connection) {
    if (connection.isLost) return;
    connection.isLost = true;
    if (current === connection) current = undefined;
    network.time.after(retryMs, () => isClosed || void connect());
  }

  function receive(type: string, data: string) {
    if (type === "rep:heartbeat") return;
    const { key, tier, value } = JSON.parse(data);
    const id = Number(lastEventId);
    const last = events.at(-1)?.id ?? 0;
    if (!(id > last)) {
      network.fail(`${name} received event ${lastEventId} after ${last}`);
    }
    if (tier !== "public") {
      network.fail(`${name} received a value of the tier ${tier}`);
    }
    events.push({ id, type, name: key, value });
  }

  void connect();
  return source;
}
