import type { RunningCommand } from "./_command.ts";
import { type Message, readSse, type SseReader } from "./_sse.ts";
import { within } from "./_time.ts";

/** Opens the stream of a gateway, and reads its opening bytes: from here on nothing is missed. */
export async function openStream(
  { url }: Pick<RunningCommand, "url">,
  cursor?: number,
): Promise<SseReader> {
  const headers = cursor === undefined
    ? {}
    : { "last-event-id": String(cursor) };
  const stream = readSse(await fetch(`${url}/rep/changes`, { headers }));
  await stream.pull();
  return stream;
}

/** A client that reads its stream continuously. */
export class Client implements AsyncDisposable {
  readonly messages: Message[];
  readonly #sse: SseReader;
  readonly #checks = new Set<() => void>();
  readonly #reading: Promise<void>;
  #isOpen = true;

  private constructor(sse: SseReader) {
    this.#sse = sse;
    this.messages = sse.arrived();
    this.#reading = this.#read();
  }

  /** Opens the stream of a gateway. */
  static async open({ url }: RunningCommand, cursor?: number): Promise<Client> {
    return new Client(await openStream({ url }, cursor));
  }

  /** Whether the stream has not ended. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /**
   * The id of the last message, also one without data: an `EventSource` sends it when it reconnects (HTML Standard
   * §9.2.6). Each message of the gateway ends with its id.
   */
  get lastEventId(): number | undefined {
    const id = [...this.text().matchAll(/^id: (\d+)\n\n/gm)].at(-1)?.[1];
    return id === undefined ? undefined : Number(id);
  }

  /** Returns all text that has arrived. */
  text(): string {
    return this.#sse.text();
  }

  /** Waits until a condition holds, for this long at most. Rejects if the stream ends before. */
  until(holds: (client: Client) => boolean, ms?: number): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const check = () => {
      if (holds(this)) resolve();
      else if (!this.#isOpen) {
        reject(new Error(`The stream has ended:\n${this.text()}`));
      }
    };
    this.#checks.add(check);
    check();
    return within(promise, ms).finally(() => this.#checks.delete(check));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sse.close().catch(() => {}); // the stream has failed already
    await this.#reading;
  }

  async #read(): Promise<void> {
    try {
      while (await this.#sse.pull()) {
        this.messages.push(...this.#sse.arrived());
        this.#runChecks();
      }
    } catch {
      // The gateway was killed, which also ends the stream.
    }
    this.#isOpen = false;
    this.#runChecks();
  }

  #runChecks(): void {
    for (const check of [...this.#checks]) check();
  }
}

/** Returns the values of all messages so far. */
export function valuesOf({ messages }: Client): unknown[] {
  return messages.map(({ data }) => data.value);
}

/** Returns a condition: a value has arrived. */
export function has(value: string): (client: Client) => boolean {
  return ({ messages }) => messages.some(({ data }) => data.value === value);
}

/** Returns the ids of all messages so far. */
export function idsOf({ messages }: Client): number[] {
  return messages.map(({ id }) => id);
}

/** Returns the number of heartbeats so far. */
export function heartbeatsOf(client: Client): number {
  return client.text().split(": heartbeat").length - 1;
}
