import { connect, createServer, type Server, type Socket } from "node:net";

/** The certificate of the tests, for `app.example.com` and `localhost`. */
export const TLS = new URL("./content/proxy/tls/", import.meta.url);

/** The host name in the shipped files. */
export const HOST = "app.example.com";

/** Options of {@linkcode AppClient}. */
export interface AppClientOptions {
  /** The port of 127.0.0.1 at which `app.example.com:443` is. */
  readonly port: number;
  /** The client's own address. @default {"127.0.0.2"} */
  readonly from?: string;
  /** The version of HTTP. @default {2} */
  readonly http?: 1 | 2;
  /** Whether connections are used again. @default {true} */
  readonly keepAlive?: boolean;
}

/**
 * A client for which `https://app.example.com` is on this machine, so that the names and ports in the shipped files
 * need not be changed: it asks for the host through an HTTP proxy that always connects to the same port.
 */
export class AppClient implements AsyncDisposable {
  readonly client: Deno.HttpClient;
  readonly #server: Server;
  readonly #sockets: ReadonlySet<Socket>;

  private constructor(
    client: Deno.HttpClient,
    server: Server,
    sockets: ReadonlySet<Socket>,
  ) {
    [this.client, this.#server, this.#sockets] = [client, server, sockets];
  }

  static async open(
    { port, from = "127.0.0.2", http = 2, keepAlive = true }: AppClientOptions,
  ): Promise<AppClient> {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      sockets.add(socket);
      connectOnce(socket, { port, from });
    });
    await new Promise<void>((resolve) =>
      server.listen(0, "127.0.0.1", resolve)
    );
    const { port: own } = server.address() as { port: number };
    const ca = await Deno.readTextFile(new URL("ca.crt", TLS));
    const client = Deno.createHttpClient({
      caCerts: [ca],
      ...(http === 1 ? { http2: false } : { http1: false }),
      ...(keepAlive ? {} : { poolMaxIdlePerHost: 0 }),
      proxy: { url: `http://127.0.0.1:${own}` },
    });
    return new AppClient(client, server, sockets);
  }

  /** Requests a path of `https://app.example.com`. */
  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(`https://${HOST}${path}`, { ...init, client: this.client });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.client.close();
    for (const socket of this.#sockets) socket.destroy(); // a test that has failed may have left a stream open
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Answers the head of a CONNECT request, and connects. */
function connectOnce(
  client: Socket,
  { port, from }: { port: number; from: string },
): void {
  client.once("data", () => {
    const peer = connect(
      { host: "127.0.0.1", port, localAddress: from },
      () => {
        client.write("HTTP/1.1 200 OK\r\n\r\n");
        client.pipe(peer).pipe(client);
      },
    );
    peer.on("error", () => client.destroy());
    peer.on("close", () => client.destroy());
    client.on("close", () => peer.destroy());
  });
  client.on("error", () => client.destroy());
}
