import { importFlags } from "./_import_flags.ts";
import { TextLineStream } from "../tools/text_lines.ts";

/** A gateway as a process of its own. */
export class GatewayProcess implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #url: string;
  readonly #output: Promise<void>;

  private constructor(child: Deno.ChildProcess, { url, output }: { url: string; output: Promise<void> }) {
    this.#child = child;
    this.#url = url;
    this.#output = output;
  }

  /** Starts one on a free port of this machine, and waits until it listens. */
  static async start(args: readonly string[]): Promise<GatewayProcess> {
    const all = [
      "run",
      "--quiet",
      ...await importFlags(),
      "-A",
      "main.ts",
      "--hostname",
      "127.0.0.1",
      "--port",
      "0",
      ...args,
    ];
    const child = new Deno.Command(Deno.execPath(), { args: all, stdin: "null", stdout: "piped", stderr: "null" })
      .spawn();
    const listening = Promise.withResolvers<string>();
    const output = readLines(child.stdout, (line) => {
      const { msg, url } = JSON.parse(line);
      if (msg === "rep.listening") listening.resolve(String(url));
    });
    void output.then(() => listening.reject(new Error("Cannot start a gateway: it ended before it listened")));
    return new GatewayProcess(child, { url: await listening.promise, output });
  }

  /** Makes it read its variables again. */
  reload(): void {
    this.#child.kill("SIGHUP");
  }

  /** Opens a stream of changes. */
  async openStream(): Promise<ChangeStream> {
    const { body } = await fetch(new URL("rep/changes", this.#url));
    if (body === null) throw new Error("Cannot read the stream: expected a body");
    const stream = new ChangeStream(body.pipeThrough(new TextDecoderStream()).getReader());
    await stream.until("\n\n"); // the opening bytes
    return stream;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await Promise.all([this.#output, this.#child.status]);
  }
}

/** A stream of changes, as text. */
export class ChangeStream implements AsyncDisposable {
  readonly #reader: ReadableStreamDefaultReader<string>;
  #text = "";

  constructor(reader: ReadableStreamDefaultReader<string>) {
    this.#reader = reader;
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

async function readLines(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  onLine: (line: string) => void,
): Promise<void> {
  const lines = stream.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream());
  for await (const line of lines) onLine(line);
}
