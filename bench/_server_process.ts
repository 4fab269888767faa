import { importFlags } from "./_import_flags.ts";
import { TextLineStream } from "../tools/text_lines.ts";
import type { Usage } from "./_fan_out_server.ts";

/** `_fan_out_server.ts` in a process of its own. */
export class ServerProcess implements AsyncDisposable {
  readonly port: number;
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #lines: ReadableStreamDefaultReader<string>;

  private constructor(
    port: number,
    child: Deno.ChildProcess,
    lines: ReadableStreamDefaultReader<string>,
  ) {
    this.port = port;
    this.#child = child;
    this.#input = child.stdin.getWriter();
    this.#lines = lines;
  }

  /** @param valueBytes The size of the values that the gateway publishes. */
  static async start(
    kind: "gateway" | "bare",
    valueBytes = 0,
  ): Promise<ServerProcess> {
    const args = [
      "run",
      "--quiet",
      ...await importFlags(),
      "-A",
      "bench/_fan_out_server.ts",
      kind,
      String(valueBytes),
    ];
    const cwd = new URL("..", import.meta.url);
    const child = new Deno.Command(Deno.execPath(), {
      args,
      cwd,
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const lines = child.stdout.pipeThrough(new TextDecoderStream()).pipeThrough(
      new TextLineStream(),
    ).getReader();
    const { port } = await readJson<{ port: number }>(lines);
    return new ServerProcess(port, child, lines);
  }

  async publish(): Promise<void> {
    await this.#send("publish");
  }

  async usage(): Promise<Usage> {
    await this.#send("usage");
    return await readJson(this.#lines);
  }

  async close(): Promise<void> {
    await this.#input.close();
    await this.#child.status;
    await this.#lines.cancel();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #send(command: string): Promise<void> {
    return this.#input.write(new TextEncoder().encode(`${command}\n`));
  }
}

async function readJson<T>(
  lines: ReadableStreamDefaultReader<string>,
): Promise<T> {
  const { value, done } = await lines.read();
  if (done) throw new Error("The server process exited");
  return JSON.parse(value);
}
