import { TextConnection } from "./_text_connection.ts";

const BUFFER_BYTES = 16 << 10;

/** An event stream over a bare connection that checks that no event is missing. */
export class EventReader {
  readonly #connection: TextConnection;
  /** The id of the opening, or of the last event. */
  cursor = "";
  /** How many times the counter in the values was not the next one. */
  gaps = 0;
  #counter: number | undefined;

  private constructor(connection: TextConnection) {
    this.#connection = connection;
  }

  /** Opens a stream, and reads its opening. */
  static async open(port: number, cursor?: string): Promise<EventReader> {
    const connection = await TextConnection.open(port, BUFFER_BYTES);
    const reader = new EventReader(connection);
    const header = cursor === undefined ? "" : `Last-Event-ID: ${cursor}\r\n`;
    await connection.send(
      `GET /rep/changes HTTP/1.1\r\nHost: localhost\r\n${header}\r\n`,
    );
    const opening = await connection.readUntil(/id: (\d+)\n\n/);
    reader.cursor = opening[1] ?? "";
    return reader;
  }

  /** Reads events, and checks that each value follows the one before. */
  async readEvents(count: number): Promise<void> {
    for (let read = 0; read < count; read++) {
      const [, value, id] = await this.#connection.readUntil(
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
}
