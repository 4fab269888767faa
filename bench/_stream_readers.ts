/** Connections opened at once: more than the listener's backlog would be refused. */
const BATCH = 100;

/** Event streams, read as cheaply as Deno allows: bare connections without a parser. */
export class StreamReaders {
  readonly #request: Uint8Array<ArrayBuffer>;
  readonly #connections: Deno.TcpConn[] = [];
  readonly #loops: Promise<void>[] = [];
  #pending = 0;
  #delivered = Promise.withResolvers<void>();
  #ended = 0;

  private constructor(path: string) {
    this.#request = new TextEncoder().encode(
      `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
    );
  }

  static async open(
    port: number,
    count: number,
    path = "/rep/changes",
  ): Promise<StreamReaders> {
    const readers = new StreamReaders(path);
    for (let opened = 0; opened < count; opened += BATCH) {
      await Promise.all(
        Array.from(
          { length: Math.min(BATCH, count - opened) },
          () => readers.#open(port),
        ),
      );
    }
    return readers;
  }

  get count(): number {
    return this.#connections.length;
  }

  /** The number of streams that the server has ended. */
  get ended(): number {
    return this.#ended;
  }

  /** Resolves when every stream has received one more event. */
  nextEvent(): Promise<void> {
    this.#pending = this.count;
    this.#delivered = Promise.withResolvers();
    return this.#delivered.promise;
  }

  async close(): Promise<void> {
    for (const connection of this.#connections) connection.close();
    await Promise.all(this.#loops);
  }

  async #open(port: number): Promise<void> {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port });
    this.#connections.push(connection);
    await connection.write(this.#request);
    await new Promise<void>((opened) =>
      void this.#loops.push(this.#read(connection, opened))
    );
  }

  async #read(connection: Deno.TcpConn, onOpen: () => void): Promise<void> {
    const buffer = new Uint8Array(1_024);
    let text = "";
    try {
      for (let length; (length = await connection.read(buffer)) !== null;) {
        text += decoder.decode(buffer.subarray(0, length));
        if (text.startsWith("HTTP/")) {
          if (!OPENING.test(text)) continue;
          onOpen();
        } else if (!text.endsWith("\n\n\r\n")) {
          continue; // the end of a message, and of an HTTP chunk, is missing
        } else if (text.includes("event: ")) this.#receive();
        text = "";
      }
      this.#ended++;
    } catch (error) {
      // close() interrupts a read.
      if (
        !(error instanceof Deno.errors.BadResource ||
          error instanceof Deno.errors.Interrupted)
      ) throw error;
    }
  }

  #receive(): void {
    if (--this.#pending === 0) this.#delivered.resolve();
  }
}

/** The head of a response, and at least one line in its first chunk. */
const OPENING = /\r\n\r\n[^]+\n\r\n$/;
const decoder = new TextDecoder("latin1");
