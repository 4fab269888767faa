import { drained } from "./drained.ts";
import type { ConnectionInfo } from "./respond.ts";

/** The parts of a request of `node:http` or `node:http2` that {@linkcode toNodeHandler} reads. */
export interface NodeRequest {
  /** The method. */
  readonly method?: string | undefined;
  /** The request target. */
  readonly url?: string | undefined;
  /** The request target where a framework, such as Express, has removed a prefix from `url`. */
  readonly originalUrl?: string | undefined;
  /** The headers by their names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The connection: the address of the peer, and whether it uses TLS. */
  readonly socket: {
    readonly remoteAddress?: string | undefined;
    readonly encrypted?: boolean | undefined;
  };
}

/** The parts of a response of `node:http` or `node:http2` that {@linkcode toNodeHandler} uses. */
export interface NodeResponse {
  /** Sends the head. */
  writeHead(status: number, headers: Record<string, string>): unknown;
  /** Sends a part of the body. Returns whether more may be written before `drain`. */
  write(chunk: Uint8Array): boolean;
  /** Ends the body. */
  end(): unknown;
  /** Adds a listener. */
  on(event: "close" | "drain", listener: () => void): unknown;
  /** Removes a listener. */
  off(event: "close" | "drain", listener: () => void): unknown;
}

/** What a middleware calls for a request that is not its own, or that has failed. */
export type NodeNext = (error?: unknown) => void;

/** A middleware for `node:http`, Connect, Express, and the development servers that take such a function. */
export type NodeHandler = (
  request: NodeRequest,
  response: NodeResponse,
  next?: NodeNext,
) => void;

/** The part of a gateway that {@linkcode toNodeHandler} uses. */
export interface NodeHandlerGateway {
  /** Answers a request if its path is the gateway's own; else `undefined`. */
  handle(
    request: Request,
    info?: ConnectionInfo,
  ): Promise<Response | undefined>;
}

/**
 * Returns a middleware that answers the requests for the gateway's own paths, and leaves all others to the next one,
 * or answers them with 404 if there is none. It uses nothing of Node.js but the two objects that it is called with.
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
export function toNodeHandler(gateway: NodeHandlerGateway): NodeHandler {
  return (
    request,
    response,
    next = (error) => end(response, error === undefined ? 404 : 500),
  ) => {
    const converted = toRequest(request);
    if (converted === undefined) return end(response, 400);
    const closed = new AbortController();
    response.on("close", () => closed.abort()); // now: a client may leave before there is an answer
    handle(gateway, converted, request)
      .then((answer) =>
        answer === undefined ? next() : send(answer, response, closed.signal)
      )
      .catch(next);
  };
}

async function handle(
  gateway: NodeHandlerGateway,
  request: Request,
  { socket }: NodeRequest,
): Promise<Response | undefined> {
  const hostname = socket.remoteAddress;
  if (hostname === undefined) return await gateway.handle(request);
  return await gateway.handle(request, {
    remoteAddr: { transport: "tcp", hostname },
  });
}

/**
 * Converts a request without its body, which no endpoint of the gateway reads. Returns `undefined` if its URL is
 * invalid, or its method one that `Request` does not accept.
 */
function toRequest(
  { method, url, originalUrl, headers, socket }: NodeRequest,
): Request | undefined {
  const host = headers[":authority"] ?? headers["host"] ?? "localhost"; // HTTP/2 has no Host header
  const target = `${socket.encrypted ? "https" : "http"}://${host}${
    originalUrl ?? url ?? "/"
  }`;
  try {
    return new Request(target, {
      ...(method === undefined ? {} : { method }),
      headers: toHeaders(headers),
    });
  } catch {
    return undefined;
  }
}

function toHeaders(headers: NodeRequest["headers"]): [string, string][] {
  return Object.entries(headers)
    .filter(([name, value]) => value !== undefined && !name.startsWith(":"))
    .map(([name, value]) => [name, String(value)]);
}

/** Sends a response with backpressure. A client that disconnects cancels its body. */
async function send(
  { status, headers, body }: Response,
  to: NodeResponse,
  closed: AbortSignal,
): Promise<void> {
  const reader = body?.getReader();
  const cancel = () => reader?.cancel().catch(() => {}); // the body has ended in an error already
  if (closed.aborted) return cancel();
  closed.addEventListener("abort", cancel);
  to.writeHead(status, Object.fromEntries(headers));
  for (
    let read = await reader?.read();
    read?.done === false;
    read = await reader?.read()
  ) {
    if (!to.write(read.value)) await drained(to);
  }
  to.end();
}

function end(response: NodeResponse, status: number): void {
  response.writeHead(status, {});
  response.end();
}
