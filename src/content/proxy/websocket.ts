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
  /** Called when both connections are closed, or {@linkcode MAX_CLOSING_MS} after one of them began to close. */
  readonly onClose: () => void;
  /** Counts the bytes that wait to be sent in all bridges. */
  readonly allHeldBytes: HeldBytes;
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
  const signal = AbortSignal.any([request.signal, options.shutdown]);
  signal.throwIfAborted();
  const upstream = openUpstream(protocols, options);
  await waitUntilOpen(upstream, signal, options);
  try {
    const { protocol } = upstream.socket;
    if (protocol !== "" && !protocols.includes(protocol)) { // RFC 6455 §4.1
      throw new Error(
        "The upstream selected a subprotocol that was not offered",
      );
    }
    const init = protocol === "" ? {} : { protocol };
    const { socket, response } = Deno.upgradeWebSocket(request, init);
    const client = new WebSocketPeer(socket, "client", options.allHeldBytes);
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
  if (headers.get("sec-websocket-version") !== "13") { // RFC 6455 §4.4
    throw new Problem(426, {
      detail: "Cannot open the WebSocket: expected version 13 of the protocol",
      headers: { "sec-websocket-version": "13", "upgrade": "websocket" },
    });
  }
  const connection = parseList(headers.get("connection")?.toLowerCase() ?? "");
  if (!connection.includes("upgrade")) {
    throw invalidHandshake("the header Connection: Upgrade");
  }
  if (!headers.has("sec-websocket-key")) {
    throw invalidHandshake("the header Sec-WebSocket-Key");
  }
  const protocols = parseList(headers.get("sec-websocket-protocol"));
  const areDistinct = new Set(protocols).size === protocols.length;
  if (!areDistinct || !protocols.every((name) => TOKEN.test(name))) {
    throw invalidHandshake("subprotocols that are distinct tokens");
  }
  return protocols;
}

function invalidHandshake(expected: string): Problem {
  return new Problem(400, {
    detail: `Cannot open the WebSocket: expected ${expected}`,
  });
}

/** Headers that `WebSocket` generates itself. It would send `User-Agent` twice. */
const HANDSHAKE_HEADER = /^(sec-websocket-.*|user-agent|content-length)$/;

/** Begins the handshake with the upstream. */
function openUpstream(
  protocols: string[],
  options: WebSocketProxyOptions,
): WebSocketPeer {
  const { upstream, target, allHeldBytes } = options;
  const headers = copyHeaders(
    options.headers,
    (name) => !HANDSHAKE_HEADER.test(name),
  );
  const scheme = upstream.protocol.replace("http", "ws");
  // Not new URL(target, upstream): a target such as "//elsewhere/" would then select the host.
  const url = `${scheme}//${upstream.host}${target}`;
  const socket = new WebSocket(url, { headers, protocols });
  return new WebSocketPeer(socket, "upstream", allHeldBytes);
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
 * connection then stays open, like other silent connections, but no longer counts as a transfer.
 */
const MAX_CLOSING_MS = 5_000;

/** Connects the client's WebSocket with the upstream's, until both are closed. */
function bridge(
  client: WebSocketPeer,
  upstream: WebSocketPeer,
  options: WebSocketProxyOptions,
): void {
  const { shutdown, timeoutMs, clock, allHeldBytes, onClose } = options;
  const peers = [client, upstream];
  client.forwardTo(upstream);
  upstream.forwardTo(client);
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
  client.socket.addEventListener("open", cancelTimeout);
  for (const peer of peers) {
    void peer.closed.promise.then(() => allHeldBytes.remove(peer));
  }
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
}

/** A message of a WebSocket whose `binaryType` is "arraybuffer". */
type Message = string | ArrayBuffer;

/** Forwards a message or a close to the other peer. */
type PendingAction = (other: WebSocketPeer) => void;

/**
 * How many bytes may wait to be sent to a peer. `WebSocket` has no backpressure, so without this limit, and the one of
 * {@linkcode HeldBytes} for all peers, peers that do not read would exhaust the memory.
 */
const MAX_BUFFERED_BYTES = 16 * 1024 * 1024;

/**
 * One of the two WebSockets of a bridge. It listens as soon as it is constructed, and keeps what it receives until
 * {@linkcode WebSocketPeer.forwardTo} names the other peer. It queues, in order, what is sent to it before it is open, and
 * drops what is sent to it after it has closed.
 */
export class WebSocketPeer {
  readonly socket: WebSocket;
  /** Resolved when it begins to close. */
  readonly closing = Promise.withResolvers<void>();
  /** Resolved when it is closed. */
  readonly closed = Promise.withResolvers<void>();
  readonly #role: "client" | "upstream";
  readonly #allHeldBytes: HeldBytes;
  readonly #received: PendingAction[] = [];
  #other: WebSocketPeer | undefined;
  readonly #queue: (() => void)[] = [];
  #queuedBytes = 0;
  /** The bytes that were waiting to be sent when it began to close. */
  #bytesAtClose = 0;

  /** @param allHeldBytes Counts the bytes that wait to be sent in all bridges. The bridge removes the peer from it. */
  constructor(
    socket: WebSocket,
    role: "client" | "upstream",
    allHeldBytes: HeldBytes,
  ) {
    this.socket = socket;
    this.#role = role;
    this.#allHeldBytes = allHeldBytes;
    socket.binaryType = "arraybuffer"; // reading a Blob is asynchronous, which would change the order
    socket.addEventListener("open", () => this.#flush());
    socket.addEventListener("message", ({ data }: MessageEvent<Message>) => {
      this.#forward((other) => other.send(data));
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

  /**
   * How many bytes are waiting to be sent. A WebSocket that is closing keeps them until it is closed, although its
   * `bufferedAmount` is 0 in Deno.
   */
  get heldBytes(): number {
    const { readyState, bufferedAmount } = this.socket;
    if (readyState === WebSocket.CLOSED) return 0;
    if (readyState === WebSocket.CLOSING) return this.#bytesAtClose;
    return this.#queuedBytes + bufferedAmount;
  }

  /** Forwards everything that this peer has received and will receive to another peer. */
  forwardTo(other: WebSocketPeer): void {
    this.#other = other;
    for (const action of this.#received.splice(0)) action(other);
  }

  /** Sends a message. It closes both peers if too many bytes are waiting to be sent, to this peer or to all peers. */
  send(message: Message): void {
    const { readyState } = this.socket;
    const isOpening = readyState === WebSocket.CONNECTING;
    if (!isOpening && readyState !== WebSocket.OPEN) return;
    const size = typeof message === "string"
      ? message.length
      : message.byteLength;
    // Checked before sending: a peer that does not read holds the message until it disconnects, even after a close.
    if (!this.#allHeldBytes.hasRoomFor(this, size)) return this.#closeBoth();
    if (isOpening) this.#queuedBytes += size;
    this.#whenOpen(() => this.socket.send(message));
    if (this.heldBytes > MAX_BUFFERED_BYTES) this.#closeBoth();
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
    this.#whenOpen(() => {
      this.#bytesAtClose = this.heldBytes;
      action();
    });
  }

  #closeBoth(): void {
    for (const peer of [this, this.#other]) {
      peer?.close(1013, "A peer reads too slowly");
    }
  }

  #forward(action: PendingAction): void {
    if (this.#other === undefined) this.#received.push(action);
    else action(this.#other);
  }

  /** Queues an action until the WebSocket is open. Before that, Deno even ignores a close. */
  #whenOpen(action: () => void): void {
    const { readyState } = this.socket;
    if (readyState === WebSocket.CONNECTING) this.#queue.push(action);
    else if (readyState === WebSocket.OPEN) action();
  }

  #flush(): void {
    this.#queuedBytes = 0;
    for (const action of this.#queue.splice(0)) this.#whenOpen(action);
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

/** How many bytes all peers together may hold. */
const MAX_TOTAL_BYTES = 64 * 1024 * 1024;
/** How many bytes each peer may always hold, so that some peers that do not read do not disconnect the others. */
const MIN_BYTES_EACH = 64 * 1024;

/** Counts the bytes that all peers together hold. It asks each peer, since no event reports that a peer holds less. */
export class HeldBytes {
  readonly #peers = new Set<WebSocketPeer>();

  /** Returns whether a peer may hold `size` more bytes. */
  hasRoomFor(peer: WebSocketPeer, size: number): boolean {
    this.#peers.add(peer);
    if (peer.heldBytes + size <= MIN_BYTES_EACH) return true;
    let total = size;
    for (const { heldBytes } of this.#peers) total += heldBytes;
    return total <= MAX_TOTAL_BYTES;
  }

  /** Stops counting a peer. */
  remove(peer: WebSocketPeer): void {
    this.#peers.delete(peer);
  }
}
