import { deadline } from "@std/async/deadline";
import { TextLineStream } from "../tools/text_lines.ts";

/** No step of these tests takes this long; a deadline turns a hang into a failure. */
const TIMEOUT_MS = 60_000;

/** Waits for a promise, but not for longer than this. */
export function within<T>(promise: Promise<T>, ms: number = TIMEOUT_MS): Promise<T> {
  return deadline(promise, ms);
}

/** Options of {@linkcode Denokv.launch}. */
export interface DenokvOptions {
  /** The path of the program. */
  program: string;
  /** The path of the database. */
  path: string;
  token: string;
}

/** A running server process. */
interface ServerProcess {
  readonly child: Deno.ChildProcess;
  /** Settles when its standard error ends. */
  readonly read: Promise<void>;
  readonly port: number;
}

/** A `denokv` server over one file, on a free port of 127.0.0.1, that can be killed and started again. */
export class Denokv implements AsyncDisposable {
  readonly port: number;
  readonly #options: DenokvOptions;
  #process: ServerProcess | undefined;

  private constructor(options: DenokvOptions, process: ServerProcess) {
    this.#options = options;
    this.#process = process;
    this.port = process.port;
  }

  static async launch(options: DenokvOptions): Promise<Denokv> {
    return new Denokv(options, await spawn(options, 0));
  }

  /** Ends it with SIGKILL. */
  async kill(): Promise<void> {
    const running = this.#process;
    if (running === undefined) return;
    this.#process = undefined;
    running.child.kill("SIGKILL");
    await running.child.status;
    await running.read;
  }

  /** Starts it again with the same port and file. */
  async start(): Promise<void> {
    this.#process = await spawn(this.#options, this.port);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}

async function spawn({ program, path, token }: DenokvOptions, port: number): Promise<ServerProcess> {
  const args = ["--sqlite-path", path, "serve", "--addr", `127.0.0.1:${port}`];
  const env = { DENO_KV_ACCESS_TOKEN: token, NO_COLOR: "1" };
  const child = new Deno.Command(program, { args, env, stdin: "null", stdout: "null", stderr: "piped" }).spawn();
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const read = readPort(child.stderr, resolve).then(() => reject(new Error("denokv ended before it listened")));
  return { child, read, port: await within(promise) };
}

async function readPort(stderr: ReadableStream<Uint8Array<ArrayBuffer>>, found: (port: number) => void): Promise<void> {
  for await (const line of stderr.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream())) {
    const [, port] = /Listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(line) ?? [];
    if (port !== undefined) found(Number(port));
  }
}

/** A TCP relay between clients and a server that can stop forwarding, like a network that loses every packet. */
export class Relay implements AsyncDisposable {
  /** The number of accepted connections, and of HTTP/2 requests that were forwarded. */
  readonly passed = { connections: 0, requests: 0 };
  readonly #target: number;
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #open = new Set<Deno.TcpConn>();
  readonly #running = new Set<Promise<void>>();
  #gate = Promise.withResolvers<void>();

  /** @param target The server's port on 127.0.0.1. */
  constructor(target: number) {
    this.#target = target;
    this.#gate.resolve();
    this.#run(this.#accept());
  }

  get port(): number {
    return this.#listener.addr.port;
  }

  /** Stops forwarding in both directions; connections are still accepted, and stay open. */
  cut(): void {
    this.#gate = Promise.withResolvers();
  }

  /** Forwards again, beginning with what was held back. */
  mend(): void {
    this.#gate.resolve();
  }

  /** Closes every connection, and forwards new ones. */
  drop(): void {
    for (const connection of [...this.#open]) this.#close(connection);
    this.#gate.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    this.drop();
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** Runs a task whose errors are those of connections, which may end in any way. */
  #run(task: Promise<void>): void {
    const done = task.catch(() => {}).finally(() => this.#running.delete(done));
    this.#running.add(done);
  }

  async #accept(): Promise<void> {
    for await (const client of this.#listener) {
      this.#open.add(client);
      this.passed.connections++;
      this.#run(this.#connect(client));
    }
  }

  async #connect(client: Deno.TcpConn): Promise<void> {
    try {
      await this.#gate.promise;
      const server = await Deno.connect({ hostname: "127.0.0.1", port: this.#target });
      this.#open.add(server);
      const counter = new RequestCounter();
      this.#run(this.#forward(server, client, () => {}));
      await this.#forward(client, server, (bytes) => this.passed.requests += counter.count(bytes));
    } finally {
      this.#close(client);
    }
  }

  async #forward(from: Deno.TcpConn, to: Deno.TcpConn, inspect: (bytes: Uint8Array) => void): Promise<void> {
    try {
      for await (const bytes of from.readable) {
        await this.#gate.promise;
        inspect(bytes);
        await writeAll(to, bytes);
      }
    } finally {
      this.#close(from);
      this.#close(to);
    }
  }

  #close(connection: Deno.TcpConn): void {
    if (!this.#open.delete(connection)) return;
    try {
      connection.close();
    } catch {
      // The end of its stream has closed it.
    }
  }
}

async function writeAll(to: Deno.TcpConn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await to.write(bytes.subarray(at));
}

/** RFC 9113 §3.4: what a client sends before its first frame. */
const PREFACE_BYTES = 24;
/** RFC 9113 §4.1: length (3 bytes), type, flags, stream (4 bytes). */
const HEADER_BYTES = 9;
/** RFC 9113 §6.2. */
const HEADERS = 1;

/** Counts the requests of an HTTP/2 client: each has one HEADERS frame. */
class RequestCounter {
  #skip = PREFACE_BYTES;
  #header: number[] = [];

  /** Returns the number of requests that begin in the next bytes of the connection. */
  count(bytes: Uint8Array): number {
    let requests = 0;
    for (let at = 0; at < bytes.length;) {
      const skipped = Math.min(this.#skip, bytes.length - at);
      this.#skip -= skipped;
      at += skipped;
      if (this.#skip > 0 || at === bytes.length) break;
      this.#header.push(bytes[at++] ?? 0);
      if (this.#header.length === HEADER_BYTES && this.#readHeader() === HEADERS) requests++;
    }
    return requests;
  }

  /** Returns the frame's type; its payload is skipped. */
  #readHeader(): number | undefined {
    const [high = 0, middle = 0, low = 0, type] = this.#header;
    this.#skip = high << 16 | middle << 8 | low;
    this.#header = [];
    return type;
  }
}
