import { deadline } from "@std/async/deadline";
import { TextLineStream } from "../tools/text_lines.ts";

/** Nothing here takes as long; what does is a fault, and must not hang. */
const PATIENCE_MS = 60_000;

/** Waits, but not for ever. */
export function within<T>(promise: Promise<T>, ms: number = PATIENCE_MS): Promise<T> {
  return deadline(promise, ms);
}

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

/** Stands between clients and a server, and can stop passing anything on, as a network does that loses every packet. */
export interface Relay extends AsyncDisposable {
  readonly port: number;
  /** How many connections were made to it, and how many HTTP/2 requests came through. */
  readonly passed: { connections: number; requests: number };
  /** From now on nothing comes through, in either direction; connections are accepted, and stay open. */
  cut(): void;
  /** Passes everything on again, what was held back first. */
  mend(): void;
  /** Closes every connection that there is, and passes new ones on. */
  drop(): void;
}

/** Starts a relay to a port of this machine. */
export function startRelay(target: number): Relay {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const passed = { connections: 0, requests: 0 };
  const open = new Set<Deno.TcpConn>();
  const running = new Set<Promise<void>>();
  let gate = Promise.withResolvers<void>();
  gate.resolve();

  function run(work: Promise<void>): void {
    const done = work.catch(() => {}).finally(() => running.delete(done)); // connections end as they like
    running.add(done);
  }

  async function accept(): Promise<void> {
    for await (const client of listener) {
      open.add(client);
      passed.connections++;
      run(connect(client));
    }
  }

  async function connect(client: Deno.TcpConn): Promise<void> {
    try {
      await gate.promise;
      const server = await Deno.connect({ hostname: "127.0.0.1", port: target });
      open.add(server);
      const count = requestCounter();
      run(pass(server, client, () => {}));
      await pass(client, server, (bytes) => passed.requests += count(bytes));
    } finally {
      close(client);
    }
  }

  async function pass(from: Deno.TcpConn, to: Deno.TcpConn, look: (bytes: Uint8Array) => void): Promise<void> {
    try {
      for await (const bytes of from.readable) {
        await gate.promise;
        look(bytes);
        await writeAll(to, bytes);
      }
    } finally {
      close(from);
      close(to);
    }
  }

  function close(connection: Deno.TcpConn): void {
    if (!open.delete(connection)) return;
    try {
      connection.close();
    } catch {
      // It has been closed by its stream, which had come to an end.
    }
  }

  run(accept());
  return {
    port: listener.addr.port,
    passed,
    cut: () => void (gate = Promise.withResolvers()),
    mend: () => gate.resolve(),
    drop() {
      for (const connection of [...open]) close(connection);
      gate.resolve();
    },
    async [Symbol.asyncDispose]() {
      listener.close();
      for (const connection of [...open]) close(connection);
      gate.resolve();
      while (running.size > 0) await Promise.all(running);
    },
  };
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

/** Counts the requests in what an HTTP/2 client sends: each has one HEADERS frame. */
function requestCounter(): (bytes: Uint8Array) => number {
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
