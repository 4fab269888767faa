import { createParser, type EventSourceMessage } from "eventsource-parser";

/** A message as a client sees it. */
export interface Message {
  event: string;
  data: { key: string; tier: string; value?: string };
  id: number;
}

/** A stream that is read by a parser that is not ours. */
export interface SseReader {
  /** The next message; nothing at the end of the stream. */
  next(): Promise<Message | undefined>;
  /** The next messages, as many as asked for. */
  take(count: number): Promise<Message[]>;
  /** The messages that have arrived already, and were not asked for yet. */
  arrived(): Message[];
  /** All text that has arrived so far. */
  text(): string;
  /** Reads one chunk, whatever is in it; `false` at the end. */
  pull(): Promise<boolean>;
  close(): Promise<void>;
}

/** Reads a response's body as an event stream. */
export function readSse(response: Response): SseReader {
  if (response.body === null) throw new TypeError("The response has no body");
  const reader = response.body.getReader();
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const messages: Message[] = [];
  let text = "";
  const parser = createParser({ onEvent: (event) => messages.push(toMessage(event)) });

  async function pull(): Promise<boolean> {
    const { value, done } = await reader.read();
    if (done) return false;
    const part = decoder.decode(value, { stream: true });
    text += part;
    parser.feed(part);
    return true;
  }

  async function next(): Promise<Message | undefined> {
    while (messages.length === 0) {
      if (!await pull()) return undefined;
    }
    return messages.shift();
  }

  async function take(count: number): Promise<Message[]> {
    const taken: Message[] = [];
    while (taken.length < count) {
      const message = await next();
      if (message === undefined) throw new Error(`The stream ended after ${taken.length} of ${count} messages`);
      taken.push(message);
    }
    return taken;
  }

  return { next, take, arrived: () => messages.splice(0), pull, text: () => text, close: () => reader.cancel() };
}

function toMessage({ event, data, id }: EventSourceMessage): Message {
  return { event: event ?? "message", data: JSON.parse(data), id: Number(id) };
}
