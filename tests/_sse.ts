import { createParser, type EventSourceMessage } from "eventsource-parser";
import { within } from "./_time.ts";

/** A message as a client sees it. */
export interface Message {
  event: string;
  data: { key: string; tier: string; value?: string };
  id: number;
}

/** Reads a response's body as an event stream. */
export function readSse({ body }: Response): SseReader {
  if (body === null) {
    throw new TypeError(
      "Cannot read an event stream: expected a response with a body",
    );
  }
  return new SseReader(body);
}

/** An event stream, parsed by an independent implementation. */
export class SseReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  readonly #messages: Message[] = [];
  readonly #parser = createParser({
    onEvent: (event) => this.#messages.push(toMessage(event)),
  });
  #text = "";

  constructor(body: ReadableStream<Uint8Array>) {
    this.#reader = body.getReader();
  }

  /**
   * Returns the next message; `undefined` at the end of the stream.
   *
   * @throws {Error} If none comes within a minute, whatever heartbeats do.
   */
  async next(): Promise<Message | undefined> {
    return await within(this.#next());
  }

  async #next(): Promise<Message | undefined> {
    while (this.#messages.length === 0) {
      if (!await this.pull()) return undefined;
    }
    return this.#messages.shift();
  }

  /** Returns this many messages. */
  async take(count: number): Promise<Message[]> {
    const taken: Message[] = [];
    while (taken.length < count) {
      const message = await this.next();
      if (message === undefined) {
        throw new Error(
          `The stream ended after ${taken.length} of ${count} messages`,
        );
      }
      taken.push(message);
    }
    return taken;
  }

  /** Returns the name and the value of this many messages. */
  async takeChanges(count: number): Promise<[string, string | undefined][]> {
    const messages = await this.take(count);
    return messages.map(({ data: { key, value } }) => [key, value]);
  }

  /** Returns the values of this many messages. */
  async takeValues(count: number): Promise<(string | undefined)[]> {
    return (await this.take(count)).map(({ data }) => data.value);
  }

  /** Returns the messages that have arrived and were not returned yet. */
  arrived(): Message[] {
    return this.#messages.splice(0);
  }

  /** Returns all text that has arrived. */
  text(): string {
    return this.#text;
  }

  /**
   * Reads one chunk, whatever it contains; returns `false` at the end of the stream.
   *
   * @throws {Error} If none comes within a minute.
   */
  async pull(): Promise<boolean> {
    const { value, done } = await within(this.#reader.read());
    if (done) return false;
    const text = this.#decoder.decode(value, { stream: true });
    this.#text += text;
    this.#parser.feed(text);
    return true;
  }

  async close(): Promise<void> {
    await this.#reader.cancel();
  }
}

function toMessage({ event, data, id }: EventSourceMessage): Message {
  return { event: event ?? "message", data: JSON.parse(data), id: Number(id) };
}
