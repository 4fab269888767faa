/** What a WebSocket with `binaryType` "arraybuffer" sends and receives. */
export type Message = string | ArrayBuffer;

/**
 * How far a side may lag behind the other, in bytes. `WebSocket` cannot be told to read slower, so a side that does not
 * read at all would otherwise fill the memory.
 */
const MAX_LAG_BYTES = 16 * 1024 * 1024;

/** What one side says to the other. */
type PendingAction = (other: WebSocketPeer) => void;

/**
 * One side of a bridge between two WebSockets. It listens from the beginning: what comes before there is another side is
 * kept for it. What is said to it before it is open waits until then, in order; what is said to it after its end is lost.
 */
export class WebSocketPeer {
  readonly #socket: WebSocket;
  readonly #heard: PendingAction[] = [];
  #other: WebSocketPeer | undefined;
  readonly #held: (() => void)[] = [];
  #heldBytes = 0;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.binaryType = "arraybuffer"; // a Blob could only be passed on later, out of order
    socket.addEventListener("open", () => this.#release());
    socket.addEventListener("message", ({ data }: MessageEvent<Message>) => this.#say((other) => other.send(data)));
    socket.addEventListener("close", ({ code, reason }) => this.#say((other) => other.close(code, reason)));
  }

  /** Says everything that comes, and has come, to another side. */
  forwardTo(other: WebSocketPeer): void {
    this.#other = other;
    for (const saying of this.#heard.splice(0)) saying(other);
  }

  /** Sends a message. Ends both sides if this one lags too far behind. */
  send(message: Message): void {
    if (this.#socket.readyState === WebSocket.CONNECTING) {
      this.#heldBytes += typeof message === "string" ? message.length : message.byteLength;
    }
    this.#whenOpen(() => this.#socket.send(message));
    if (this.#heldBytes + this.#socket.bufferedAmount > MAX_LAG_BYTES) this.#giveUp();
  }

  /** Closes it for the reason that the other side has given, or the gateway. */
  close(code: number, reason: string): void {
    // Without a code, a reason cannot be there either (RFC 6455 §5.5.1).
    this.#whenOpen(() => code === 1005 ? this.#socket.close() : this.#socket.close(passableCode(code), reason));
  }

  #giveUp(): void {
    for (const side of [this, this.#other]) side?.close(1013, "The other side does not read");
  }

  #say(saying: PendingAction): void {
    if (this.#other === undefined) this.#heard.push(saying);
    else saying(this.#other);
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
