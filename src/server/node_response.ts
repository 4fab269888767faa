import type { ServerResponse } from "node:http";
import { setImmediate } from "node:timers";
import { BytesResponse } from "../http/bytes_response.ts";
import { type Clock, waitAtMost } from "../values/clock.ts";

/** Statuses whose responses have no body (RFC 9110 §6.4.1). */
const NULL_BODY_STATUSES = [204, 205, 304];

/** How long a client may take to read what is waiting for it, as `send_timeout` of nginx. */
const SEND_TIMEOUT_MS = 60_000;

/**
 * Sends a response, and resolves when it has been sent or its client has gone. The body is read with backpressure, and
 * cancelled if the client disconnects. A client that does not read for 60 s is disconnected.
 *
 * @throws {unknown} Whatever the body ends in. The connection is then closed, so that the client notices.
 */
export async function sendResponse(response: Response, to: ServerResponse, clock: Clock): Promise<void> {
  const { body, status, headers } = response;
  if (to.req.method === "HEAD" || NULL_BODY_STATUSES.includes(status)) {
    await body?.cancel();
    to.writeHead(status, headerLines(headers));
    to.end();
  } else if (response instanceof BytesResponse) sendWhole(response.content, response, to);
  else if (body === null) sendWhole(EMPTY, response, to);
  else {
    const writer = new BodyWriter(body, { to, clock });
    const rest = await writer.begin(response);
    if (rest !== undefined) return writer.finish(rest); // not awaited: a waiting function would hold the response
  }
}

const EMPTY = new Uint8Array();

/** Sends a body of known length. */
function sendWhole(body: Uint8Array, { status, headers }: Response, to: ServerResponse): void {
  const length = headers.has("content-length") ? [] : ["content-length", String(body.length)];
  to.writeHead(status, [...headerLines(headers), ...length]);
  to.end(body);
}

/** Names and values in turn; `Set-Cookie` is not joined. */
function headerLines(headers: Headers): string[] {
  const lines: string[] = [];
  headers.forEach((value, name) => void lines.push(name, value));
  return lines;
}

/** In an object, since a promise that a function returns would be awaited. */
interface NextRead {
  readonly next: Promise<ReadableStreamReadResult<Uint8Array>>;
}

/** Where a body is written to. */
interface Destination {
  to: ServerResponse;
  clock: Clock;
}

/** Sends a response whose body is a stream. While it waits, it holds nothing but the stream. */
class BodyWriter {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #to: ServerResponse;
  readonly #clock: Clock;

  constructor(body: ReadableStream<Uint8Array>, { to, clock }: Destination) {
    this.#reader = body.getReader();
    this.#to = to;
    this.#clock = clock;
    to.on("close", () => this.#reader.cancel("The client disconnected").catch(() => {}));
  }

  /** Sends the head and the first chunk, and returns the read of the next one, if the body does not end there. */
  async begin(response: Response): Promise<NextRead | undefined> {
    const first = await this.#reader.read();
    if (first.done) return void sendWhole(EMPTY, response, this.#to);
    const next = this.#reader.read();
    if (await endsAtOnce(next)) return void sendWhole(first.value, response, this.#to);
    this.#to.writeHead(response.status, headerLines(response.headers));
    await this.#write(first.value);
    return { next };
  }

  /** Sends the rest of the body. */
  async finish({ next }: NextRead): Promise<void> {
    for (let read = await next; !read.done; read = await this.#reader.read()) await this.#write(read.value);
    this.#to.end();
  }

  async #write(chunk: Uint8Array): Promise<void> {
    if (!this.#to.write(chunk)) await this.#drained();
  }

  async #drained(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const events = ["drain", "close"] as const;
    for (const event of events) this.#to.on(event, resolve);
    await waitAtMost(SEND_TIMEOUT_MS, promise, this.#clock);
    for (const event of events) this.#to.off(event, resolve);
    if (this.#to.writableNeedDrain) this.#to.destroy();
  }
}

/** Whether a read finds the end of the stream at once, as that of a body which was not a stream. */
function endsAtOnce(read: Promise<ReadableStreamReadResult<Uint8Array>>): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  setImmediate(() => resolve(false));
  return Promise.race([read.then(({ done }) => done), promise]);
}
