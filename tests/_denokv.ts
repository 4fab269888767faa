import { type RequestCounter, within } from "./_relay.ts";
import { TextLineStream } from "../tools/text_lines.ts";

/** A `denokv` server on this machine, over one file, that can be killed and started again. */
export interface Denokv extends AsyncDisposable {
  readonly port: number;
  /** Ends it without a word. */
  kill(): Promise<void>;
  /** Starts it again: same port, same file. */
  start(): Promise<void>;
}

/** What a `denokv` server is started with. */
export interface DenokvOptions {
  /** Where the program is. */
  program: string;
  /** The database. */
  path: string;
  token: string;
}

/** Starts a server on a free port of this machine. */
export async function startDenokv({ program, path, token }: DenokvOptions): Promise<Denokv> {
  let running = await run(0);
  const { port } = running;

  async function run(port: number) {
    const args = ["--sqlite-path", path, "serve", "--addr", `127.0.0.1:${port}`];
    const env = { DENO_KV_ACCESS_TOKEN: token, NO_COLOR: "1" };
    const child = new Deno.Command(program, { args, env, stdin: "null", stdout: "null", stderr: "piped" }).spawn();
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const read = readPort(child.stderr, resolve).then(() => reject(new Error("denokv ended before it listened")));
    return { child, read, port: await within(promise) };
  }

  async function kill(): Promise<void> {
    running.child.kill("SIGKILL");
    await running.child.status;
    await running.read;
  }

  let isUp = true;
  return {
    port,
    async kill() {
      isUp = false;
      await kill();
    },
    async start() {
      running = await run(port);
      isUp = true;
    },
    async [Symbol.asyncDispose]() {
      if (isUp) await kill();
    },
  };
}

async function readPort(stderr: ReadableStream<Uint8Array<ArrayBuffer>>, found: (port: number) => void): Promise<void> {
  for await (const line of stderr.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream())) {
    const [, port] = /Listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(line) ?? [];
    if (port !== undefined) found(Number(port));
  }
}

/** RFC 9113 §3.4: what a client sends before its first frame. */
const PREFACE_BYTES = 24;
/** RFC 9113 §4.1: length (3 bytes), type, flags, stream (4 bytes). */
const HEADER_BYTES = 9;
/** RFC 9113 §6.2. */
const HEADERS = 1;

/** Counts the requests of an HTTP/2 client: each has one HEADERS frame. */
export function http2RequestCounter(): RequestCounter {
  let skip = PREFACE_BYTES;
  let header: number[] = [];
  return (bytes) => {
    let requests = 0;
    for (let at = 0; at < bytes.length;) {
      const skipped = Math.min(skip, bytes.length - at);
      skip -= skipped;
      at += skipped;
      if (skip > 0 || at === bytes.length) break;
      header.push(bytes[at++] ?? 0);
      if (header.length < HEADER_BYTES) continue;
      const [high = 0, middle = 0, low = 0, type] = header;
      skip = high << 16 | middle << 8 | low;
      if (type === HEADERS) requests++;
      header = [];
    }
    return requests;
  };
}
