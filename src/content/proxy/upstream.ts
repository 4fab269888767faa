import http, { type IncomingMessage } from "node:http";
import { parseList } from "../../http/headers.ts";
import { drained } from "../../http/node_handler.ts";
import { messageOf } from "../../observe/log.ts";
import type { ResponseContent } from "../../pages/page.ts";
import { concat } from "../../values/chunks.ts";
import type { Clock } from "../../values/clock.ts";
import { type BodyReader, type Transfer, transferBody } from "../transfers.ts";
import { withoutHopByHop } from "./forwarded_request.ts";
import { TlsAgent } from "./tls_agent.ts";

/** A request as the upstream receives it. */
export interface UpstreamRequest {
  readonly method: string;
  /** The request target, in origin form. */
  readonly target: string;
  readonly headers: Headers;
  /** If the headers have a `Content-Length`, the body has to have that length; otherwise it is sent in chunks. */
  readonly body: AsyncIterable<Uint8Array> | null;
  /** Called when the body has been sent, or never will be. */
  readonly onBodyEnd: () => void;
  /** Aborts the request. */
  readonly signal: AbortSignal;
}

/** Maximum size of the response's head, in bytes. `Deno.serve` has the same limit for requests. */
const MAX_HEAD_BYTES = 65_536;

/**
 * Maximum number of interim responses (1xx) before the response. They are not forwarded; an endless sequence would only
 * fill the memory.
 */
const MAX_INTERIM_RESPONSES = 16;

/** Methods whose requests usually have no body: without one, they have no `Content-Length` either (RFC 9110 §8.6). */
const BODILESS_METHODS = ["GET", "HEAD", "DELETE", "OPTIONS"];

/** A failure on a connection that was reused: the upstream may have closed it for being idle. */
class StaleConnectionError extends Error {
  override name = "StaleConnectionError";
}

/**
 * The connections to an upstream. They are made with `node:http`, because `fetch` decompresses the body without adjusting
 * `Content-Encoding` and `Content-Length`.
 */
export class Upstream {
  /** Scheme, host and port to connect to. */
  readonly #address: Pick<
    http.RequestOptions,
    "protocol" | "hostname" | "port"
  >;
  /** The `Host` header of requests that have none. */
  readonly #host: string;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #pool: http.Agent;
  readonly #unpooled: http.Agent;

  /**
   * @param url Scheme, host and port to connect to.
   * @param timeoutMs How long to wait for the response's headers, in milliseconds since the last byte of the request was
   * sent.
   */
  constructor(url: URL, timeoutMs: number, clock: Clock) {
    const Agent = url.protocol === "https:" ? TlsAgent : http.Agent;
    const { protocol, hostname, port, host } = url;
    this.#address = {
      protocol,
      hostname: hostname.replace(/^\[|\]$/g, ""),
      port,
    };
    this.#host = host;
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
    this.#pool = new Agent({ keepAlive: true });
    this.#unpooled = new Agent({ keepAlive: false });
  }

  /**
   * Sends a request and waits for the response's headers. The upstream may close an idle connection at the moment it is
   * reused: a safe request is then sent once more (RFC 9110 §9.2.2).
   *
   * @throws {DOMException} `TimeoutError` if the headers do not arrive in time; `AbortError` if the signal was aborted or
   * the request's body ended in an error.
   * @throws {Error} If the upstream cannot be reached or its response is not HTTP.
   */
  async send(request: UpstreamRequest): Promise<IncomingMessage> {
    try {
      return await this.#sendOver(this.#pool, request);
    } catch (error) {
      const isStale = error instanceof StaleConnectionError;
      const isSafe = request.method === "GET" || request.method === "HEAD";
      if (!isStale || !isSafe) throw error;
    }
    return await this.#sendOver(this.#unpooled, request);
  }

  /** Closes all connections, including those in use. */
  close(): void {
    this.#pool.destroy();
    this.#unpooled.destroy();
  }

  async #sendOver(
    agent: http.Agent,
    sent: UpstreamRequest,
  ): Promise<IncomingMessage> {
    const { method, target, body, onBodyEnd, signal } = sent;
    signal.throwIfAborted();
    const { protocol, hostname, port } = this.#address;
    const request = http.request({
      agent,
      method,
      protocol,
      hostname,
      port,
      path: target,
      headers: headerLines(sent, this.#host),
      maxHeaderSize: MAX_HEAD_BYTES,
    });
    // A request that has no connection yet emits no error when it is destroyed, so its failure is a promise.
    const failure = Promise.withResolvers<never>();
    function fail(name: string, message: string, cause?: unknown): void {
      const error = new DOMException(message, name);
      error.cause = cause;
      failure.reject(error);
      request.destroy(error);
    }
    let isWaiting = true;
    const startTimer = () =>
      this.#clock.after(this.#timeoutMs, () => {
        const message = `No response headers within ${this.#timeoutMs} ms`;
        fail("TimeoutError", message);
      });
    let cancelTimer = startTimer();
    function onProgress(): void {
      if (!isWaiting) return;
      cancelTimer();
      cancelTimer = startTimer();
    }
    function onAbort(): void {
      fail("AbortError", "The client disconnected", signal.reason);
    }
    signal.addEventListener("abort", onAbort);
    const response = responseTo(request);
    sendBody(body, request, onProgress)
      .catch((error) => {
        fail("AbortError", "The request's body broke off", error);
      })
      .finally(onBodyEnd);
    try {
      return await Promise.race([response, failure.promise]);
    } finally {
      isWaiting = false;
      cancelTimer();
      signal.removeEventListener("abort", onAbort);
    }
  }
}

/**
 * Returns names and values in turn, which `node:http` sends as they are. If there is no `Content-Length`, the last
 * header states the length or the chunked coding of the body (RFC 9112 §6.1): `node:http` would send the body of a GET
 * or a DELETE without either, and announce a body for a POST without one.
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

/** Waits for the head of the response. */
function responseTo(request: http.ClientRequest): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  let isReused = false;
  let hasResponse = false;
  let interimResponses = 0;
  request.on("socket", () => {
    isReused = request.reusedSocket;
    // Deno's node:http itself retries on a closed connection, a POST included, which a proxy must not do (RFC 9110
    // §9.2.2). Resetting this flag prevents it.
    request.reusedSocket = false;
  });
  request.on("information", () => {
    interimResponses++;
    if (interimResponses <= MAX_INTERIM_RESPONSES) return;
    reject(new Error("Too many interim responses (1xx)")); // already now: the response may be in the same chunk
    request.destroy();
  });
  request.on("response", (message: IncomingMessage) => {
    hasResponse = true;
    resolve(message);
  });
  // Not once(): the parser emits some errors twice, and one without a listener would end the process.
  request.on("error", (error: Error) => {
    const isStale = isReused && isClosedConnection(error);
    reject(
      isStale
        ? new StaleConnectionError(error.message, { cause: error })
        : error,
    );
  });
  request.on("close", () => {
    if (hasResponse) return; // a stack is expensive
    reject(new Error("The connection was closed without a response"));
  });
  return promise;
}

function isClosedConnection(error: Error): boolean {
  return "code" in error &&
    (error.code === "ECONNRESET" || error.code === "EPIPE");
}

/**
 * Sends the body, with backpressure. Rejects if the body ends in an error; errors of the request are reported by its
 * own events.
 */
async function sendBody(
  body: AsyncIterable<Uint8Array> | null,
  request: http.ClientRequest,
  onProgress: () => void,
): Promise<void> {
  if (body !== null) {
    request.write(new Uint8Array()); // sends the headers now; flushHeaders() would encode them as UTF-8
    for await (const chunk of body) {
      if (request.destroyed) return; // leaving the loop cancels the body
      if (!request.write(chunk)) await drained(request);
      onProgress();
    }
  }
  request.end();
}

/** Statuses without a body (Fetch standard, null body status). `Response` rejects a body for them. */
const NULL_BODY_STATUSES = [204, 304];

const [NO_CONTENT, RESET_CONTENT] = [204, 205];

/** Up to this size, a body that has arrived with the headers is not streamed. */
const MAX_BUFFERED_BYTES = 65_536;

/**
 * Converts the upstream's message to a response with the same status, end-to-end headers and bytes. A 205 becomes a
 * 204, which browsers treat alike: `Deno.serve` sends a 205 without a length, and HTTP/1 clients would wait for its
 * end.
 *
 * A small body that has arrived with the headers is known as a whole; any other is read with backpressure. Cancelling it
 * closes the connection.
 *
 * @param method The method of the request: a response to HEAD has no body, whatever its headers say.
 * @param transfer Ends when the body has been received or cancelled.
 * @param toBrokenBody Returns the error in which the body ends if the connection breaks or the body cannot be decoded.
 * @throws {RangeError} If the status is not between 200 and 599.
 * @throws {TypeError} If a header is invalid.
 */
export function upstreamResponse(
  message: IncomingMessage,
  method: string,
  transfer: Transfer,
  toBrokenBody: (error: unknown) => Error,
): ResponseContent {
  const { statusCode = 0 } = message;
  const status = statusCode === RESET_CONTENT ? NO_CONTENT : statusCode;
  if (status < 200 || status > 599) {
    throw new RangeError(
      `Cannot respond: expected a status of 200 to 599, got ${status}`,
    );
  }
  const headers = endToEndHeaders(message);
  if (status === NO_CONTENT) headers.delete("content-length"); // RFC 9110 §8.6
  message.on("error", () => {}); // the reader of the body gets it; without a listener, it would end the process
  const toDecodingError = (error: unknown) =>
    toBrokenBody(new Error(`Cannot decode the body: ${messageOf(error)}`));
  const hasBody = method !== "HEAD" && !NULL_BODY_STATUSES.includes(status);
  const hasArrived = message.complete &&
    message.readableLength <= MAX_BUFFERED_BYTES;
  if (hasBody && !hasArrived) {
    message.on("close", () => transfer.end()); // also if it breaks while nobody reads it
    const body = transferBody(readerOf(message, toBrokenBody), transfer);
    return { status, headers, body, toDecodingError };
  }
  const body = hasBody ? readBuffered(message) : null;
  message.resume(); // reads the message to its end, so that the connection can be reused
  transfer.end();
  return { status, headers, body, toDecodingError };
}

/**
 * Returns the headers of a message without the hop-by-hop ones. Reads `rawHeaders`, since `message.headers` drops
 * duplicates of some headers.
 *
 * `node:http` decodes the transfer coding `chunked` only. Other codings, such as gzip, become the content coding that
 * was applied last: the formats are the same, and clients decode them.
 *
 * @throws {TypeError} If a header is invalid.
 */
export function endToEndHeaders(
  { rawHeaders }: Pick<IncomingMessage, "rawHeaders">,
): Headers {
  const received = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    received.append(rawHeaders[i]!, rawHeaders[i + 1]!);
  }
  const headers = withoutHopByHop(received);
  for (const coding of parseList(received.get("transfer-encoding"))) {
    if (coding.toLowerCase() === "chunked") continue;
    headers.append("content-encoding", coding);
  }
  return headers;
}

/** Reads what has arrived. */
function readBuffered(message: IncomingMessage): Uint8Array<ArrayBuffer> {
  const chunks: Uint8Array[] = [];
  for (let chunk = message.read(); chunk !== null; chunk = message.read()) {
    chunks.push(chunk);
  }
  return toBytes(concat(chunks));
}

/** Reads what arrives. */
function readerOf(
  message: IncomingMessage,
  toBrokenBody: (error: unknown) => Error,
): BodyReader {
  const chunks = message[Symbol.asyncIterator]();
  let isCancelled = false;
  return {
    async read() {
      try {
        const { done, value } = await chunks.next();
        return done ? { done } : { done: false, value: toBytes(value) };
      } catch (error) {
        throw isCancelled ? error : toBrokenBody(error);
      }
    },
    cancel() {
      isCancelled = true;
      message.destroy();
      return Promise.resolve();
    },
  };
}

/** Returns the bytes of a Buffer as a `Uint8Array`, so that readers of a response's body do not get a Buffer. */
function toBytes(
  { buffer, byteOffset, length }: Uint8Array<ArrayBuffer>,
): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer, byteOffset, length);
}
