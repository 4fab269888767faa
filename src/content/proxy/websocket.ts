import { copyHeaders, parseList, TOKEN } from "../../http/headers.ts";
import { Problem } from "../../http/problem.ts";
import type { Clock } from "../../values/clock.ts";
import type { HeldBytes } from "./held_bytes.ts";
import { WebSocketPeer } from "./websocket_peer.ts";

/** Options of {@linkcode proxyWebSocket}. */
interface WebSocketProxyOptions {
  /** Scheme, host and port to connect to. */
  upstream: URL;
  /** The request target, in origin form. */
  target: string;
  /** Headers for the upstream, without hop-by-hop headers. */
  headers: Headers;
  /** How long the upstream's handshake may take, in milliseconds. */
  timeoutMs: number;
  clock: Clock;
  /** Aborts the handshake, or closes both connections. */
  shutdown: AbortSignal;
  /** Called once both connections are closed. */
  onClose: () => void;
  /** Counts the bytes that are waiting in all bridges. */
  allHeldBytes: HeldBytes;
}

/** Headers that `WebSocket` generates. `User-Agent` would be sent twice. */
const HANDSHAKE_HEADER = /^(sec-websocket-.*|user-agent|content-length)$/;

/** Returns whether a request asks for a WebSocket over HTTP/1.1 (RFC 6455 §4.2.1). */
export function isWebSocketRequest({ method, headers }: Request): boolean {
  return method === "GET" &&
    headers.get("upgrade")?.toLowerCase() === "websocket";
}

/**
 * Bridges a WebSocket: connects to the upstream first, then accepts the client with the subprotocol that the upstream
 * selected. Messages, close codes and reasons are forwarded in both directions; if the upstream's connection breaks,
 * the client sees its own connection break. No extensions are negotiated.
 *
 * @param request The object that the server passed to its handler.
 * @returns A response that has to be returned to the server unchanged.
 * @throws {Problem} 400 or 426 if the client's handshake is invalid.
 * @throws {DOMException} `TimeoutError` if the upstream's handshake takes too long, `AbortError` if the client
 * disconnected.
 * @throws {Error} If the upstream cannot be reached, or rejects the handshake.
 */
export async function proxyWebSocket(
  request: Request,
  options: WebSocketProxyOptions,
): Promise<Response> {
  const protocols = checkHandshake(request.headers);
  const upstream = await connect(
    protocols,
    AbortSignal.any([request.signal, options.shutdown]),
    options,
  );
  try {
    const { protocol } = upstream.socket;
    if (protocol !== "" && !protocols.includes(protocol)) {
      throw new Error(
        "The upstream selected a subprotocol that was not offered",
      ); // RFC 6455 §4.1
    }
    const { socket, response } = Deno.upgradeWebSocket(
      request,
      protocol === "" ? {} : { protocol },
    );
    bridge(socket, upstream, options);
    return response;
  } catch (error) {
    upstream.socket.close();
    throw error;
  }
}

/**
 * Rejects a handshake that `Deno.upgradeWebSocket` would not accept, before the upstream is contacted.
 *
 * @returns The subprotocols that the client offers.
 */
function checkHandshake(headers: Headers): string[] {
  if (headers.get("sec-websocket-version") !== "13") {
    const detail =
      "Cannot open the WebSocket: expected version 13 of the protocol"; // RFC 6455 §4.4
    throw new Problem(426, {
      detail,
      headers: { "sec-websocket-version": "13", "upgrade": "websocket" },
    });
  }
  if (
    !parseList(headers.get("connection")).some((option) =>
      option.toLowerCase() === "upgrade"
    )
  ) {
    throw new Problem(400, {
      detail:
        "Cannot open the WebSocket: expected the header Connection: Upgrade",
    });
  }
  if (!headers.has("sec-websocket-key")) {
    throw new Problem(400, {
      detail:
        "Cannot open the WebSocket: expected the header Sec-WebSocket-Key",
    });
  }
  const protocols = parseList(headers.get("sec-websocket-protocol"));
  if (
    new Set(protocols).size < protocols.length ||
    !protocols.every((name) => TOKEN.test(name))
  ) {
    throw new Problem(400, {
      detail:
        "Cannot open the WebSocket: expected subprotocols that are distinct tokens",
    });
  }
  return protocols;
}

interface Connection {
  socket: WebSocket;
  peer: WebSocketPeer;
}

/** Opens the WebSocket to the upstream. */
async function connect(
  protocols: string[],
  signal: AbortSignal,
  options: WebSocketProxyOptions,
): Promise<Connection> {
  const { upstream, target, timeoutMs, clock, allHeldBytes } = options;
  signal.throwIfAborted();
  const headers = copyHeaders(
    options.headers,
    (name) => !HANDSHAKE_HEADER.test(name),
  );
  const { promise, resolve, reject } = Promise.withResolvers<Connection>();
  // Not new URL(target, upstream): a target such as "//elsewhere/" would then select the host.
  const url = `${
    upstream.protocol.replace("http", "ws")
  }//${upstream.host}${target}`;
  const socket = new WebSocket(url, { headers, protocols });
  const peer = new WebSocketPeer(socket, { role: "upstream", allHeldBytes }); // now: messages may arrive early
  const fail = (error: DOMException) => {
    reject(error);
    socket.close();
  };
  const onTimeout = () =>
    fail(
      new DOMException(
        `No WebSocket handshake within ${timeoutMs} ms`,
        "TimeoutError",
      ),
    );
  const onAbort = () =>
    fail(new DOMException("The client disconnected", "AbortError"));
  const cancelTimeout = clock.after(timeoutMs, onTimeout);
  signal.addEventListener("abort", onAbort);
  socket.addEventListener("open", () => resolve({ socket, peer }));
  socket.addEventListener(
    "error",
    (event) => reject(new Error((event as ErrorEvent).message)),
  );
  socket.addEventListener(
    "close",
    () => reject(new Error("The WebSocket was closed during the handshake")),
  );
  try {
    return await promise;
  } finally {
    cancelTimeout();
    signal.removeEventListener("abort", onAbort);
  }
}

/** Connects the client's WebSocket with the upstream's. */
function bridge(
  clientSocket: WebSocket,
  upstream: Connection,
  options: WebSocketProxyOptions,
): void {
  const { shutdown, timeoutMs, clock, allHeldBytes, onClose } = options;
  const client = new WebSocketPeer(clientSocket, {
    role: "client",
    allHeldBytes,
  });
  const peers = [client, upstream.peer];
  client.forwardTo(upstream.peer);
  upstream.peer.forwardTo(client);
  const close = () =>
    peers.forEach((peer) =>
      peer.close(1001, "The gateway has closed the connection")
    );
  shutdown.addEventListener("abort", close);
  const clientClosed = closeOf(clientSocket);
  // Deno reports no event for a client that disconnects just before it is accepted: its WebSocket never opens.
  const cancelTimeout = clock.after(timeoutMs, () => {
    close();
    clientClosed.resolve();
  });
  clientSocket.addEventListener("open", cancelTimeout);
  void Promise.all([clientClosed.promise, closeOf(upstream.socket).promise])
    .then(() => {
      shutdown.removeEventListener("abort", close);
      for (const peer of peers) allHeldBytes.remove(peer);
      onClose();
    });
}

function closeOf(socket: WebSocket): PromiseWithResolvers<void> {
  const closed = Promise.withResolvers<void>();
  if (socket.readyState === WebSocket.CLOSED) closed.resolve(); // the upstream may drop what it has just accepted
  socket.addEventListener("close", () => closed.resolve());
  return closed;
}
