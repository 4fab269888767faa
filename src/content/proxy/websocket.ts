import { copyHeaders, parseList, TOKEN } from "../../core/http/headers.ts";
import { Problem } from "../../core/http/problem.ts";
import { type Clock, waitAtMost } from "../../core/values/clock.ts";

/** Options of {@linkcode proxyWebSocket}. */
interface WebSocketProxyOptions {
  /** Scheme, host and port to connect to. */
  readonly upstream: URL;
  /** The request target, in origin form. */
  readonly target: string;
  /** Headers for the upstream, without hop-by-hop headers. */
  readonly headers: Headers;
  /** How long the upstream's handshake may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** Aborts the handshake, or closes both connections. */
  readonly shutdown: AbortSignal;
  /** Called when both connections are closed, or hold nothing and take longer than {@linkcode MAX_CLOSING_MS} to close. */
  readonly onClose: () => void;
}

/** Returns whether a request asks for a WebSocket over HTTP/1.1 (RFC 6455 §4.2.1). */
export function isWebSocketRequest({ method, headers }: Request): boolean {
  return method === "GET" &&
    headers.get("upgrade")?.toLowerCase() === "websocket";
}

/**
 * Bridges a WebSocket. It connects to the upstream first, and then accepts the client with the subprotocol that the
 * upstream selected. It forwards messages, close codes and reasons in both directions. If the upstream's connection
 * breaks, the client sees its own connection break. It negotiates no extensions.
 *
 * @param request The object that the server passed to its handler.
 * @returns A response that the caller has to return to the server unchanged.
 * @throws {Problem} 400 if the client's handshake is invalid.
 * @throws {DOMException} `TimeoutError` if the upstream's handshake takes too long, `AbortError` if the client
 * disconnected.
 * @throws {Error} If the upstream cannot be reached, or rejects the handshake.
 */
export async function proxyWebSocket(
  request: Request,
  options: WebSocketProxyOptions,
): Promise<Response> {
  const protocols = checkHandshake(request.headers);
  const signal = AbortSignal.any([request.signal, options.shutdown]);
  signal.throwIfAborted();
  const upstream = openUpstream(protocols, options);
  await waitUntilOpen(upstream, signal, options);
  try {
    const { protocol } = upstream.socket;
    if (protocol !== "" && !protocols.includes(protocol)) {
      throw new Error(
        "The upstream selected a subprotocol that nobody offered",
      );
    }
    const { socket, response } = Deno.upgradeWebSocket(request);
    // Its option `protocol` accepts only lists with a space after each comma.
    if (protocol) response.headers.set("sec-websocket-protocol", protocol);
    const client = new WebSocketPeer(socket, "client");
    bridge(client, upstream, options);
    return response;
  } catch (error) {
    upstream.socket.close();
    throw error;
  }
}

/**
 * Rejects a handshake that `Deno.upgradeWebSocket` would not accept, before the gateway contacts the upstream.
 *
 * @returns The subprotocols that the client offers.
 */
function checkHandshake(headers: Headers): string[] {
  const connection = parseList(headers.get("connection")?.toLowerCase() ?? "");
  const protocols = parseList(headers.get("sec-websocket-protocol"));
  const areDistinct = new Set(protocols).size === protocols.length;
  const isValid = connection.includes("upgrade") &&
    headers.get("sec-websocket-version") === "13" &&
    headers.has("sec-websocket-key") &&
    areDistinct && protocols.every((name) => TOKEN.test(name));
  if (isValid) return protocols;
  throw new Problem(400, {
    detail:
      "Cannot open the WebSocket: expected a handshake of version 13 (RFC 6455)",
    headers: { "sec-websocket-version": "13" }, // RFC 6455 §4.4
  });
}

/** Headers that `WebSocket` generates itself. It would send `User-Agent` twice. */
const HANDSHAKE_HEADER = /^(sec-websocket-.*|user-agent|content-length)$/;

/** Begins the handshake with the upstream. */
function openUpstream(
  protocols: string[],
  options: WebSocketProxyOptions,
): WebSocketPeer {
  const { upstream, target } = options;
  const headers = copyHeaders(
    options.headers,
    (name) => !HANDSHAKE_HEADER.test(name),
  );
  const scheme = upstream.protocol.replace("http", "ws");
  // Not new URL(target, upstream): a target such as "//elsewhere/" would then select the host.
  const url = `${scheme}//${upstream.host}${target}`;
  const socket = new WebSocket(url, { headers, protocols });
  return new WebSocketPeer(socket, "upstream");
}

async function waitUntilOpen(
  { socket }: WebSocketPeer,
  signal: AbortSignal,
  { timeoutMs, clock }: WebSocketProxyOptions,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  function fail(name: string, message: string): void {
    reject(new DOMException(message, name));
    socket.close();
  }
  function onAbort(): void {
    fail("AbortError", "The client disconnected");
  }
  const cancelTimeout = clock.after(timeoutMs, () => {
    fail("TimeoutError", `No WebSocket handshake within ${timeoutMs} ms`);
  });
  signal.addEventListener("abort", onAbort);
  socket.addEventListener("open", () => resolve());
  socket.addEventListener("error", (event) => {
    reject(new Error((event as ErrorEvent).message));
  });
  socket.addEventListener("close", () => {
    reject(new Error("The WebSocket was closed during the handshake"));
  });
  try {
    await promise;
  } finally {
    cancelTimeout();
    signal.removeEventListener("abort", onAbort);
  }
}

/**
 * How long closing a bridge may take. A peer may never answer a close frame, and Deno cannot drop its connection. The
 * connection then stays open, like other silent connections. It counts as a transfer until it is closed only if it holds
 * unsent messages.
 */
const MAX_CLOSING_MS = 5_000;

/** Connects the client's WebSocket with the upstream's, until both are closed. */
function bridge(
  client: WebSocketPeer,
  upstream: WebSocketPeer,
  options: WebSocketProxyOptions,
): void {
  const { shutdown, timeoutMs, clock, onClose } = options;
  const peers = [client, upstream];
  client.forwardTo(upstream);
  function close(): void {
    for (const peer of peers) {
      peer.close(1001, "The gateway has closed the connection");
    }
  }
  shutdown.addEventListener("abort", close);
  // If a client disconnects just before it is accepted, its WebSocket never opens, and Deno reports no event.
  const cancelTimeout = clock.after(timeoutMs, () => {
    close();
    client.closed.resolve();
  });
  client.socket.addEventListener("open", () => {
    cancelTimeout();
    upstream.forwardTo(client);
  });
  void waitUntilClosed(peers, clock).then(() => {
    shutdown.removeEventListener("abort", close);
    onClose();
  });
}

async function waitUntilClosed(
  peers: readonly WebSocketPeer[],
  clock: Clock,
): Promise<void> {
  await Promise.race(peers.map(({ closing }) => closing.promise));
  const closed = Promise.all(peers.map(({ closed }) => closed.promise));
  await waitAtMost(MAX_CLOSING_MS, closed, clock);
  const holding = peers.filter(({ holdsAtClose }) => holdsAtClose);
  await Promise.all(holding.map(({ closed }) => closed.promise));
}

/** A message of a WebSocket whose `binaryType` is "arraybuffer". */
type Message = string | ArrayBuffer;

/** Forwards a message or a close to the other peer. */
type PendingAction = (other: WebSocketPeer) => void;

/**
 * How many bytes may wait for a peer to read when another message is sent to it. `WebSocket` has no backpressure, so
 * without this limit, peers that do not read would exhaust the memory. All peers together may hold this for each of
 * `--max-transfers`.
 */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;

/**
 * One of the two WebSockets of a bridge. It listens as soon as it is constructed, and keeps what it receives until
 * {@linkcode WebSocketPeer.forwardTo} names the other peer, which is open. It drops what is sent to it after it has closed.
 */
export class WebSocketPeer {
  readonly socket: WebSocket;
  /** Resolved when it begins to close. */
  readonly closing = Promise.withResolvers<void>();
  /** Resolved when it is closed. */
  readonly closed = Promise.withResolvers<void>();
  /** Whether bytes were waiting to be sent when it began to close. Deno keeps them until it is closed. */
  holdsAtClose = false;
  readonly #role: "client" | "upstream";
  readonly #received: PendingAction[] = [];
  #receivedBytes = 0;
  #other: WebSocketPeer | undefined;

  constructor(socket: WebSocket, role: "client" | "upstream") {
    this.socket = socket;
    this.#role = role;
    socket.binaryType = "arraybuffer"; // reading a Blob is asynchronous, which would change the order
    socket.addEventListener("message", ({ data }: MessageEvent<Message>) => {
      this.#receive(data);
    });
    socket.addEventListener("close", ({ code, reason, wasClean }) => {
      this.closing.resolve();
      this.closed.resolve();
      this.#forward((other) => {
        if (wasClean) other.close(code, reason);
        else other.fail();
      });
    });
  }

  /** Forwards everything that this peer has received and will receive to another peer. */
  forwardTo(other: WebSocketPeer): void {
    this.#other = other;
    this.#receivedBytes = 0;
    for (const action of this.#received.splice(0)) action(other);
  }

  /** Sends a message. Instead, it closes both peers if too many bytes are waiting to be sent. */
  send(message: Message): void {
    const { readyState, bufferedAmount } = this.socket;
    if (bufferedAmount > MAX_WAITING_BYTES) return this.#closeBoth();
    if (readyState === WebSocket.OPEN) this.socket.send(message);
  }

  /** Closes the WebSocket with the code and the reason of the other peer, or of the gateway. */
  close(code: number, reason: string): void {
    this.#close(() => {
      if (code === 1005) this.socket.close(); // there is no reason without a code (RFC 6455 §5.5.1)
      else this.socket.close(allowedCode(code), reason);
    });
  }

  /**
   * Closes the WebSocket because the connection of the other peer broke.
   *
   * A browser must not see a clean close, after which some clients, such as Vite's, do not reconnect. Deno cannot drop a
   * connection. But it sends a reason without a code as the whole body of the close frame, and a body of one byte is
   * invalid (RFC 6455 §5.5.1). So the receiver fails the connection, and browsers report 1006 and `wasClean: false`.
   * Servers get a valid close instead, since some exit on an invalid frame.
   */
  fail(): void {
    if (this.#role === "upstream") return this.close(1006, "");
    this.#close(() => this.socket.close(undefined, "!"));
  }

  #close(action: () => void): void {
    this.closing.resolve();
    if (this.socket.readyState !== WebSocket.OPEN) return;
    this.holdsAtClose = this.socket.bufferedAmount > 0;
    action();
  }

  #closeBoth(): void {
    for (const peer of [this, this.#other]) {
      peer?.close(1013, "A peer reads too slowly");
    }
  }

  #receive(message: Message): void {
    if (this.#receivedBytes > MAX_WAITING_BYTES) return this.#closeBoth();
    if (this.#other === undefined) {
      this.#receivedBytes += typeof message === "string"
        ? message.length
        : message.byteLength;
    }
    this.#forward((other) => other.send(message));
  }

  #forward(action: PendingAction): void {
    if (this.#other === undefined) this.#received.push(action);
    else action(this.#other);
  }
}

/**
 * Returns a close code that `WebSocket.close()` accepts: 1000, or 3000 to 4999. A code of the protocol itself, such as
 * 1001 (going away) or 1011 (internal error), becomes 49 followed by its last two digits. It must not become 1000, because
 * clients do not reconnect after a normal closure.
 *
 * @param code For a broken connection, Deno reports 0 and browsers report 1006.
 */
export function allowedCode(code: number): number {
  if (code === 1000 || (code >= 3000 && code <= 4999)) return code;
  return code > 1000 && code < 1100 ? 3900 + code : 4906;
}
