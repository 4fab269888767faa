import type { Clock } from "../clock.ts";
import { Problem } from "../http/problem.ts";
import { WebSocketPeer } from "./websocket_peer.ts";

/** What {@linkcode proxyWebSocket} needs beside the client's request. */
export interface WebSocketProxyOptions {
  /** Scheme, host and port to connect to. */
  upstream: URL;
  /** The request target, in origin form. */
  target: string;
  /** What the upstream gets to see, without what belongs to the client's connection. */
  headers: Headers;
  /** How long the upstream's handshake may take, in milliseconds. */
  timeoutMs: number;
  clock: Clock;
  /** Ends the bridge, whatever it is doing. */
  shutdown: AbortSignal;
}

/** A subprotocol's name (RFC 6455 §4.1). */
const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/;

/** What `WebSocket` makes itself for its handshake; `User-Agent` would go out twice. */
const OF_THE_HANDSHAKE = /^(sec-websocket-.*|user-agent|content-length)$/;

/** Answers whether a request wants to become a WebSocket over HTTP/1.1 (RFC 6455 §4.2.1). */
export function isWebSocketRequest({ method, headers }: Request): boolean {
  return method === "GET" && headers.get("upgrade")?.toLowerCase() === "websocket";
}

/**
 * Bridges a WebSocket: connects to the upstream first, then accepts the client with the subprotocol that the upstream
 * chose. Messages, close codes and reasons pass both ways; extensions are negotiated with neither side.
 *
 * @param request The object that `Deno.serve` gave.
 * @returns A response that must go back to `Deno.serve` untouched.
 * @throws {Problem} 400 or 426 if the client's handshake is none.
 * @throws {DOMException} `TimeoutError` if the upstream takes too long; `AbortError` if the client left meanwhile.
 * @throws {Error} If the upstream cannot be reached, or refuses.
 */
export async function proxyWebSocket(request: Request, options: WebSocketProxyOptions): Promise<Response> {
  const protocols = checkHandshake(request.headers);
  const upstream = await dial(protocols, AbortSignal.any([request.signal, options.shutdown]), options);
  try {
    const { protocol } = upstream.socket;
    if (protocol !== "" && !protocols.includes(protocol)) {
      throw new Error("The upstream chose a subprotocol that was not offered"); // RFC 6455 §4.1
    }
    const { socket, response } = Deno.upgradeWebSocket(request, protocol === "" ? {} : { protocol });
    bridge(socket, upstream, options);
    return response;
  } catch (error) {
    upstream.socket.close();
    throw error;
  }
}

/** Refuses what `Deno.upgradeWebSocket` cannot accept before the upstream is asked; gives the subprotocols offered. */
function checkHandshake(headers: Headers): string[] {
  if (headers.get("sec-websocket-version") !== "13") {
    const detail = "Cannot open the WebSocket: expected version 13 of the protocol"; // RFC 6455 §4.4
    throw new Problem(426, { detail, headers: { "sec-websocket-version": "13", "upgrade": "websocket" } });
  }
  if (!listed(headers.get("connection")).some((option) => option.toLowerCase() === "upgrade")) {
    throw new Problem(400, { detail: "Cannot open the WebSocket: expected the header Connection: Upgrade" });
  }
  if (!headers.has("sec-websocket-key")) {
    throw new Problem(400, { detail: "Cannot open the WebSocket: expected the header Sec-WebSocket-Key" });
  }
  const protocols = listed(headers.get("sec-websocket-protocol"));
  if (new Set(protocols).size < protocols.length || !protocols.every((name) => TOKEN.test(name))) {
    throw new Problem(400, { detail: "Cannot open the WebSocket: expected subprotocols that are tokens and differ" });
  }
  return protocols;
}

function listed(header: string | null): string[] {
  return (header ?? "").split(",").map((item) => item.trim()).filter((item) => item !== "");
}

interface Dialed {
  socket: WebSocket;
  peer: WebSocketPeer;
}

/** Opens the WebSocket to the upstream. */
async function dial(protocols: string[], signal: AbortSignal, options: WebSocketProxyOptions): Promise<Dialed> {
  const { upstream, target, timeoutMs, clock } = options;
  signal.throwIfAborted();
  const headers = new Headers([...options.headers].filter(([name]) => !OF_THE_HANDSHAKE.test(name)));
  const { promise, resolve, reject } = Promise.withResolvers<Dialed>();
  // Not by new URL(target, upstream): a target such as "//elsewhere/" would then choose the host.
  const url = `${upstream.protocol.replace("http", "ws")}//${upstream.host}${target}`;
  const socket = new WebSocket(url, { headers, protocols });
  const peer = new WebSocketPeer(socket); // at once: messages may come before whoever awaits this goes on
  const fail = (error: DOMException) => {
    reject(error);
    socket.close();
  };
  const tooLate = () => fail(new DOMException(`No WebSocket handshake within ${timeoutMs} ms`, "TimeoutError"));
  const giveUp = () => fail(new DOMException("The client is gone", "AbortError"));
  const cancel = clock.after(timeoutMs, tooLate);
  signal.addEventListener("abort", giveUp);
  socket.addEventListener("open", () => resolve({ socket, peer }));
  socket.addEventListener("error", (event) => reject(new Error((event as ErrorEvent).message)));
  socket.addEventListener("close", () => reject(new Error("The WebSocket was closed during the handshake")));
  try {
    return await promise;
  } finally {
    cancel();
    signal.removeEventListener("abort", giveUp);
  }
}

/** Ties the client to the upstream. */
function bridge(
  clientSocket: WebSocket,
  upstream: Dialed,
  { shutdown, timeoutMs, clock }: WebSocketProxyOptions,
): void {
  const client = new WebSocketPeer(clientSocket);
  client.forwardTo(upstream.peer);
  upstream.peer.forwardTo(client);
  const end = () =>
    [client, upstream.peer].forEach((side) => side.close(1001, "The gateway has closed the connection"));
  // A client that leaves just before it is accepted causes no event at all: only that it never opens.
  clientSocket.addEventListener("open", clock.after(timeoutMs, end));
  shutdown.addEventListener("abort", end);
  upstream.socket.addEventListener("close", () => shutdown.removeEventListener("abort", end));
}
