import http, { type ClientRequestArgs } from "node:http";
import { Duplex } from "node:stream";

/**
 * Keeps TLS connections for `node:http` that Deno makes.
 *
 * `node:https` would be the obvious way, but in Deno 2.9 it asks for `--allow-sys` and `--allow-env`, and does not trust
 * what `--cert` and `DENO_CERT` name.
 */
export class TlsAgent extends http.Agent {
  /** What `node:http` asks its agent for. */
  readonly protocol = "https:";
  /** What `node:http` connects to where the URL names no port. */
  readonly defaultPort = 443;
  #isOver = false;

  /** Called by `node:http` for a new connection, which takes it from the callback. */
  override createConnection(
    { host, port }: ClientRequestArgs,
    callback?: (error: Error | null, socket: Duplex) => void,
  ): Duplex {
    connect(host ?? "localhost", Number(port)).then(
      (connection) => {
        // One that is made after the end would be kept for ever.
        if (this.#isOver) connection.close();
        else callback?.(null, socketOf(connection));
      },
      (error) => callback?.(error, undefined as never),
    );
    return undefined as never;
  }

  /** Ends all connections. */
  override destroy(): void {
    this.#isOver = true;
    super.destroy();
  }
}

async function connect(hostname: string, port: number): Promise<Deno.TlsConn> {
  const connection = await Deno.connectTls({ hostname, port, alpnProtocols: ["http/1.1"] });
  try {
    await connection.handshake();
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** A stream with what `node:http` calls on a socket besides. */
function socketOf(connection: Deno.TlsConn): Duplex {
  const { readable, writable } = connection;
  const stream = Duplex.fromWeb({ readable, writable } as Parameters<typeof Duplex.fromWeb>[0]);
  const nothing = () => stream; // Deno sets TCP_NODELAY by itself, and the time-out is not the socket's
  return Object.assign(stream, {
    setKeepAlive: nothing,
    setNoDelay: nothing,
    setTimeout: nothing,
    ref() {
      connection.ref();
      return stream;
    },
    unref() {
      connection.unref();
      return stream;
    },
  });
}
