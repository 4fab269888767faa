import { BrokenBodyError } from "../../content/proxy/upstream_failure.ts";
import type { ConnectionInfo } from "../../http/respond.ts";
import { describeError, type Log, messageOf } from "../../observe/log.ts";
import { type Clock, sleep } from "../../values/clock.ts";
import { isGranted } from "../../values/runtime.ts";
import type { Tls } from "./tls.ts";

/** Options of {@linkcode listen}. */
export interface ListenOptions {
  hostname: string;
  /** 0 picks a free port. */
  port: number;
  /** Without it, the port speaks plain HTTP. */
  tls: Tls | undefined;
  handler: (
    request: Request,
    info: ConnectionInfo,
  ) => Response | Promise<Response>;
  /** What is served here, for the log: `gateway` or `health`. */
  serves: string;
  /** The path under which it is served, for the log: empty, or such as `/app`. */
  path: string;
  clock: Clock;
  log: Log;
  /**
   * Called before the port is closed for a new certificate: lets what `Deno.HttpServer.shutdown()` would break finish.
   *
   * @default {does nothing}
   */
  finishUploads?: () => Promise<void>;
  /** When to log `rep.listening`: once the service behind the port is ready. */
  ready: Promise<unknown>;
}

type Server = Deno.HttpServer<Deno.NetAddr>;

/**
 * How long to wait between attempts to bind the port again, at first and at most: a listener that was shut down frees
 * it at once, another process that has taken it meanwhile may keep it, and connections that end free descriptors.
 */
const REBIND_MS = [1, 500] as const;

/**
 * Binds a port and serves on it.
 *
 * @throws {Deno.errors.NotCapable} If the process lacks `--allow-net`.
 * @throws {Error} If the port cannot be bound or the certificate cannot be used; the message names the address or the
 * files.
 */
export function listen(options: ListenOptions): Listener {
  requireNetPermission(hostAndPort(options.hostname, options.port));
  if (options.tls) checkTls(options.tls);
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
  #rebinding: Promise<void> | undefined;
  /** Whether the log says that nothing is served. */
  #isDown = false;

  constructor(options: ListenOptions, server: Server) {
    const { tls, ready } = options;
    this.#tls = tls;
    this.#server = server;
    this.#options = { ...options, port: server.addr.port };
    void ready.then(() => this.#logListening(), () => {}); // the start has failed: nothing is served
    void this.#keepServing(this.#server);
  }

  /** The port that is bound. */
  get port(): number {
    return this.#options.port;
  }

  /** The end of the certificate in use, in seconds since the Unix epoch; `undefined` without one. */
  get certificateNotAfter(): number | undefined {
    return this.#tls?.notAfter && this.#tls.notAfter.getTime() / 1_000;
  }

  /**
   * Serves new connections with another certificate; requests in flight are finished with theirs. `Deno.serve` cannot
   * replace a certificate, so the port is bound again. `shutdown()` of Deno 2.9 breaks request bodies over HTTP/1.1 that
   * are still being received (denoland/deno#36809), so they are waited for: until then, new connections get the old
   * certificate. Then, for some milliseconds, connections are refused, and those that
   * have not sent a request are closed. (To bind it twice, Deno needs `--unstable-net`, and exits without it.)
   *
   * @returns Whether the certificate is another one.
   * @throws {Error} If the certificate cannot be used; then everything stays as it was.
   */
  async useTls(tls: Tls): Promise<boolean> {
    if (tls.cert === this.#tls?.cert && tls.key === this.#tls.key) return false;
    checkTls(tls);
    await this.#options.finishUploads?.();
    this.#tls = tls;
    if (this.#rebinding === undefined && !this.#isDown) {
      const closed = this.#server.shutdown().finally(() =>
        this.#replaced.delete(closed)
      );
      this.#replaced.add(closed);
    }
    await this.#rebind();
    return true;
  }

  /** Stops accepting connections. Resolves when the last response is complete. */
  async shutdown(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([this.#server.shutdown(), ...this.#replaced]);
  }

  async #keepServing(server: Server): Promise<void> {
    try {
      return await server.finished;
    } catch (error) {
      if (server !== this.#server) return; // replaced
      this.#reportDown(error);
    }
    await this.#pause(REBIND_MS[1]);
    if (server === this.#server) await this.#rebind();
  }

  /** Serves on the same port again, with the certificate that is the newest by then. Calls during a call share it. */
  #rebind(): Promise<void> {
    return this.#rebinding ??= this.#tryToRebind().finally(() =>
      this.#rebinding = undefined
    );
  }

  async #tryToRebind(): Promise<void> {
    for (
      let pauseMs: number = REBIND_MS[0];
      !this.#stopping.signal.aborted;
      pauseMs *= 2
    ) {
      try {
        this.#server = bind(this.#options, this.port, this.#tls);
        if (this.#isDown) this.#logListening();
        this.#isDown = false;
        return void this.#keepServing(this.#server);
      } catch (error) {
        if (pauseMs > REBIND_MS[1]) this.#reportDown(error);
      }
      await this.#pause(Math.min(pauseMs, REBIND_MS[1]));
    }
  }

  #pause(ms: number): Promise<void> {
    return sleep(ms, this.#options.clock, { signal: this.#stopping.signal });
  }

  /** Logs once that nothing is served, until the port is bound again. */
  #reportDown(error: unknown): void {
    const { log, serves } = this.#options;
    if (!this.#isDown) {
      log.error("rep.listener.failed", {
        serves,
        detail: `listening again: ${error}`,
      });
    }
    this.#isDown = true;
  }

  #logListening(): void {
    const { hostname, serves, log, port, path } = this.#options;
    const url = `${this.#tls ? "https" : "http"}://${
      hostAndPort(hostname, port)
    }${path}/`;
    log.info("rep.listening", {
      serves,
      url,
      port,
      not_after: this.#tls?.notAfter?.toISOString(),
    });
  }
}

/** Binding a port without the permission would prompt. */
function requireNetPermission(host: string): void {
  if (isGranted({ name: "net", host })) return;
  throw new Deno.errors.NotCapable(
    `Cannot listen on ${host}: expected --allow-net`,
  );
}

function bind(
  { hostname, handler, log }: ListenOptions,
  port: number,
  tls: Tls | undefined,
): Server {
  const options = {
    hostname,
    port,
    onError: (error: unknown) => logError(error, log),
    onListen() {},
  };
  try {
    return tls
      ? Deno.serve({ ...options, cert: tls.cert, key: tls.key }, handler)
      : Deno.serve(options, handler);
  } catch (cause) {
    throw bindError(cause, hostAndPort(hostname, port));
  }
}

/** Logs a body that ended in an error, which `Deno.serve` would print with its stack. */
function logError(error: unknown, log: Log): Response {
  if (!(error instanceof BrokenBodyError)) {
    log.error("rep.request.failed", { detail: describeError(error) });
  }
  return new Response(null, { status: 500 });
}

/**
 * Checks that a certificate and a key can be used, without binding a port, for which the permission may be missing.
 *
 * @throws {Error} If they cannot; the message names the files.
 */
function checkTls(tls: Tls): void {
  try {
    Deno.createHttpClient({ cert: tls.cert, key: tls.key }).close();
  } catch (cause) {
    const { certFile, keyFile } = tls;
    throw withMessage(
      cause,
      `Cannot use --tls-cert "${certFile}" with --tls-key "${keyFile}": ${
        messageOf(cause)
      }`,
    );
  }
}

/** Deno's messages do not name the address. The error's class stays. */
function bindError(cause: unknown, address: string): Error {
  const reason = BIND_REASONS.find(([type]) => cause instanceof type)?.[1];
  return withMessage(
    cause,
    `Cannot listen on ${address}: ${reason ?? messageOf(cause)}`,
  );
}

function withMessage(cause: unknown, message: string): Error {
  return new (cause instanceof Error
    ? cause.constructor as ErrorConstructor
    : Error)(message, { cause });
}

const BIND_REASONS = [
  [
    Deno.errors.AddrInUse,
    "another process listens there already; expected another --port or --health-port",
  ],
  [
    Deno.errors.AddrNotAvailable,
    "this machine has no such address; expected another --hostname",
  ],
  [
    Deno.errors.PermissionDenied,
    "the system allows this port to privileged users only",
  ],
] as const;

/** Formats an address for a URL: IPv6 in brackets. */
export function hostAndPort(hostname: string, port: number): string {
  return `${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}
