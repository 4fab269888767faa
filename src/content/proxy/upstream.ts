import { concat } from "@std/bytes/concat";
import http, { type IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { drained } from "../../adapters/node_handler.ts";
import { parseCodings } from "../../core/http/headers.ts";
import { Problem } from "../../core/http/problem.ts";
import { NULL_BODY_STATUSES } from "../../core/http/send.ts";
import type { ResponseContent } from "../../core/pages/page.ts";
import type { Clock } from "../../core/values/clock.ts";
import {
  type BodyReader,
  type Transfer,
  transferBody,
} from "../../core/http/transfers.ts";
import { authenticatesConnection, maxIdleMs } from "./connection_reuse.ts";
import { withoutHopByHop } from "./forwarded_request.ts";
import { TlsAgent } from "./tls_agent.ts";

/** A request as the upstream receives it. */
export interface UpstreamRequest {
  readonly method: string;
  /** The request target, in origin form. */
  readonly target: string;
  readonly headers: Headers;
  /** Its length has to match the `Content-Length` of the headers. Without that header, it is sent in chunks. */
  readonly body: AsyncIterable<Uint8Array> | null;
  /** Called when the body has been sent, or its transfer has failed. */
  readonly onBodyEnd: () => void;
  /** Aborts the request. */
  readonly signal: AbortSignal;
}

/** Maximum size of the response's head, in bytes. `Deno.serve` has the same limit for requests. */
const MAX_HEAD_BYTES = 65_536;

/**
 * Maximum number of interim responses (1xx) before the response. They are not forwarded, and an endless sequence would
 * fill the memory.
 */
const MAX_INTERIM_RESPONSES = 16;

/** Methods whose requests usually have no body. Without a body, they have no `Content-Length` (RFC 9110 §8.6). */
const BODILESS_METHODS = ["GET", "HEAD", "DELETE", "OPTIONS"];

/** Methods whose requests may be sent once more (RFC 9110 §9.2.2). The gateway does not forward TRACE. */
const IDEMPOTENT_METHODS = [...BODILESS_METHODS, "PUT"];

/** Who is to go on: the client with its body, or the upstream, which takes the body and responds. */
type AwaitedParty = "client" | "upstream";

/** A failure on a reused connection, which the upstream may have closed because it was idle. */
class StaleConnectionError extends Error {}

/**
 * The connections to an upstream. It uses `node:http`, because `fetch` decompresses the body without adjusting
 * `Content-Encoding` and `Content-Length`.
 */
export class Upstream {
  readonly #url: URL;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #pool: http.Agent;
  readonly #unpooled: http.Agent;
  /** Until when connections may be reused, in milliseconds of the monotonic clock. */
  readonly #reusableUntil = new WeakMap<Duplex, number>();

  /**
   * @param url Scheme, host and port to connect to.
   * @param timeoutMs How long to wait for the response's headers, in milliseconds after the last byte of the request was
   * sent. During an upload, how long to wait for the client's next bytes, or until the upstream takes them.
   */
  constructor(url: URL, timeoutMs: number, clock: Clock) {
    const Agent = url.protocol === "https:" ? TlsAgent : http.Agent;
    this.#url = url;
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
    this.#pool = new Agent({ keepAlive: true });
    this.#unpooled = new Agent({ keepAlive: false });
  }

  /**
   * Sends a request and waits for the response's headers. If the upstream closes an idle connection at the moment when it
   * is reused, an idempotent request without a body is sent once more (RFC 9110 §9.2.2).
   *
   * A connection that may be authenticated is closed after the response: the next client would have the identity of this
   * one. It is not bound to the client's connection either, which a proxy in front may use for several clients.
   *
   * @throws {Problem} If the client pauses its body for too long.
   * @throws {DOMException} `TimeoutError` if the headers do not arrive in time; `AbortError` if the signal was aborted or
   * the request's body ended in an error.
   * @throws {Error} If the upstream cannot be reached or its response is not HTTP.
   */
  async send(request: UpstreamRequest): Promise<IncomingMessage> {
    const { method, headers, body } = request;
    if (authenticatesConnection(headers.get("authorization"))) {
      return await this.#sendOver(this.#unpooled, request);
    }
    this.#closeExpired();
    try {
      return await this.#sendOver(this.#pool, request);
    } catch (error) {
      const isStale = error instanceof StaleConnectionError;
      const isRepeatable = IDEMPOTENT_METHODS.includes(method) && body === null;
      if (!isStale || !isRepeatable) throw error;
    }
    return await this.#sendOver(this.#unpooled, request);
  }

  /** Closes all connections, including those in use. */
  close(): void {
    this.#pool.destroy();
    this.#unpooled.destroy();
  }

  /**
   * Closes the idle connections that the upstream is about to close: a POST would be lost, which must not be repeated. Their
   * age is checked when one is needed, since a timer may be late.
   */
  #closeExpired(): void {
    const now = this.#clock.monotonic();
    for (const idle of Object.values(this.#pool.freeSockets).flat()) {
      if (idle && now >= (this.#reusableUntil.get(idle) ?? 0)) idle.destroy();
    }
  }

  async #sendOver(
    agent: http.Agent,
    sent: UpstreamRequest,
  ): Promise<IncomingMessage> {
    const { method, target, body, onBodyEnd, signal } = sent;
    signal.throwIfAborted();
    const { protocol, hostname, port, host } = this.#url;
    const request = http.request({
      agent,
      method,
      protocol,
      hostname: hostname.replace(/^\[|\]$/g, ""),
      port,
      path: target,
      headers: headerLines(sent, host),
      maxHeaderSize: MAX_HEAD_BYTES,
    });
    const response = responseTo(request);
    function fail(error: Error): void {
      response.reject(error); // a request without a connection emits no error when it is destroyed
      request.destroy(error);
    }
    let isWaiting = true;
    let cancelTimer = () => {};
    const waitFor = (awaited: AwaitedParty) => {
      cancelTimer();
      if (!isWaiting) return;
      cancelTimer = this.#clock.after(
        this.#timeoutMs,
        () => fail(timeoutError(awaited, this.#timeoutMs)),
      );
    };
    function onAbort(): void {
      fail(new DOMException("The client disconnected", "AbortError"));
    }
    signal.addEventListener("abort", onAbort);
    sendBody(body, request, waitFor)
      .catch(() => {
        const message = "The request's body broke off";
        fail(new DOMException(message, "AbortError"));
      })
      .finally(onBodyEnd);
    try {
      const message = await response.promise;
      const { headers, socket } = message;
      const idleMs = maxIdleMs(headers);
      if (idleMs <= 0) request.shouldKeepAlive = false;
      message.once("end", () => {
        this.#reusableUntil.set(socket, this.#clock.monotonic() + idleMs);
      });
      return message;
    } finally {
      isWaiting = false;
      cancelTimer();
      signal.removeEventListener("abort", onAbort);
    }
  }
}

/**
 * Returns a list in which each name precedes its value. `node:http` sends such a list unchanged. Without a
 * `Content-Length`, the last header states the length or the chunked coding of the body (RFC 9112 §6.1), since `node:http`
 * would send the body of a GET or a DELETE without either, and announce a body for a POST that has none.
 */
function headerLines(
  { method, headers, body }: UpstreamRequest,
  host: string,
): string[] {
  const lines = ["host", headers.get("host") ?? host];
  headers.forEach((value, name) => { // Object.fromEntries() would sort all headers for each of them
    if (name !== "host") lines.push(name, value);
  });
  if (headers.has("content-length")) return lines;
  if (body !== null) lines.push("transfer-encoding", "chunked");
  else if (!BODILESS_METHODS.includes(method)) {
    lines.push("content-length", "0");
  }
  return lines;
}

/** Returns the promise of a response, which settles when its head arrives or the request fails. */
function responseTo(
  request: http.ClientRequest,
): PromiseWithResolvers<IncomingMessage> {
  const response = Promise.withResolvers<IncomingMessage>();
  const { resolve, reject } = response;
  let isReused = false;
  let hasResponse = false;
  let interimResponses = 0;
  request.on("socket", () => {
    isReused = request.reusedSocket;
    // Without this, Deno's node:http itself retries on a closed connection, even a POST, which a proxy must not do (RFC
    // 9110 §9.2.2).
    request.reusedSocket = false;
  });
  request.on("information", () => {
    interimResponses++;
    if (interimResponses <= MAX_INTERIM_RESPONSES) return;
    reject(new Error("Too many interim responses (1xx)")); // before a response in the same chunk can resolve the promise
    request.destroy();
  });
  request.on("response", (message: IncomingMessage) => {
    hasResponse = true;
    resolve(message);
  });
  // Not once(): the parser emits some errors twice, and an error without a listener would end the process.
  request.on("error", (error: Error) => {
    const code = "code" in error ? error.code : undefined;
    const isClosed = code === "ECONNRESET" || code === "EPIPE";
    const isStale = isReused && isClosed;
    reject(isStale ? new StaleConnectionError(error.message) : error);
  });
  request.on("close", () => {
    if (hasResponse) return; // creating an error with its stack is expensive
    reject(new Error("The connection was closed without a response"));
  });
  return response;
}

/**
 * Sends the body, with backpressure. It rejects if the body ends in an error. The request emits its own errors as events.
 */
async function sendBody(
  body: AsyncIterable<Uint8Array> | null,
  request: http.ClientRequest,
  waitFor: (awaited: AwaitedParty) => void,
): Promise<void> {
  if (body !== null) {
    request.write(new Uint8Array()); // sends the headers now, without encoding them as UTF-8 like flushHeaders()
    waitFor("client");
    for await (const chunk of body) {
      if (request.destroyed) return; // leaving the loop cancels the body
      waitFor("upstream");
      if (!request.write(chunk)) await drained(request);
      waitFor("client");
    }
  }
  waitFor("upstream");
  request.end();
}

function timeoutError(awaited: AwaitedParty, timeoutMs: number): Error {
  if (awaited === "client") {
    return new Problem(408, {
      detail: "The request's body did not arrive in time",
    });
  }
  const message = `No response headers within ${timeoutMs} ms`;
  return new DOMException(message, "TimeoutError");
}

const [NO_CONTENT, RESET_CONTENT] = [204, 205];

/** A body of at most this size that has arrived with the headers is not streamed. */
const MAX_BUFFERED_BYTES = 65_536;

/**
 * How long the upstream may pause its body. Streams of events are quiet for some time, but proxies usually end those
 * that are quiet for longer.
 */
const MAX_PAUSE_MS = 5 * 60_000;

/** Options of {@linkcode upstreamResponse}. */
interface UpstreamResponseOptions {
  /** Ends when the body has been received or cancelled. */
  readonly transfer: Transfer;
  readonly clock: Clock;
  /** Returns the error with which the body ends if it breaks off or pauses for too long. */
  readonly toBrokenBody: (error: unknown) => Error;
}

/**
 * Converts the upstream's message to a response with the same status, end-to-end headers and bytes. A 205 becomes a 204,
 * which means the same to browsers: `Deno.serve` sends a 205 without a length, so HTTP/1 clients would wait for its end.
 *
 * A small body that has arrived with the headers becomes bytes. Any other body becomes a stream with backpressure, whose
 * cancellation closes the connection.
 *
 * @param method The method of the request. A response to HEAD has no body, whatever its headers say.
 * @throws {RangeError} If the status is not between 200 and 599.
 * @throws {TypeError} If a header is invalid.
 */
export function upstreamResponse(
  message: IncomingMessage,
  method: string,
  options: UpstreamResponseOptions,
): ResponseContent {
  const { transfer } = options;
  const { statusCode = 0 } = message;
  const status = statusCode === RESET_CONTENT ? NO_CONTENT : statusCode;
  if (status < 200 || status > 599) {
    throw new RangeError(
      `Cannot respond: expected a status of 200 to 599, got ${status}`,
    );
  }
  const headers = endToEndHeaders(message);
  if (status === NO_CONTENT) headers.delete("content-length"); // RFC 9110 §8.6
  message.on("error", () => {}); // the reader of the body gets the error, which would end the process without a listener
  const hasBody = method !== "HEAD" && !NULL_BODY_STATUSES.includes(status);
  const hasArrived = message.complete &&
    message.readableLength <= MAX_BUFFERED_BYTES;
  if (hasBody && !hasArrived) {
    message.on("close", () => transfer.end()); // even if nobody reads the body
    const body = transferBody(readerOf(message, options), transfer);
    return { status, headers, body };
  }
  const body = hasBody ? readBuffered(message) : null;
  message.resume(); // reads the message to its end, so that the connection can be reused
  transfer.end();
  return { status, headers, body };
}

/**
 * Returns the headers of a message without the hop-by-hop headers. It reads `rawHeaders`, since `message.headers` drops
 * duplicates of some headers.
 *
 * @throws {TypeError} If a header is invalid, or the body has a transfer coding that `node:http` does not decode. The
 * gateway asks for none (RFC 9112 §7.4), and without the header, nobody could read such a body.
 */
export function endToEndHeaders(
  { rawHeaders }: Pick<IncomingMessage, "rawHeaders">,
): Headers {
  const received = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    received.append(rawHeaders[i]!, rawHeaders[i + 1]!);
  }
  const codings = parseCodings(received.get("transfer-encoding"));
  const unknown = codings.find((it) => it !== "chunked" && it !== "identity");
  if (unknown !== undefined) {
    throw new TypeError(
      `Cannot read the response: expected the transfer coding "chunked", got "${unknown}"`,
    );
  }
  return withoutHopByHop(received);
}

/** Reads the part of a body that has arrived. */
function readBuffered(message: IncomingMessage): Uint8Array<ArrayBuffer> {
  const chunks: Uint8Array[] = [];
  for (let chunk = message.read(); chunk !== null; chunk = message.read()) {
    chunks.push(chunk);
  }
  return toBytes(concat(chunks));
}

/** Returns a reader for the chunks of a body as they arrive. */
function readerOf(
  message: IncomingMessage,
  { clock, toBrokenBody }: UpstreamResponseOptions,
): BodyReader {
  const chunks = message[Symbol.asyncIterator]();
  let isCancelled = false;
  return {
    async read() {
      const cancelTimer = clock.after(
        MAX_PAUSE_MS,
        () => message.destroy(new Error("The body paused for 5 minutes")),
        true,
      );
      try {
        const { done, value } = await chunks.next();
        return done ? { done } : { done: false, value: toBytes(value) };
      } catch (error) {
        throw isCancelled ? error : toBrokenBody(error);
      } finally {
        cancelTimer();
      }
    },
    cancel() {
      isCancelled = true;
      message.destroy();
      return Promise.resolve();
    },
  };
}

/** Returns the bytes of a `Buffer` as a `Uint8Array`, which readers of a response's body expect. */
function toBytes(
  { buffer, byteOffset, length }: Uint8Array<ArrayBuffer>,
): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer, byteOffset, length);
}
