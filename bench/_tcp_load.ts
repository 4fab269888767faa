import type { Load, LoadOptions } from "./_load_generator.ts";

/**
 * Sends requests over bare connections of this process. That is several times slower than `wrk`, so that it is a
 * client for machines without `wrk` only: the ceiling in the results says how fast it is.
 */
export async function tcpLoad(options: LoadOptions): Promise<Load> {
  const load = new TcpLoad(options);
  const startedAt = performance.now();
  await Promise.all(
    Array.from(
      { length: options.connections },
      () => load.run(startedAt + options.seconds * 1_000),
    ),
  );
  const { requests, failed } = load;
  return {
    requests,
    failed,
    perSecond: requests / (performance.now() - startedAt) * 1_000,
  };
}

class TcpLoad {
  requests = 0;
  failed = 0;
  #sent = 0;
  readonly #options: LoadOptions;

  constructor(options: LoadOptions) {
    this.#options = options;
  }

  /** Sends one request after the other until it is `end` by the performance clock, and at least one. */
  async run(end: number): Promise<void> {
    using connection = await Deno.connect({
      hostname: "127.0.0.1",
      port: this.#options.port,
    });
    connection.setNoDelay();
    const reader = new ResponseReader(connection);
    do {
      await connection.write(encoder.encode(this.#request()));
      if (await reader.read() >= 400) this.failed++;
      this.requests++;
    } while (performance.now() < end);
  }

  #request(): string {
    const { path, firstClient } = this.#options;
    const client = (firstClient ?? 0) + this.#sent++;
    const address = `10.${client >> 16 & 255}.${client >> 8 & 255}.${
      client & 255
    }`; // RFC 1918
    const header = firstClient === undefined
      ? ""
      : `X-Forwarded-For: ${address}\r\n`;
    return `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${header}\r\n`;
  }
}

/** Reads responses, which must have a length or be chunked (RFC 9112 §6.3). */
class ResponseReader {
  readonly #connection: Deno.TcpConn;
  readonly #buffer = new Uint8Array(64 << 10);

  constructor(connection: Deno.TcpConn) {
    this.#connection = connection;
  }

  /** Reads one response, and returns its status. */
  async read(): Promise<number> {
    let text = "";
    for (;;) {
      const length = await this.#connection.read(this.#buffer);
      if (length === null) {
        throw new Error("Cannot read a response: the connection was closed");
      }
      text += decoder.decode(this.#buffer.subarray(0, length));
      if (isComplete(text)) {
        return Number(text.slice("HTTP/1.1 ".length, "HTTP/1.1 200".length));
      }
    }
  }
}

/** Whether the text is a whole response: there is no pipelining, so that nothing follows it. */
function isComplete(text: string): boolean {
  const headLength = text.indexOf("\r\n\r\n") + 4;
  if (headLength < 4) return false;
  const [, length] =
    /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, headLength)) ?? [];
  return length === undefined
    ? text.endsWith("\r\n0\r\n\r\n")
    : text.length >= headLength + Number(length);
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("latin1"); // one character for each byte
