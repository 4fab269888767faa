import { connect, createServer, type Server, type Socket } from "node:net";
import { HOST } from "./certificates.ts";

/** How many addresses the clients use: a prime, so that no address sends the same kind of request again and again. */
const ADDRESSES = 251;

/**
 * Clients with many addresses that request `https://127.0.0.1`: each of their connections goes through an HTTP proxy,
 * which connects to the same port from the next address of 127.0.1.0/24.
 */
export class Addresses implements AsyncDisposable {
  /** Opens a connection per request, and resumes TLS sessions like a browser that knows the server. */
  readonly client: Deno.HttpClient;
  readonly url = `https://${HOST}`;
  readonly #server: Server;
  readonly #sockets: Set<Socket>;

  readonly #open: () => Deno.HttpClient;
  readonly #clients: Deno.HttpClient[] = [];

  private constructor(
    open: () => Deno.HttpClient,
    server: Server,
    sockets: Set<Socket>,
  ) {
    this.#open = open;
    this.client = this.newClient();
    this.#server = server;
    this.#sockets = sockets;
  }

  /** @param authority The certificate authority that the clients trust. */
  static async open(port: number, authority: string): Promise<Addresses> {
    const sockets = new Set<Socket>();
    let connections = 0;
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
      const address = 1 + connections++ % ADDRESSES;
      passOn(socket, port, `127.0.1.${address}`);
    });
    await new Promise<void>((resolve) =>
      server.listen(0, "127.0.0.1", resolve)
    );
    const { port: own } = server.address() as { port: number };
    const open = () =>
      Deno.createHttpClient({
        caCerts: [authority],
        http2: false,
        poolMaxIdlePerHost: 0,
        proxy: { url: `http://127.0.0.1:${own}` },
      });
    return new Addresses(open, server, sockets);
  }

  /** Returns a client that has no session to resume, and so looks at the certificate. */
  newClient(): Deno.HttpClient {
    const client = this.#open();
    this.#clients.push(client);
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.close();
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Answers the head of a CONNECT request, and connects. */
function passOn(client: Socket, port: number, localAddress: string): void {
  client.once("data", () => {
    const peer = connect({ host: "127.0.0.1", port, localAddress }, () => {
      client.write("HTTP/1.1 200 OK\r\n\r\n");
      client.pipe(peer).pipe(client);
    });
    peer.on("error", () => client.destroy());
    peer.on("close", () => client.destroy());
    client.on("close", () => peer.destroy());
  });
  client.on("error", () => client.destroy());
}
