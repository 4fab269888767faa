/** A bare connection to a server on this machine, from which text is read. */
export class TextConnection {
  readonly #connection: Deno.TcpConn;
  readonly #buffer: Uint8Array<ArrayBuffer>;
  #text = "";

  private constructor(connection: Deno.TcpConn, bufferBytes: number) {
    this.#connection = connection;
    this.#buffer = new Uint8Array(bufferBytes);
  }

  /** @param bufferBytes How much is read at once: benchmarks have thousands of connections. */
  static async open(
    port: number,
    bufferBytes: number,
  ): Promise<TextConnection> {
    const options = { hostname: "127.0.0.1", port };
    return new TextConnection(await Deno.connect(options), bufferBytes);
  }

  async send(text: string): Promise<void> {
    await this.#connection.write(encoder.encode(text));
  }

  /** Reads up to the first match, and removes the text up to its end. */
  async readUntil(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.#text);
      if (match !== null) {
        this.#text = this.#text.slice(match.index + match[0].length);
        return match;
      }
      const length = await this.#connection.read(this.#buffer);
      if (length === null) throw new Error("The connection ended");
      this.#text += decoder.decode(this.#buffer.subarray(0, length));
    }
  }

  close(): void {
    this.#connection.close();
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("latin1");
