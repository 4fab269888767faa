import { deadline } from "@std/async/deadline";
import { EventQueue } from "./_event_queue.ts";
import { clientAddress } from "./_load.ts";

/** Options of {@linkcode PollClients.start}. */
export interface PollClientsOptions {
  readonly port: number;
  readonly clients: number;
  /** The connections of the proxy that all clients come through. */
  readonly connections: number;
  /** How many times faster they ask again than the `retry:` that they are told. */
  readonly speed: number;
}

/** The longest `retry:` of a full process. The first requests are spread over this time. */
const MAX_RETRY_MS = 60_000;
/** How much longer a server that is behind may take. */
const MAX_DELAY_MS = 60_000;
const TICK_MS = 5;

/**
 * Pages without a stream, as cheap as Deno allows: bare connections without a parser. Each has an address of its own,
 * in `X-Forwarded-For`, and asks again with its `Last-Event-ID` after the `retry:` that it was told.
 */
export class PollClients {
  readonly #options: PollClientsOptions;
  readonly #startedAt = performance.now();
  /** When each client asks again. */
  readonly #waiting = new EventQueue();
  /** The clients whose time has come, and the connections that wait for one. */
  readonly #due: number[] = [];
  readonly #idle: ((client: number | undefined) => void)[] = [];
  readonly #cursors: string[] = [];
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #loops: Promise<void>[];
  #isClosed = false;
  #asked = 0;
  #polls = 0;
  /** When each client has received a change, in milliseconds after {@linkcode #changedAt}. */
  #delays: number[] = [];
  #changedAt = Infinity;
  readonly #everyoneAsked = Promise.withResolvers<void>();
  #everyoneHasIt = Promise.withResolvers<void>();

  private constructor(
    options: PollClientsOptions,
    connections: readonly Deno.TcpConn[],
  ) {
    this.#options = options;
    const spreadMs = MAX_RETRY_MS / options.speed;
    for (let client = 0; client < options.clients; client++) {
      const at = spreadMs * client / options.clients;
      this.#waiting.add(at, () => this.#due.push(client));
    }
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
    this.#loops = connections.map((connection) => this.#serve(connection));
    if (options.clients === 0) this.#everyoneAsked.resolve();
  }

  static async start(options: PollClientsOptions): Promise<PollClients> {
    const { port } = options;
    const connections: Deno.TcpConn[] = [];
    while (connections.length < options.connections) {
      connections.push(await Deno.connect({ hostname: "127.0.0.1", port }));
    }
    return new PollClients(options, connections);
  }

  /** How many responses they have received. */
  get polls(): number {
    return this.#polls;
  }

  /** Resolves when each client has asked once. @throws {DOMException} If that takes much longer than it should. */
  async everyoneAsked(): Promise<void> {
    await this.#within(this.#everyoneAsked.promise);
  }

  /**
   * Waits until every client has received an event.
   *
   * @returns The milliseconds until each of them had received it.
   * @throws {DOMException} If that takes much longer than it should.
   */
  async nextEvent(): Promise<readonly number[]> {
    this.#changedAt = performance.now();
    this.#delays = [];
    this.#everyoneHasIt = Promise.withResolvers();
    if (this.#options.clients > 0) {
      await this.#within(this.#everyoneHasIt.promise);
    }
    return this.#delays;
  }

  async #within(promise: Promise<void>): Promise<void> {
    await deadline(promise, MAX_RETRY_MS / this.#options.speed + MAX_DELAY_MS);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    for (const take of this.#idle.splice(0)) take(undefined);
    await Promise.all(this.#loops);
  }

  #tick(): void {
    this.#waiting.runUntil(performance.now() - this.#startedAt);
    while (this.#idle.length > 0 && this.#due.length > 0) {
      this.#idle.pop()?.(this.#due.shift());
    }
  }

  async #nextDue(): Promise<number | undefined> {
    if (this.#isClosed || this.#due.length > 0) return this.#due.shift();
    const { promise, resolve } = Promise.withResolvers<number | undefined>();
    this.#idle.push(resolve);
    return await promise;
  }

  async #serve(connection: Deno.TcpConn): Promise<void> {
    using open = connection;
    while (!this.#isClosed) {
      const client = await this.#nextDue();
      if (client === undefined) continue;
      const cursor = this.#cursors[client];
      const header = cursor === undefined ? "" : `Last-Event-ID: ${cursor}\r\n`;
      const request = "GET /rep/changes HTTP/1.1\r\nHost: localhost\r\n" +
        `X-Forwarded-For: ${clientAddress(client)}\r\n${header}\r\n`;
      await open.write(encoder.encode(request));
      this.#receive(client, await readResponse(open));
    }
  }

  #receive(client: number, text: string): void {
    const [, retryMs] = /^retry: (\d+)$/m.exec(text) ?? [];
    const cursor = /id: (\d+)\n\n$/.exec(text)?.[1];
    if (retryMs === undefined || cursor === undefined) {
      throw new Error(`Cannot poll: expected a retry and an id, got ${text}`);
    }
    if (this.#cursors[client] === undefined) this.#noteFirst();
    this.#cursors[client] = cursor;
    this.#polls++;
    if (text.includes("event: ")) this.#noteEvent();
    const now = performance.now() - this.#startedAt;
    const at = now + Number(retryMs) / this.#options.speed;
    this.#waiting.add(at, () => this.#due.push(client));
  }

  #noteFirst(): void {
    if (++this.#asked === this.#options.clients) this.#everyoneAsked.resolve();
  }

  #noteEvent(): void {
    this.#delays.push(performance.now() - this.#changedAt);
    const isLast = this.#delays.length === this.#options.clients;
    if (isLast) this.#everyoneHasIt.resolve();
  }
}

/** Reads a response whose length is known. */
export async function readResponse(connection: Deno.TcpConn): Promise<string> {
  const buffer = new Uint8Array(4_096);
  let text = "";
  for (let length; (length = await connection.read(buffer)) !== null;) {
    text += decoder.decode(buffer.subarray(0, length));
    const headEnd = text.indexOf("\r\n\r\n") + 4;
    if (headEnd < 4) continue;
    const [, size] = /^content-length: (\d+)\r$/mi.exec(text) ?? [];
    if (size === undefined) throw new Error(`Cannot read ${text}`);
    if (text.length === headEnd + Number(size)) return text;
  }
  throw new Error(`Cannot poll: the connection ended after "${text}"`);
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("latin1");
