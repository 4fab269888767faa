import http, { type IncomingMessage } from "node:http";
import { drained } from "../../http/node_handler.ts";
import type { Clock } from "../../values/clock.ts";
import { TlsAgent } from "./tls_agent.ts";

/** A request as the upstream receives it. */
export interface UpstreamRequest {
  readonly method: string;
  /** The request target, in origin form. */
  readonly target: string;
  readonly headers: Headers;
  /** If the headers have a `Content-Length`, the body has to have that length; otherwise it is sent in chunks. */
  readonly body: AsyncIterable<Uint8Array> | null;
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
  readonly #url: URL;
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
    this.#url = url;
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
    { method, target, headers, body, signal }: UpstreamRequest,
  ): Promise<IncomingMessage> {
    signal.throwIfAborted();
    const { protocol, hostname, port, host } = this.#url;
    const request = http.request({
      agent,
      method,
      protocol,
      hostname: hostname.replace(/^\[|\]$/g, ""),
      port,
      path: target,
      headers: [
        ...headerLines(headers, host),
        ...framing(method, headers, body !== null),
      ],
      maxHeaderSize: MAX_HEAD_BYTES,
    });
    // A request that has no connection yet emits no error when it is destroyed, so that its failure is a promise.
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
    sendBody(body, request, onProgress).catch((error) => {
      fail("AbortError", "The request's body broke off", error);
    });
    try {
      return await Promise.race([response, failure.promise]);
    } finally {
      isWaiting = false;
      cancelTimer();
      signal.removeEventListener("abort", onAbort);
    }
  }
}

/** Returns names and values in turn, which `node:http` sends as they are. */
function headerLines(headers: Headers, host: string): string[] {
  const lines = ["host", headers.get("host") ?? host];
  headers.forEach((value, name) => { // not Object.fromEntries(), which sorts all headers for each of them
    if (name !== "host") lines.push(name, value);
  });
  return lines;
}

/**
 * Returns the header that says how long the body is, if `Content-Length` does not (RFC 9112 §6.1). `node:http` would
 * send the body of a GET or a DELETE without any, and announce one for a POST without a body.
 */
function framing(method: string, headers: Headers, hasBody: boolean): string[] {
  if (headers.has("content-length")) return [];
  if (hasBody) return ["transfer-encoding", "chunked"];
  return BODILESS_METHODS.includes(method) ? [] : ["content-length", "0"];
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
    reject(new Error("Too many interim responses (1xx)")); // now: the response may be in the same chunk
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
