import http, { type IncomingMessage } from "node:http";
import { drained } from "../../http/node_handler.ts";
import type { Clock } from "../../values/clock.ts";

/** A request to the upstream. */
export interface UpstreamRequestOptions {
  /** Scheme, host and port to connect to. */
  upstream: URL;
  /** The connection pool, for the upstream's scheme. */
  agent: http.Agent;
  method: string;
  /** The request target, in origin form. */
  target: string;
  headers: Headers;
  /** If the headers have a `Content-Length`, the body has to have that length; otherwise it is sent in chunks. */
  body: AsyncIterable<Uint8Array> | null;
  /** Aborts the request. */
  signal: AbortSignal;
  /** How long to wait for the response's headers, in milliseconds since the last byte of the request was sent. */
  timeoutMs: number;
  clock: Clock;
}

/** Maximum size of the response's head, in bytes. `Deno.serve` has the same limit for requests. */
const MAX_HEAD_BYTES = 65_536;

/**
 * Maximum number of interim responses (1xx) before the response. They are not forwarded; an endless sequence would only
 * fill the memory.
 */
const MAX_INTERIM_RESPONSES = 16;

/** Methods whose requests usually have no body: without one, they have no `Content-Length` either (RFC 9110 §8.6). */
const BODILESS_METHODS: ReadonlySet<string> = new Set([
  "GET",
  "HEAD",
  "DELETE",
  "OPTIONS",
]);

const EMPTY = new Uint8Array();

/** A failure on a connection that was reused: the upstream may have closed it for being idle. */
export class StaleConnectionError extends Error {
  override name = "StaleConnectionError";
}

/**
 * Sends a request and waits for the response's headers.
 *
 * It uses `node:http` because `fetch` decompresses the body without adjusting `Content-Encoding` and `Content-Length`.
 *
 * @throws {DOMException} `TimeoutError` if the headers do not arrive in time; `AbortError` if the signal was aborted or
 * the request's body ended in an error.
 * @throws {StaleConnectionError} If a reused connection was closed.
 * @throws {Error} If the upstream cannot be reached or its response is not HTTP.
 */
export async function requestUpstream(
  options: UpstreamRequestOptions,
): Promise<IncomingMessage> {
  const { body, signal, timeoutMs, clock } = options;
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  signal.throwIfAborted();
  const request = openRequest(options);
  const fail = (error: DOMException) => {
    reject(error); // destroy() emits no error before there is a connection
    request.destroy(error);
  };
  const headerTimeout = startHeaderTimeout(
    timeoutMs,
    clock,
    () => fail(timeoutError(timeoutMs)),
  );
  const onAbort = () =>
    fail(abortError("The client disconnected", signal.reason));
  signal.addEventListener("abort", onAbort);
  let isReused = false;
  request.on("socket", () => {
    isReused = request.reusedSocket;
    // Deno's node:http itself retries on a closed connection, a POST included, which a proxy must not do (RFC 9110
    // §9.2.2). Resetting this flag prevents it.
    request.reusedSocket = false;
  });
  let hasResponse = false;
  request.on("response", (message: IncomingMessage) => {
    hasResponse = true;
    resolve(message);
  });
  let interimResponses = 0;
  request.on("information", () => {
    if (++interimResponses <= MAX_INTERIM_RESPONSES) return;
    reject(new Error("Too many interim responses (1xx)")); // now: the response may be in the same chunk
    request.destroy();
  });
  // Not once(): the parser emits some errors twice, and one without a listener would end the process.
  request.on(
    "error",
    (error: Error) => reject(isReused ? toStaleConnectionError(error) : error),
  );
  request.on("close", () => {
    if (!hasResponse) {
      reject(new Error("The connection was closed without a response")); // a stack is expensive
    }
  });
  if (body === null) request.end();
  else {send(body, request, headerTimeout.restart).catch((error) =>
      fail(abortError("The request's body broke off", error))
    );}
  try {
    return await promise;
  } finally {
    headerTimeout.cancel();
    signal.removeEventListener("abort", onAbort);
  }
}

/** Creates a request, whose head is sent with the first bytes of its body. */
function openRequest(options: UpstreamRequestOptions): http.ClientRequest {
  const { upstream, agent, method, target, headers, body } = options;
  const { protocol, hostname, port } = upstream;
  return http.request({
    agent,
    method,
    protocol,
    hostname: hostname.replace(/^\[|\]$/g, ""),
    port,
    path: target,
    headers: [
      ...headerLines(upstream, headers),
      ...framing(method, headers, body),
    ],
    maxHeaderSize: MAX_HEAD_BYTES,
  });
}

/** Returns names and values in turn, which `node:http` sends as they are. */
function headerLines({ host }: URL, headers: Headers): string[] {
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
function framing(
  method: string,
  headers: Headers,
  body: UpstreamRequestOptions["body"],
): string[] {
  if (headers.has("content-length")) return [];
  if (body !== null) return ["transfer-encoding", "chunked"];
  return BODILESS_METHODS.has(method) ? [] : ["content-length", "0"];
}

/**
 * Sends the body, with backpressure. Rejects if the body ends in an error; errors of the request are reported by its
 * own events.
 */
async function send(
  body: AsyncIterable<Uint8Array>,
  request: http.ClientRequest,
  onProgress: () => void,
): Promise<void> {
  request.write(EMPTY); // sends the headers now; flushHeaders() would encode them as UTF-8
  for await (const chunk of body) {
    if (request.destroyed) return; // leaving the loop cancels the body
    if (!request.write(chunk)) await drained(request);
    onProgress();
  }
  request.end();
}

/** Calls `onTimeout` after `ms` milliseconds, counted from the last `restart()`. */
function startHeaderTimeout(ms: number, clock: Clock, onTimeout: () => void) {
  let isCancelled = false;
  let cancelTimer = clock.after(ms, onTimeout);
  return {
    restart() {
      if (isCancelled) return;
      cancelTimer();
      cancelTimer = clock.after(ms, onTimeout);
    },
    cancel() {
      isCancelled = true;
      cancelTimer();
    },
  };
}

function toStaleConnectionError(error: Error): Error {
  const isClosed = "code" in error &&
    (error.code === "ECONNRESET" || error.code === "EPIPE");
  return isClosed
    ? new StaleConnectionError(error.message, { cause: error })
    : error;
}

function timeoutError(timeoutMs: number): DOMException {
  return new DOMException(
    `No response headers within ${timeoutMs} ms`,
    "TimeoutError",
  );
}

function abortError(message: string, cause: unknown): DOMException {
  return Object.assign(new DOMException(message, "AbortError"), { cause });
}
