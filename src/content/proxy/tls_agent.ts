import http, { type ClientRequestArgs } from "node:http";
import { Duplex } from "node:stream";

/**
 * An agent for `node:http` whose connections are TLS connections of Deno.
 *
 * In Deno 2.9, `node:https` requires `--allow-sys` and `--allow-env`, and ignores the certificate authorities of
 * `--cert` and `DENO_CERT`.
 */
export class TlsAgent extends http.Agent {
  /** The scheme, which `node:http` compares with the scheme of the request. */
  readonly protocol = "https:";
  /** The port for URLs without one. */
  readonly defaultPort = 443;
  #isClosed = false;

  /** Opens a connection and passes it to the callback. Called by `node:http`. */
  override createConnection(
    { host, port }: ClientRequestArgs,
    callback?: (error: Error | null, socket: Duplex) => void,
  ): Duplex {
    connect(host ?? "localhost", Number(port)).then(
      (connection) => {
        // After destroy(), the agent would never close this connection.
        if (this.#isClosed) connection.close();
        else callback?.(null, socketOf(connection));
      },
      (error) => callback?.(error, undefined as never),
    );
    return undefined as never;
  }

  /** Closes all connections, including those in use. */
  override destroy(): void {
    this.#isClosed = true;
    super.destroy();
  }
}

async function connect(hostname: string, port: number): Promise<Deno.TlsConn> {
  const connection = await Deno.connectTls({
    hostname,
    port,
    alpnProtocols: ["http/1.1"],
  });
  try {
    await connection.handshake();
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** Returns a stream with the methods of `net.Socket` that `node:http` calls. */
function socketOf(connection: Deno.TlsConn): Duplex {
  const { readable, writable } = connection;
  const stream = Duplex.fromWeb(
    { readable, writable } as Parameters<typeof Duplex.fromWeb>[0],
  );
  const ignored = () => stream; // Deno sets TCP_NODELAY itself, and `Upstream` has its own timeout
  return Object.assign(stream, {
    setKeepAlive: ignored,
    setNoDelay: ignored,
    setTimeout: ignored,
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
