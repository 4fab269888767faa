import { BrokenBodyError } from "../../content/proxy/broken_body_error.ts";
import type { ConnectionInfo } from "../../http/respond.ts";
import { describeError, type Log } from "../../observe/log.ts";
import { type Clock, sleep } from "../../values/clock.ts";
import { isGranted } from "../../values/permissions.ts";
import type { Tls } from "./tls.ts";

/** Options of {@linkcode listen}. */
export interface ListenOptions {
  hostname: string;
  /** 0 picks a free port. */
  port: number;
  /** Without it, the port speaks plain HTTP. */
  tls?: Tls | undefined;
  handler: (request: Request, info: ConnectionInfo) => Response | Promise<Response>;
  /** What is served here, for the log: `gateway` or `health`. */
  serves: string;
  clock: Clock;
  log: Log;
  /** When to log `rep.listening`: once the service behind the port is ready. @default {at once} */
  ready?: Promise<unknown>;
}

type Server = Deno.HttpServer<Deno.NetAddr>;

/** How long to wait after running out of file descriptors: connections that end free some. */
const RELISTEN_MS = 500;
/** How long to wait until a listener that was shut down has freed its port. */
const REBIND_MS = 1;
/** How often to try that: another process may have taken the port meanwhile. */
const MAX_REBINDS = 1_000;

/**
 * Binds a port and serves on it.
 *
 * @throws {Deno.errors.NotCapable} If the process lacks `--allow-net`.
 * @throws {Error} If the port cannot be bound or the certificate cannot be used; the message names the address or the
 * files.
 */
export function listen(options: ListenOptions): Listener {
  requireNetPermission(hostAndPort(options.hostname, options.port));
  return new Listener(options, bind(options, options.port, options.tls));
}

/**
 * A port that is served until {@linkcode shutdown}. When the process runs out of file descriptors, `Deno.serve` stops
 * accepting for good; the listener then serves again on the same port.
 */
export class Listener {
  readonly #options: ListenOptions;
  readonly #stopping = new AbortController();
  #server: Server;
  #tls: Tls | undefined;
  /** Servers with an earlier certificate whose last requests are still in flight. */
  readonly #replaced = new Set<Promise<void>>();

  constructor(options: ListenOptions, server: Server) {
    const { tls, ready } = options;
    this.#tls = tls;
    this.#server = server;
    this.#options = { ...options, port: server.addr.port };
    if (ready === undefined) this.#logListening();
    else void ready.then(() => this.#logListening(), () => {}); // the start has failed: nothing is served
    void this.#keepServing(this.#server);
  }

  /** The port that is bound. */
  get port(): number {
    return this.#options.port;
  }

  /**
   * Serves new connections with another certificate; those that are open keep theirs. `Deno.serve` cannot replace a
   * certificate, so the port is bound again, and connections that arrive meanwhile are refused.
   *
   * @returns Whether the certificate is another one.
   * @throws {Error} If the certificate cannot be used; then everything stays as it was.
   */
  async useTls(tls: Tls): Promise<boolean> {
    if (tls.cert === this.#tls?.cert && tls.key === this.#tls.key) return false;
    await bind(this.#options, 0, tls).shutdown(); // if the certificate cannot be used, the port stays bound
    const replaced = this.#server;
    this.#tls = tls;
    const closed = replaced.shutdown().finally(() => this.#replaced.delete(closed));
    this.#replaced.add(closed);
    await this.#rebind();
    return true;
  }

  /** Stops accepting connections. Resolves when the last response is complete. */
  async shutdown(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([this.#server.shutdown(), ...this.#replaced]);
  }

  async #keepServing(server: Server): Promise<void> {
    const { clock, log, serves } = this.#options;
    try {
      return await server.finished;
    } catch (error) {
      log.error("rep.listener.failed", { serves, detail: `listening again: ${error}` });
    }
    while (!this.#stopping.signal.aborted) {
      await sleep(RELISTEN_MS, clock, { signal: this.#stopping.signal });
      if (this.#stopping.signal.aborted || await this.#tryToServe()) return;
    }
  }

  async #tryToServe(): Promise<boolean> {
    const { log, serves } = this.#options;
    try {
      await this.#serveAgain();
      this.#logListening();
      return true;
    } catch (error) {
      log.error("rep.listener.failed", { serves, detail: `trying again: ${error}` });
      return false;
    }
  }

  async #rebind(): Promise<void> {
    for (let tries = 1; !this.#stopping.signal.aborted; tries++) {
      try {
        return await this.#serveAgain();
      } catch (error) {
        if (tries === MAX_REBINDS) throw error;
        await sleep(REBIND_MS, this.#options.clock);
      }
    }
  }

  async #serveAgain(): Promise<void> {
    const server = bind(this.#options, this.port, this.#tls);
    if (this.#stopping.signal.aborted) return await server.shutdown();
    this.#server = server;
    void this.#keepServing(server);
  }

  #logListening(): void {
    const { hostname, serves, log, port } = this.#options;
    const url = `${this.#tls ? "https" : "http"}://${hostAndPort(hostname, port)}/`;
    log.info("rep.listening", { serves, url, port });
  }
}

/** Binding a port without the permission would prompt. */
function requireNetPermission(host: string): void {
  if (isGranted({ name: "net", host })) return;
  throw new Deno.errors.NotCapable(`Cannot listen on ${host}: expected --allow-net`);
}

function bind({ hostname, handler, log }: ListenOptions, port: number, tls: Tls | undefined): Server {
  const options = { hostname, port, onError: (error: unknown) => logError(error, log), onListen() {} };
  try {
    return tls ? Deno.serve({ ...options, cert: tls.cert, key: tls.key }, handler) : Deno.serve(options, handler);
  } catch (cause) {
    throw bindError(cause, hostAndPort(hostname, port), tls);
  }
}

/** Logs a body that ended in an error, which `Deno.serve` would print with its stack. */
function logError(error: unknown, log: Log): Response {
  if (!(error instanceof BrokenBodyError)) log.error("rep.request.failed", { detail: describeError(error) });
  return new Response(null, { status: 500 });
}

/** Deno's messages name neither the address nor the file. The error's class stays. */
function bindError(cause: unknown, address: string, tls: Tls | undefined): Error {
  if (!(cause instanceof Error)) return new Error(`Cannot listen on ${address}: ${cause}`);
  const reason = BIND_REASONS.find(([type]) => cause instanceof type)?.[1];
  const isCertificate = tls !== undefined && reason === undefined;
  const message = isCertificate
    ? `Cannot use --tls-cert "${tls.certFile}" with --tls-key "${tls.keyFile}": ${cause.message}`
    : `Cannot listen on ${address}: ${reason ?? cause.message}`;
  return new (cause.constructor as ErrorConstructor)(message, { cause });
}

const BIND_REASONS = [
  [Deno.errors.AddrInUse, "another process listens there already"],
  [Deno.errors.AddrNotAvailable, "this machine has no such address"],
  [Deno.errors.PermissionDenied, "the system allows this port to privileged users only"],
] as const;

/** Formats an address for a URL: IPv6 in brackets. */
export function hostAndPort(hostname: string, port: number): string {
  return `${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}
