/** An event stream over a bare connection that checks that no event is missing. */
export class EventReader {
  readonly #connection: Deno.TcpConn;
  readonly #buffer = new Uint8Array(16 << 10);
  #text = "";
  /** The id of the opening, or of the last event. */
  cursor = "";
  /** How many times the counter in the values was not the next one. */
  gaps = 0;
  #counter: number | undefined;

  private constructor(connection: Deno.TcpConn) {
    this.#connection = connection;
  }

  /** Opens a stream, and reads its opening. */
  static async open(port: number, cursor?: string): Promise<EventReader> {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port });
    const reader = new EventReader(connection);
    const header = cursor === undefined ? "" : `Last-Event-ID: ${cursor}\r\n`;
    await connection.write(
      encoder.encode(
        `GET /rep/changes HTTP/1.1\r\nHost: localhost\r\n${header}\r\n`,
      ),
    );
    const opening = await reader.#readUntil(/id: (\d+)\n\n/);
    reader.cursor = opening[1] ?? "";
    return reader;
  }

  /** Reads events, and checks that each value follows the one before. */
  async readEvents(count: number): Promise<void> {
    for (let read = 0; read < count; read++) {
      const [, value, id] = await this.#readUntil(
        /"value":"value (\d+)[.]*"\}\nid: (\d+)\n\n/,
      );
      const counter = Number(value);
      if (this.#counter !== undefined && counter !== this.#counter + 1) {
        this.gaps++;
      }
      this.#counter = counter;
      this.cursor = id ?? "";
    }
  }

  close(): void {
    this.#connection.close();
  }

  async #readUntil(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.#text);
      if (match !== null) {
        this.#text = this.#text.slice(match.index + match[0].length);
        return match;
      }
      const length = await this.#connection.read(this.#buffer);
      if (length === null) throw new Error("The stream ended");
      this.#text += decoder.decode(this.#buffer.subarray(0, length));
    }
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("latin1");
