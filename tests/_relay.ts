export { within } from "./_time.ts"; // tests/content/proxy imports it from here

/** Counts the requests that a client sends over one connection. */
export interface RequestCounter {
  /** Returns the number of requests that begin in the next bytes of the connection. */
  count(bytes: Uint8Array): number;
}

/** A TCP relay between clients and a server that can stop forwarding, like a network that loses every packet. */
export class Relay implements AsyncDisposable {
  /** The number of accepted connections, and of requests that were forwarded. */
  readonly passed = { connections: 0, requests: 0 };
  readonly #target: number;
  readonly #createCounter: () => RequestCounter;
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #open = new Set<Deno.TcpConn>();
  readonly #running = new Set<Promise<void>>();
  #gate = Promise.withResolvers<void>();

  /**
   * @param target The server's port on 127.0.0.1.
   * @param createCounter Creates the counter of a new connection.
   */
  constructor(target: number, createCounter: () => RequestCounter) {
    this.#target = target;
    this.#createCounter = createCounter;
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
      const server = await Deno.connect({
        hostname: "127.0.0.1",
        port: this.#target,
      });
      this.#open.add(server);
      const counter = this.#createCounter();
      this.#run(this.#forward(server, client, () => {}));
      await this.#forward(
        client,
        server,
        (bytes) => this.passed.requests += counter.count(bytes),
      );
    } finally {
      this.#close(client);
    }
  }

  async #forward(
    from: Deno.TcpConn,
    to: Deno.TcpConn,
    inspect: (bytes: Uint8Array) => void,
  ): Promise<void> {
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
