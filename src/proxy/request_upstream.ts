import http, { type IncomingMessage } from "node:http";
import type { Clock } from "../clock.ts";

/** One request to the upstream. */
export interface UpstreamRequestOptions {
  /** Scheme, host and port to connect to. */
  upstream: URL;
  /** The connections that may be used; of the upstream's scheme. */
  agent: http.Agent;
  method: string;
  /** The request target, in origin form. */
  target: string;
  headers: Headers;
  /** With a `Content-Length` among the headers it must be that long; without one it is sent in chunks. */
  body: ReadableStream<Uint8Array> | null;
  /** Gives the request up. */
  signal: AbortSignal;
  /** How long to wait for the response's headers, in milliseconds since the last byte of the request was sent. */
  timeoutMs: number;
  clock: Clock;
}

/** Longest head of a response, in bytes: as much as `Deno.serve` takes of a request's. */
const MAX_HEAD_BYTES = 65_536;

const NOTHING = new Uint8Array();

/** A failure on a connection that had served a request before: it may be the connection's age, and nothing else. */
export class StaleConnectionError extends Error {
  override name = "StaleConnectionError";
}

/**
 * Sends a request and waits for the response's headers.
 *
 * It is `node:http` and not `fetch`, since `fetch` decompresses the body and leaves `Content-Encoding` and
 * `Content-Length` as they were.
 *
 * @throws {DOMException} `TimeoutError` if there are no headers in time; `AbortError` if the request was given up, by the
 * signal or because its body broke off.
 * @throws {StaleConnectionError} If a kept connection turned out to be closed.
 * @throws {Error} If the upstream cannot be reached or what it answers is not HTTP.
 */
export async function requestUpstream(options: UpstreamRequestOptions): Promise<IncomingMessage> {
  const { body, signal, timeoutMs, clock } = options;
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  signal.throwIfAborted();
  const request = openRequest(options);
  const giveUp = (error: DOMException) => {
    reject(error); // destroy() says nothing as long as there is no connection
    request.destroy(error);
  };
  const headerTimeout = startHeaderTimeout(timeoutMs, clock, () => giveUp(tooLate(timeoutMs)));
  const onAbort = () => giveUp(givenUp("The client is gone", signal.reason));
  signal.addEventListener("abort", onAbort);
  let isReused = false;
  request.on("socket", () => {
    isReused = request.reusedSocket;
    // Deno's node:http would ask again by itself where a kept connection is closed, and a POST, too, which a proxy must
    // not do (RFC 9110 §9.2.2): only this flag keeps it from that.
    request.reusedSocket = false;
  });
  request.on("response", resolve);
  // Not once(): the parser reports some issues twice, and an error that nobody listens to ends the process.
  request.on("error", (error: Error) => reject(isReused ? staleOr(error) : error));
  request.on("close", () => reject(new Error("The connection was closed without a response")));
  send(body, request, headerTimeout.renew).catch((error) => giveUp(givenUp("The request's body broke off", error)));
  try {
    return await promise;
  } finally {
    headerTimeout.end();
    signal.removeEventListener("abort", onAbort);
  }
}

function openRequest({ upstream, agent, method, target, headers, body }: UpstreamRequestOptions): http.ClientRequest {
  const { protocol, hostname, port, host } = upstream;
  const isChunked = body !== null && !headers.has("content-length");
  return http.request({
    agent,
    method,
    protocol,
    hostname: hostname.replace(/^\[|\]$/g, ""),
    port,
    path: target,
    // Said here, since node:http sends the body of a GET or a DELETE without any framing (RFC 9112 §6.1).
    headers: { host, ...Object.fromEntries(headers), ...(isChunked && { "transfer-encoding": "chunked" }) },
    maxHeaderSize: MAX_HEAD_BYTES,
  });
}

/** Sends the body as fast as the upstream takes it. Rejects if the body breaks off; the request has its own errors. */
async function send(
  body: ReadableStream<Uint8Array> | null,
  request: http.ClientRequest,
  onProgress: () => void,
): Promise<void> {
  if (body === null) return void request.end();
  request.write(NOTHING); // sends the headers at once; flushHeaders() would send them in UTF-8
  for await (const chunk of body) {
    if (request.destroyed) return; // leaving the loop cancels the body
    if (!request.write(chunk)) await drained(request);
    onProgress();
  }
  request.end();
}

/** Waits until there is room again, or nothing to write to any more. */
function drained(request: http.ClientRequest): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const events = ["drain", "close"] as const;
  for (const event of events) request.on(event, resolve);
  return promise.finally(() => events.forEach((event) => request.off(event, resolve)));
}

/** Counts down to `onEnd`, from the beginning again with every `renew()`. */
function startHeaderTimeout(ms: number, clock: Clock, onEnd: () => void) {
  let isOver = false;
  let cancel = clock.after(ms, onEnd);
  return {
    renew() {
      if (isOver) return;
      cancel();
      cancel = clock.after(ms, onEnd);
    },
    end() {
      isOver = true;
      cancel();
    },
  };
}

function staleOr(error: Error): Error {
  const isClosed = "code" in error && (error.code === "ECONNRESET" || error.code === "EPIPE");
  return isClosed ? new StaleConnectionError(error.message, { cause: error }) : error;
}

function tooLate(timeoutMs: number): DOMException {
  return new DOMException(`No response headers within ${timeoutMs} ms`, "TimeoutError");
}

function givenUp(message: string, cause: unknown): DOMException {
  return Object.assign(new DOMException(message, "AbortError"), { cause });
}
