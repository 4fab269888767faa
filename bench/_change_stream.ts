/** A stream of changes, as text. */
export class ChangeStream implements AsyncDisposable {
  readonly #reader: ReadableStreamDefaultReader<string>;
  #text = "";

  private constructor(reader: ReadableStreamDefaultReader<string>) {
    this.#reader = reader;
  }

  /** Opens a stream of the gateway on this port of 127.0.0.1, and reads its opening. */
  static async open(port: number): Promise<ChangeStream> {
    const { body } = await fetch(`http://127.0.0.1:${port}/rep/changes`);
    if (body === null) {
      throw new Error("Cannot read the stream: expected a body");
    }
    const stream = new ChangeStream(
      body.pipeThrough(new TextDecoderStream()).getReader(),
    );
    await stream.until("\n\n");
    return stream;
  }

  /** Reads until some text has arrived, and forgets everything up to it. */
  async until(text: string): Promise<void> {
    while (!this.#text.includes(text)) {
      const { value, done } = await this.#reader.read();
      if (done) throw new Error(`Cannot find "${text}": the stream has ended`);
      this.#text += value;
    }
    this.#text = this.#text.slice(this.#text.indexOf(text) + text.length);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#reader.cancel();
  }
}
