import type http from "node:http";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { copyHeaders } from "../../http/copy_headers.ts";
import type { UpgradableRequest } from "../../http/upgradable_request.ts";
import type { Clock } from "../../values/clock.ts";
import { endToEndHeaders } from "./hop_by_hop.ts";
import { openRequest } from "./request_upstream.ts";

/** Options of {@linkcode tunnelWebSocket}. */
export interface TunnelOptions {
  /** Scheme, host and port to connect to. */
  upstream: URL;
  /** Opens a connection for the upstream's scheme, which is not reused. */
  agent: http.Agent;
  /** The request target, in origin form. */
  target: string;
  /** Headers for the upstream, without hop-by-hop headers. */
  headers: Headers;
  /** How long the upstream's handshake may take, in milliseconds. */
  timeoutMs: number;
  clock: Clock;
  /** Aborts the handshake, or breaks both connections. */
  shutdown: AbortSignal;
  /** Called once both connections are closed. */
  onClose: () => void;
}

/** An upstream that has accepted a handshake. */
interface Accepted {
  readonly message: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Uint8Array;
}

/**
 * Forwards the handshake of a WebSocket, and then every byte in both directions, with backpressure. Unlike the bridge
 * of two `WebSocket`s, this keeps extensions, and a connection that breaks on one side breaks on the other.
 *
 * @returns A response without meaning: the connection of the request is taken over.
 * @throws {DOMException} `TimeoutError` if the upstream's handshake takes too long, `AbortError` if the client
 * disconnected.
 * @throws {Error} If the upstream cannot be reached, or rejects the handshake.
 */
export async function tunnelWebSocket(request: UpgradableRequest, options: TunnelOptions): Promise<Response> {
  const { shutdown, onClose } = options;
  const upstream = await handshake(AbortSignal.any([request.signal, shutdown]), options);
  const client = request.takeOver();
  client.socket.write(acceptance(upstream.message), "latin1");
  client.socket.write(upstream.head);
  upstream.socket.write(client.head);
  join(client.socket, upstream.socket, { shutdown, onClose });
  return new Response(null, { status: 204 });
}

/** Sends the client's handshake, and waits for the upstream's. */
async function handshake(signal: AbortSignal, options: TunnelOptions): Promise<Accepted> {
  const { upstream, agent, target, timeoutMs, clock } = options;
  signal.throwIfAborted();
  const headers = copyHeaders(options.headers, (name) => name !== "content-length");
  headers.set("connection", "Upgrade");
  headers.set("upgrade", "websocket");
  const request = openRequest({ upstream, agent, method: "GET", target, headers, body: null });
  const { promise, resolve, reject } = Promise.withResolvers<Accepted>();
  const fail = (error: Error) => {
    reject(error);
    request.destroy();
  };
  const onAbort = () => fail(new DOMException("The client disconnected", "AbortError"));
  const onTimeout = () => fail(new DOMException(`No WebSocket handshake within ${timeoutMs} ms`, "TimeoutError"));
  const cancelTimeout = clock.after(timeoutMs, onTimeout);
  signal.addEventListener("abort", onAbort);
  request.on("upgrade", (message, socket, head) => resolve({ message, socket, head }));
  request.on("response", ({ statusCode }) => fail(new Error(`The upstream rejected the WebSocket with ${statusCode}`)));
  request.on("error", reject);
  request.on("close", () => reject(new Error("The connection was closed during the WebSocket handshake")));
  request.end();
  try {
    return await promise;
  } finally {
    cancelTimeout();
    signal.removeEventListener("abort", onAbort);
  }
}

/** The head of the response to the client (RFC 6455 §4.2.2). */
function acceptance(message: IncomingMessage): string {
  const lines = ["HTTP/1.1 101 Switching Protocols", "connection: Upgrade", "upgrade: websocket"];
  endToEndHeaders(message).forEach((value, name) => void lines.push(`${name}: ${value}`));
  return [...lines, "", ""].join("\r\n");
}

/** Forwards bytes between two sockets until both are closed. */
function join(client: Duplex, upstream: Duplex, { shutdown, onClose }: Pick<TunnelOptions, "shutdown" | "onClose">) {
  const sockets = [client, upstream];
  const breakBoth = () => sockets.forEach((socket) => socket.destroy());
  let open = sockets.length;
  for (const socket of sockets) {
    socket.on("error", () => {}); // "close" follows
    socket.on("close", () => {
      breakBoth();
      if (--open > 0) return;
      shutdown.removeEventListener("abort", breakBoth);
      onClose();
    });
  }
  client.pipe(upstream);
  upstream.pipe(client);
  shutdown.addEventListener("abort", breakBoth);
}
