import type { RunningCommand } from "./_command.ts";
import { within } from "./_relay.ts";
import { type Message, readSse } from "./_sse.ts";

/** A client that reads its stream continuously. */
export interface Client extends AsyncDisposable {
  readonly messages: Message[];
  /** Whether the stream has not ended. */
  readonly isOpen: boolean;
  /** All text that has arrived. */
  text(): string;
  /** Waits until something has arrived, at most `ms` milliseconds. */
  until(arrived: (client: Client) => boolean, ms?: number): Promise<void>;
}

/** Opens a stream of a gateway. */
export async function openStream({ url }: RunningCommand, cursor?: number): Promise<Client> {
  const headers = cursor === undefined ? {} : { "last-event-id": String(cursor) };
  const sse = readSse(await fetch(`${url}/rep/changes`, { headers }));
  await sse.pull(); // the opening bytes: nothing is missed from here on
  const messages: Message[] = [];
  const waiting = new Set<() => void>();
  let isOpen = true;

  async function read(): Promise<void> {
    try {
      for (;;) {
        if (!await sse.pull()) break;
        messages.push(...sse.arrived());
        for (const check of [...waiting]) check();
      }
    } catch {
      // Its gateway was killed.
    }
    isOpen = false;
    for (const check of [...waiting]) check();
  }

  messages.push(...sse.arrived());
  const reading = read();
  const client: Client = {
    messages,
    get isOpen() {
      return isOpen;
    },
    text: sse.text,
    until(arrived, ms) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const check = () => void (arrived(client) && resolve());
      waiting.add(check);
      check();
      return within(promise, ms).finally(() => waiting.delete(check));
    },
    async [Symbol.asyncDispose]() {
      await sse.close().catch(() => {}); // an error ends the stream as well
      await reading;
    },
  };
  return client;
}

/** The values of all messages so far. */
export function valuesOf({ messages }: Client): unknown[] {
  return messages.map(({ data }) => data.value);
}

/** Whether a value has arrived. */
export function has(value: string): (client: Client) => boolean {
  return ({ messages }) => messages.some(({ data }) => data.value === value);
}

/** The ids of all messages so far. */
export function idsOf({ messages }: Client): number[] {
  return messages.map(({ id }) => id);
}

/** How many heartbeats have arrived. */
export function heartbeatsOf(client: Client): number {
  return client.text().split(": heartbeat").length - 1;
}
