import { deadline } from "@std/async/deadline";

/** No step of a test takes as long; one that does has failed, and must not hang. */
const STEP_TIMEOUT_MS = 60_000;

/** Waits with a timeout. */
export function within<T>(promise: Promise<T>, ms: number = STEP_TIMEOUT_MS): Promise<T> {
  return deadline(promise, ms);
}

/** Counts the requests in what a client sends over one connection. */
export type RequestCounter = (bytes: Uint8Array) => number;

/** Forwards connections to a server, and can stop forwarding, like a network that loses every packet. */
export interface Relay extends AsyncDisposable {
  readonly port: number;
  /** The number of connections accepted and of requests forwarded. */
  readonly passed: { connections: number; requests: number };
  /** Stops forwarding, in both directions; connections are accepted and stay open. */
  cut(): void;
  /** Forwards everything again, beginning with what was held back. */
  mend(): void;
  /** Closes all connections, and forwards new ones. */
  drop(): void;
}

/** Starts a relay to a port of this machine. */
export function startRelay(target: number, requestCounter: () => RequestCounter): Relay {
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
