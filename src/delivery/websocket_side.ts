/** What a WebSocket with `binaryType` "arraybuffer" sends and receives. */
export type Message = string | ArrayBuffer;

/**
 * One side of a bridge between two WebSockets. What is said to it before it is open waits until then, in order; what is
 * said to it after its end is lost.
 */
export class WebSocketSide {
  readonly #socket: WebSocket;
  readonly #held: (() => void)[] = [];
  #heldBytes = 0;

  /** @param socket Is set to give binary messages as `ArrayBuffer`: a `Blob` could only be passed on later, out of order. */
  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => this.#release());
  }

  /** About how many bytes it was sent and has not taken yet. */
  get lagBytes(): number {
    return this.#heldBytes + this.#socket.bufferedAmount;
  }

  /** Passes a message on. */
  send(message: Message): void {
    if (this.#socket.readyState === WebSocket.CONNECTING) {
      this.#heldBytes += typeof message === "string" ? message.length : message.byteLength;
    }
    this.#whenOpen(() => this.#socket.send(message));
  }

  /** Passes on that the other side was closed, with that side's code and reason. */
  close(code: number, reason: string): void {
    // Without a code, a reason cannot be there either (RFC 6455 §5.5.1).
    this.#whenOpen(() => code === 1005 ? this.#socket.close() : this.#socket.close(passableCode(code), reason));
  }

  #whenOpen(action: () => void): void {
    const { readyState } = this.#socket;
    if (readyState === WebSocket.CONNECTING) this.#held.push(action); // close() has no lasting effect before, either
    else if (readyState === WebSocket.OPEN) action();
  }

  #release(): void {
    this.#heldBytes = 0;
    for (const action of this.#held.splice(0)) this.#whenOpen(action);
  }
}

/**
 * Finds a close code that `WebSocket.close()` takes, which are 1000 and 3000 to 4999: what the protocol itself says, such
 * as 1001 (going away) or 1011 (internal error), is told as 4900 and its last two digits. So neither becomes 1000, which
 * would make it a normal end that nobody reconnects after.
 *
 * @param code Deno gives 0 where browsers give 1006: the connection broke.
 */
export function passableCode(code: number): number {
  if (code === 1000 || (code >= 3000 && code <= 4999)) return code;
  return code > 1000 && code < 1100 ? 3900 + code : 4906;
}
