import type { HeldBytes, Holder } from "./held_bytes.ts";

/** What a WebSocket whose `binaryType` is "arraybuffer" sends and receives. */
type Message = string | ArrayBuffer;

/**
 * How many bytes may be waiting to be sent to a peer. `WebSocket` has no backpressure: without this limit, and that of
 * {@linkcode HeldBytes} for all peers, peers that do not read would exhaust the memory.
 */
const MAX_BUFFERED_BYTES = 16 * 1024 * 1024;

/** A message or a close that is to be forwarded to the other peer. */
type PendingAction = (other: WebSocketPeer) => void;

/** The two ends of a bridge. */
type PeerRole = "client" | "upstream";

/** Options of {@linkcode WebSocketPeer}. */
interface WebSocketPeerOptions {
  role: PeerRole;
  /** Counts the bytes that are waiting in all bridges. The owner of the peer removes it from there. */
  allHeldBytes: HeldBytes;
}

/**
 * One of the two WebSockets of a bridge. It listens from its construction on, and keeps what it receives until
 * {@linkcode WebSocketPeer.forwardTo} names the other peer. What is sent to it before it is open is queued, in order;
 * what is sent to it after it has closed is dropped.
 */
export class WebSocketPeer implements Holder {
  readonly #socket: WebSocket;
  readonly #role: PeerRole;
  readonly #allHeldBytes: HeldBytes;
  readonly #received: PendingAction[] = [];
  #other: WebSocketPeer | undefined;
  readonly #queue: (() => void)[] = [];
  #queuedBytes = 0;

  constructor(socket: WebSocket, { role, allHeldBytes }: WebSocketPeerOptions) {
    this.#socket = socket;
    this.#role = role;
    this.#allHeldBytes = allHeldBytes;
    socket.binaryType = "arraybuffer"; // a Blob is read asynchronously, which would change the order
    socket.addEventListener("open", () => this.#flush());
    socket.addEventListener(
      "message",
      ({ data }: MessageEvent<Message>) =>
        this.#forward((other) => other.send(data)),
    );
    socket.addEventListener("close", ({ code, reason, wasClean }) => {
      this.#forward((other) =>
        wasClean ? other.close(code, reason) : other.fail()
      );
    });
  }

  /** How many bytes are waiting to be sent. A WebSocket that is closing holds them until it is closed. */
  get heldBytes(): number {
    return this.#socket.readyState === WebSocket.CLOSED
      ? 0
      : this.#queuedBytes + this.#socket.bufferedAmount;
  }

  /** Forwards everything that this peer receives, and has received, to another peer. */
  forwardTo(other: WebSocketPeer): void {
    this.#other = other;
    for (const action of this.#received.splice(0)) action(other);
  }

  /** Sends a message. Closes both peers if too much is waiting to be sent, to this peer or to all. */
  send(message: Message): void {
    const { readyState } = this.#socket;
    if (readyState === WebSocket.CLOSING || readyState === WebSocket.CLOSED) {
      return;
    }
    const size = typeof message === "string"
      ? message.length
      : message.byteLength;
    // Before the message is sent: a peer that does not read holds it until it disconnects, also after a close.
    if (!this.#allHeldBytes.hasRoomFor(this, size)) return this.#closeBoth();
    if (readyState === WebSocket.CONNECTING) this.#queuedBytes += size;
    this.#whenOpen(() => this.#socket.send(message));
    if (this.heldBytes > MAX_BUFFERED_BYTES) this.#closeBoth();
  }

  /** Closes the WebSocket with the code and the reason of the other peer, or of the gateway. */
  close(code: number, reason: string): void {
    // There is no reason without a code (RFC 6455 §5.5.1).
    this.#whenOpen(() =>
      code === 1005
        ? this.#socket.close()
        : this.#socket.close(allowedCode(code), reason)
    );
  }

  /**
   * Closes the WebSocket because the connection of the other peer broke.
   *
   * A browser must not see a clean close: Vite's client, for one, would not reconnect. Deno cannot drop a connection,
   * but sends a reason without a code as the whole body of the close frame. A body of one byte is invalid (RFC 6455
   * §5.5.1), so whoever receives it fails the connection: browsers report 1006 and `wasClean: false`. Servers are
   * spared this, since some exit on an invalid frame.
   */
  fail(): void {
    if (this.#role === "client") {
      this.#whenOpen(() => this.#socket.close(undefined, "!"));
    } else this.close(1006, "");
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

  #whenOpen(action: () => void): void {
    const { readyState } = this.#socket;
    if (readyState === WebSocket.CONNECTING) this.#queue.push(action); // also for close(), which Deno ignores before
    else if (readyState === WebSocket.OPEN) action();
  }

  #flush(): void {
    this.#queuedBytes = 0;
    for (const action of this.#queue.splice(0)) this.#whenOpen(action);
  }
}

/**
 * Returns a close code that `WebSocket.close()` accepts, which are 1000 and 3000 to 4999. A code of the protocol
 * itself, such as 1001 (going away) or 1011 (internal error), becomes 49 and its last two digits. It must not become
 * 1000: clients do not reconnect after a normal closure.
 *
 * @param code Deno reports a broken connection as 0, browsers as 1006.
 */
export function allowedCode(code: number): number {
  if (code === 1000 || (code >= 3000 && code <= 4999)) return code;
  return code > 1000 && code < 1100 ? 3900 + code : 4906;
}
