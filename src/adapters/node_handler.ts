import { type Clock, every, systemClock } from "../core/values/clock.ts";
import type { ConnectionInfo } from "../core/http/respond.ts";

/** The parts of a request of `node:http` or `node:http2` that {@linkcode toNodeHandler} uses. */
export interface NodeRequest {
  /** The method. */
  readonly method?: string | undefined;
  /** The request target. */
  readonly url?: string | undefined;
  /** The complete request target, if a framework such as Express removed a prefix from `url`. */
  readonly originalUrl?: string | undefined;
  /** The headers by their names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The connection: the address of the peer, whether it uses TLS, and the server that accepted it. */
  readonly socket: {
    readonly remoteAddress?: string | undefined;
    readonly encrypted?: boolean | undefined;
    readonly server?: NodeServer | undefined;
  };
  /** Reads the body. @default {there is none} */
  readonly [Symbol.asyncIterator]?: () => AsyncIterator<Uint8Array>;
}

/** The parts of a server of `node:http` that {@linkcode toNodeHandler} uses. */
export interface NodeServer {
  /** Whether it has not been closed. */
  readonly listening: boolean;
  /** Closes the connections without a request in progress. */
  closeIdleConnections?(): void;
}

/** The parts of a response of `node:http` or `node:http2` that {@linkcode toNodeHandler} uses. */
export interface NodeResponse {
  /** Sends the head. */
  writeHead(
    status: number,
    headers: Record<string, string | string[]>,
  ): unknown;
  /** Sends a part of the body. Returns whether more may be written before `drain`. */
  write(chunk: Uint8Array): boolean;
  /** Ends the body. */
  end(): unknown;
  /** Whether the head has been sent. */
  readonly headersSent?: boolean;
  /** Closes the connection, so that the client notices that the body is incomplete. */
  destroy?(): unknown;
  /** Adds a listener. */
  on(event: "close" | "drain", listener: () => void): unknown;
  /** Removes a listener. */
  off(event: "close" | "drain", listener: () => void): unknown;
}

/** Passes a request on to the next middleware, or an error to the framework. */
export type NodeNext = (error?: unknown) => void;

/** A middleware for `node:http`, Connect, Express, and development servers that accept such a function. */
export type NodeHandler = (
  request: NodeRequest,
  response: NodeResponse,
  next?: NodeNext,
) => void;

/** The part of a gateway that {@linkcode toNodeHandler} uses. */
export interface NodeHandlerGateway {
  /** Answers a request if its path is the gateway's own; otherwise returns `undefined`. */
  handle(
    request: Request,
    info?: ConnectionInfo,
  ): Promise<Response | undefined>;
  /** Calls back. Everything that the callback renders gets the values of the same moment. */
  run?<Result>(callback: () => Result): Result;
}

/** Options of {@linkcode toNodeHandler}. */
export interface NodeHandlerOptions {
  /** Measures the time between two checks of the server. @default {the time of the system} */
  clock?: Clock;
}

/**
 * Returns a middleware that answers requests for the gateway's own paths and passes all others to the next middleware,
 * or answers them with 404 if there is none. What the next middleware renders contains the values of the page's
 * configuration; see `run()` of a gateway. The middleware uses nothing of Node.js except its arguments.
 *
 * Closing the server waits for every response, so the streams of changes end within a second after it was closed.
 *
 * @example
 * ```ts ignore
 * import { createGateway, toNodeHandler } from "@rep/gateway";
 * import express from "express";
 *
 * const gateway = await createGateway({ variables: { REP_PUBLIC_THEME: "dark" } });
 * express().use(toNodeHandler(gateway)).listen(3000);
 * ```
 */
export function toNodeHandler(
  gateway: NodeHandlerGateway,
  { clock = systemClock }: NodeHandlerOptions = {},
): NodeHandler {
  return async (request, response, next) => {
    try {
      const isAnswered = await answer(gateway, request, response, clock);
      if (isAnswered) return;
    } catch (error) {
      if (next !== undefined) return next(error);
      if (response.headersSent) return void response.destroy?.();
      return end(response, 500);
    }
    if (next === undefined) return end(response, 404);
    if (gateway.run === undefined) return next();
    gateway.run(() => next());
  };
}

/*
 * No library converts requests and responses: tried in place of `toRequest()` and `send()`, srvx 1.0.8 fails 5 of 12
 * tests, and @hono/node-server 2.1.9 fails 7. The rest of a body that is not read blocks its connection or closes it,
 * streams outlive a closed server, an invalid host is 500, and the prefix that Express removed is missing. Each needs
 * code again, and packages of 43 KB that load `node:http2`.
 */

/** Returns whether the request was for one of the gateway's own paths. */
async function answer(
  gateway: NodeHandlerGateway,
  nodeRequest: NodeRequest,
  nodeResponse: NodeResponse,
  clock: Clock,
): Promise<boolean> {
  const closed = new AbortController();
  nodeResponse.on("close", () => closed.abort()); // the client may disconnect before there is a response
  const request = toRequest(nodeRequest);
  if (request === undefined) {
    end(nodeResponse, 400);
    return true;
  }
  const info = connectionInfo(nodeRequest);
  const response = await gateway.handle(request, info);
  if (response === undefined) return false;
  const { server } = nodeRequest.socket;
  const type = response.headers.get("content-type");
  if (type === "text/event-stream" && server !== undefined) {
    endWithServer(server, nodeResponse, closed, clock);
  }
  await send(response, nodeResponse, closed.signal);
  return true;
}

/** How often a stream checks whether its server was closed. Node.js has no event for that. */
const LOOK_MS = 500;

/** Ends a stream after the server was closed, and its connection, which would otherwise wait for the next request. */
function endWithServer(
  server: NodeServer,
  response: NodeResponse,
  closed: AbortController,
  clock: Clock,
): void {
  if (closed.signal.aborted) return;
  const look = () => {
    if (server.listening) return;
    response.on("close", () => server.closeIdleConnections?.());
    closed.abort();
  };
  const stop = every(LOOK_MS, look, { clock, onError() {} });
  closed.signal.addEventListener("abort", stop);
}

function connectionInfo({ socket }: NodeRequest): ConnectionInfo | undefined {
  const hostname = socket.remoteAddress;
  if (hostname === undefined) return undefined;
  return { remoteAddr: { transport: "tcp", hostname } };
}

/**
 * Converts a request. It does not read the body, which the next handler needs if the path is not one of the gateway's.
 *
 * @returns `undefined` if the URL is invalid, or `Request` does not accept the method.
 */
export function toRequest(request: NodeRequest): Request | undefined {
  const { method = "GET", url = "/", originalUrl = url } = request;
  const scheme = request.socket.encrypted ? "https" : "http";
  const authority = request.headers[":authority"]; // HTTP/2 has no Host header
  const host = authority ?? request.headers["host"] ?? "localhost";
  const headers = toHeaders(request.headers);
  try {
    const target = `${scheme}://${host}${originalUrl}`;
    const init = { method, headers, ...bodyOf(request) };
    return new Request(target, init);
  } catch {
    return undefined;
  }
}

/** Returns the body of a POST. The gateway reads no other bodies. */
function bodyOf(request: NodeRequest): RequestInit & { duplex?: "half" } {
  if (request.method !== "POST") return {};
  const chunks = request[Symbol.asyncIterator]?.();
  return chunks === undefined ? {} : { body: readBody(chunks), duplex: "half" };
}

/**
 * Returns a body of which nothing is read until the gateway does. When the gateway stops reading, the rest is read and
 * ignored: otherwise Node.js would destroy the request, or wait, and there would be no next request on the connection.
 */
function readBody(chunks: AsyncIterator<Uint8Array>): ReadableStream {
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await chunks.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: () => void drain(chunks),
  }, { highWaterMark: 0 });
}

/** Never rejects. */
async function drain(chunks: AsyncIterator<Uint8Array>): Promise<void> {
  try {
    while (!(await chunks.next()).done);
  } catch {
    // the client disconnected
  }
}

function toHeaders(nodeHeaders: NodeRequest["headers"]): [string, string][] {
  const headers: [string, string][] = [];
  for (const [name, value] of Object.entries(nodeHeaders)) {
    const isPseudoHeader = name.startsWith(":");
    if (value === undefined || isPseudoHeader) continue;
    headers.push([name, String(value)]);
  }
  return headers;
}

/** Sends a response with backpressure. A client that disconnects cancels its body. */
export async function send(
  { status, headers, body }: Response,
  to: NodeResponse,
  closed: AbortSignal,
): Promise<void> {
  to.writeHead(status, toNodeHeaders(headers));
  const sink = new WritableStream<Uint8Array>({
    async write(chunk) {
      if (!to.write(chunk)) await drained(to);
    },
  });
  try {
    await body?.pipeTo(sink, { signal: closed });
  } catch (error) {
    if (!closed.aborted) throw error;
  }
  to.end();
}

/** Each `Set-Cookie` is a header of its own. */
function toNodeHeaders(headers: Headers): Record<string, string | string[]> {
  const cookies = headers.getSetCookie();
  const nodeHeaders = Object.fromEntries(headers);
  return cookies.length === 0
    ? nodeHeaders
    : { ...nodeHeaders, "set-cookie": cookies };
}

function end(response: NodeResponse, status: number): void {
  response.writeHead(status, {});
  response.end();
}

/** Waits until more can be written to a stream, or the stream is closed. */
export async function drained(
  stream: Pick<NodeResponse, "on" | "off">,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  stream.on("drain", resolve);
  stream.on("close", resolve);
  await promise;
  stream.off("drain", resolve);
  stream.off("close", resolve);
}
