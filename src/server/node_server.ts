/** Serving with `node:http`, which bounds connections and their time, and takes less memory for each of them. */
import http, { type IncomingMessage, ServerResponse } from "node:http";
import https from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Log } from "../observe/log.ts";
import { logTaskError } from "../observe/log.ts";
import { type Clock, every } from "../values/clock.ts";
import { AcceptProbe } from "./accept_probe.ts";
import { NodeRequest } from "./node_request.ts";
import { sendResponse } from "./node_response.ts";
import type { BindServer, Server, ServerOptions } from "./server.ts";

/** The bounds of a {@linkcode bindNodeServer}. */
export interface ConnectionLimits {
  /** Further connections are closed at once. */
  maxConnections: number;
  /** How many connections may wait to be accepted. */
  backlog: number;
  /** Time for the head of a request, in milliseconds since its connection was opened or became idle. */
  headerTimeoutMs: number;
  /** Time for a whole request with its body, in milliseconds. */
  requestTimeoutMs: number;
  /** How long an idle connection stays open, in milliseconds. */
  keepAliveTimeoutMs: number;
}

/** What a {@linkcode bindNodeServer} needs besides its limits. */
interface NodeServerContext {
  clock: Clock;
  /** Receives `rep.connections.refused`. */
  log: Log;
}

/** The limit of `Deno.serve`. */
const MAX_HEAD_BYTES = 65_536;
/** How often timeouts are checked. */
const CHECK_MS = 1_000;
/** How often refused connections are logged. */
const REPORT_MS = 60_000;
/** After this time without a byte, the kernel asks whether the peer is still there. */
const KEEP_ALIVE_PROBE_MS = 60_000;

/** Returns a function that binds servers of `node:http` or `node:https`. */
export function bindNodeServer(limits: ConnectionLimits, context: NodeServerContext): BindServer {
  return async (options) => {
    checkCertificate(options);
    const server = new NodeServer(options, limits, context);
    await server.listen();
    return server;
  };
}

class NodeServer implements Server {
  readonly #options: ServerOptions;
  readonly #limits: ConnectionLimits;
  readonly #context: NodeServerContext;
  readonly #server: http.Server;
  readonly #finished = Promise.withResolvers<void>();
  /** The number of unanswered requests of each open connection. */
  readonly #connections = new Map<Duplex, number>();
  readonly #probe: AcceptProbe;
  readonly #stopReports: () => void;
  /** The number of open sockets; with TLS, also of those whose handshake is not complete. */
  #open = 0;
  #refused = 0;
  #isStopping = false;
  #port = 0;

  constructor(options: ServerOptions, limits: ConnectionLimits, context: NodeServerContext) {
    this.#options = options;
    this.#limits = limits;
    this.#context = context;
    const { clock, log } = context;
    this.#server = createServer(options, limits);
    this.#probe = new AcceptProbe({ clock, connect: (signal) => this.#connect(signal), onSilence: () => this.#fail() });
    const onError = logTaskError(log, "connections");
    this.#stopReports = every(REPORT_MS, () => this.#reportRefused(), { clock, onError });
    this.#listenToEvents();
  }

  get port(): number {
    return this.#port;
  }

  get finished(): Promise<void> {
    return this.#finished.promise;
  }

  /** Binds the port. */
  async listen(): Promise<void> {
    const { hostname: host, port } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#server.once("error", reject);
    this.#server.listen({ host, port, backlog: this.#limits.backlog }, resolve);
    try {
      await promise;
    } catch (error) {
      this.#stopTasks();
      throw toDenoError(error);
    }
    this.#server.off("error", reject);
    this.#server.on("error", () => {}); // #probe notices if it does not accept any more
    this.#port = (this.#server.address() as { port: number }).port;
  }

  shutdown(): Promise<void> {
    if (this.#isStopping) return this.#hasFinished();
    this.#isStopping = true;
    this.#stopTasks();
    this.#server.close();
    for (const [connection, unanswered] of this.#connections) if (unanswered === 0) connection.destroy();
    this.#finishIfClosed();
    return this.#hasFinished();
  }

  #listenToEvents(): void {
    const { tls } = this.#options;
    this.#server.on("connection", (socket: Socket) => this.#accept(socket));
    this.#server.on(tls ? "secureConnection" : "connection", (connection: Socket) => this.#add(connection));
    this.#server.on("request", (message, to) => void this.#answer(this.#toRequest(message), to));
    this.#server.on("upgrade", (message, socket, head) => this.#upgrade(message, { socket, head }));
  }

  /** Not `maxConnections` of `node:net`, which in Deno 2.9 does not report what it refuses. */
  #accept(socket: Socket): void {
    this.#probe.accepted();
    if (this.#open < this.#limits.maxConnections) {
      this.#open++;
      socket.on("close", () => this.#open--);
    } else {
      this.#refused++;
      socket.destroy();
    }
  }

  #add(connection: Duplex): void {
    if (connection.destroyed) return; // refused
    this.#connections.set(connection, 0);
    connection.on("close", () => {
      this.#connections.delete(connection);
      this.#finishIfClosed();
    });
    connection.on("error", () => {}); // the client has gone, which "close" reports
  }

  #toRequest(message: IncomingMessage, upgrade?: { socket: Duplex; head: Uint8Array }): NodeRequest {
    const { hostname, tls } = this.#options;
    const authority = `${hostname.includes(":") ? `[${hostname}]` : hostname}:${this.#port}`;
    return new NodeRequest(message, { scheme: tls ? "https" : "http", authority, ...(upgrade && { upgrade }) });
  }

  /** A response to a request whose connection is not taken over is sent as to any other request. */
  #upgrade(message: IncomingMessage, upgrade: { socket: Duplex; head: Uint8Array }): void {
    const to = new ServerResponse(message);
    to.shouldKeepAlive = false;
    to.assignSocket(upgrade.socket as Socket);
    to.on("finish", () => upgrade.socket.end());
    void this.#answer(this.#toRequest(message, upgrade), to);
  }

  /** Nothing here waits for the body of the response, so that a stream does not keep its request in memory. */
  async #answer(request: NodeRequest, to: ServerResponse): Promise<void> {
    const connection = to.socket!;
    this.#countUntilClosed(connection, to);
    const onDisconnect = () => request.disconnected();
    to.on("close", onDisconnect);
    const response = await this.#respond(request, to.req);
    if (request.isTakenOver) return to.detachSocket(connection);
    if (to.req.complete) to.off("close", onDisconnect); // else the handler may still be reading the request
    this.#send(response, to);
  }

  #countUntilClosed(connection: Duplex, to: ServerResponse): void {
    this.#countUnanswered(connection, 1);
    to.on("close", () => this.#countUnanswered(connection, -1));
  }

  async #respond(request: NodeRequest, { socket }: IncomingMessage): Promise<Response> {
    const { remoteAddress: hostname = "", remotePort: port = 0 } = socket;
    try {
      return await this.#options.handler(request, { remoteAddr: { transport: "tcp", hostname, port } });
    } catch (error) {
      return this.#options.onError(error);
    }
  }

  #send(response: Response, to: ServerResponse): void {
    if (this.#isStopping) to.shouldKeepAlive = false;
    sendResponse(response, to, this.#context.clock).catch((error) => {
      this.#options.onError(error);
      to.destroy();
    });
  }

  #countUnanswered(connection: Duplex, change: 1 | -1): void {
    const unanswered = this.#connections.get(connection);
    if (unanswered === undefined) return; // closed
    this.#connections.set(connection, unanswered + change);
    if (this.#isStopping && unanswered + change === 0) connection.end(() => connection.destroy());
  }

  /** Also resolves if the server had failed before. */
  #hasFinished(): Promise<void> {
    return this.#finished.promise.catch(() => {});
  }

  /** The callback of `close()` does not wait for connections. */
  #finishIfClosed(): void {
    if (this.#isStopping && this.#connections.size === 0) this.#finished.resolve();
  }

  async #connect(signal: AbortSignal): Promise<void> {
    const { hostname } = this.#options;
    const anyAddress: Record<string, string> = { "0.0.0.0": "127.0.0.1", "::": "::1" };
    const connection = await Deno.connect({ hostname: anyAddress[hostname] ?? hostname, port: this.#port, signal });
    connection.close();
  }

  /** Frees the port, so that it can be bound again; connections that are open stay. */
  #fail(): void {
    this.#stopTasks();
    this.#server.close();
    this.#finished.reject(new Error("No connection is accepted any more"));
  }

  #stopTasks(): void {
    this.#probe.close();
    this.#stopReports();
    this.#reportRefused();
  }

  #reportRefused(): void {
    const { maxConnections: max_connections } = this.#limits;
    if (this.#refused > 0) {
      this.#context.log.warn("rep.connections.refused", { refused: this.#refused, max_connections });
    }
    this.#refused = 0;
  }
}

/** `node:https` in Deno reads a certificate only when a client connects. */
function checkCertificate({ hostname, tls }: ServerOptions): void {
  if (tls !== undefined) Deno.listenTls({ hostname, port: 0, cert: tls.cert, key: tls.key }).close();
}

function createServer({ tls }: ServerOptions, limits: ConnectionLimits): http.Server {
  const options = {
    connectionsCheckingInterval: CHECK_MS,
    headersTimeout: limits.headerTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    maxHeaderSize: MAX_HEAD_BYTES,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_PROBE_MS,
  };
  return tls ? https.createServer({ ...options, cert: tls.cert, key: tls.key }) : http.createServer(options);
}

/** Errors of `Deno.listen` for the codes of `node:net`. */
const DENO_ERRORS: Readonly<Record<string, new (message: string, options: ErrorOptions) => Error>> = {
  EADDRINUSE: Deno.errors.AddrInUse,
  EADDRNOTAVAIL: Deno.errors.AddrNotAvailable,
  EACCES: Deno.errors.PermissionDenied,
};

function toDenoError(error: unknown): unknown {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const DenoError = DENO_ERRORS[code];
  return DenoError === undefined ? error : new DenoError((error as Error).message, { cause: error });
}
