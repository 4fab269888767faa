import { BrokenBodyError } from "../../core/http/broken_body.ts";
import type { ConnectionInfo } from "../../core/http/respond.ts";
import { describeError, type Log, messageOf } from "../../core/observe/log.ts";
import { type Clock, sleep } from "../../core/values/clock.ts";
import { hostAndPort } from "../../core/values/urls.ts";

/** A certificate chain and its private key, both PEM. */
export interface Tls {
  readonly cert: string;
  readonly key: string;
  /** The paths of both, for messages. */
  readonly certFile: string;
  readonly keyFile: string;
  /** When the certificate expires; `undefined` if it cannot be parsed. */
  readonly notAfter: Date | undefined;
}

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
  /** What the port serves, for the log: `gateway` or `health`. */
  serves: string;
  /** The path under which it serves that, for the log: empty, or for example `/app`. */
  path: string;
  clock: Clock;
  log: Log;
}

type Server = Deno.HttpServer<Deno.NetAddr>;

/**
 * The first and the longest pause between attempts to bind the port again. An attempt may fail because another process
 * has bound the port since, or because there are no file descriptors until connections end.
 */
const MIN_PAUSE_MS = 1;
const MAX_PAUSE_MS = 500;

/**
 * Binds a port and serves on it.
 *
 * @throws {Error} If the port cannot be bound or the certificate cannot be used; the message names the address or the
 * files.
 */
export function listen(options: ListenOptions): Listener {
  if (options.tls) checkTls(options.tls);
  return new Listener(options, bind(options, options.port, options.tls));
}

/**
 * Serves on a port until {@linkcode shutdown}. When the process runs out of file descriptors, `Deno.serve` stops
 * accepting connections forever, so the listener binds the port again.
 */
export class Listener {
  /** The port that is bound. */
  readonly port: number;
  readonly #options: ListenOptions;
  readonly #stopping = new AbortController();
  #server: Server;
  #tls: Tls | undefined;
  /** The shutdowns of servers with an earlier certificate, which finish their last requests. */
  readonly #replaced = new Set<Promise<void>>();
  #rebinding: Promise<void> | undefined;
  /** Whether the log reported that nothing is served. */
  #isDown = false;

  constructor(options: ListenOptions, server: Server) {
    this.#options = options;
    this.#tls = options.tls;
    this.#server = server;
    this.port = server.addr.port;
    void this.#keepServing(server);
  }

  /** The address and the port, as in a URL. */
  get address(): string {
    return hostAndPort(this.#options.hostname, this.port);
  }

  /** The scheme of its connections. */
  get scheme(): "http" | "https" {
    return this.#tls ? "https" : "http";
  }

  /** When the certificate in use expires, in seconds since the Unix epoch; `undefined` without a certificate. */
  get certificateNotAfter(): number | undefined {
    return this.#tls?.notAfter && this.#tls.notAfter.getTime() / 1_000;
  }

  /**
   * Serves new connections with another certificate; connections with requests in flight keep theirs.
   *
   * `Deno.serve` cannot replace a certificate, so the listener binds the port again. In Deno 2.9, `shutdown()` breaks
   * request bodies over HTTP/1.1 that are still being received (denoland/deno#36809), so the listener waits for them;
   * until then, new connections get the old certificate. Then it refuses connections for some milliseconds, and closes
   * connections that have not sent a request. (Binding the port twice requires `--unstable-net`; Deno exits without it.)
   *
   * @param finishIncoming Waits for the requests that `shutdown()` would break.
   * @returns Whether the certificate changed.
   * @throws {Error} If the certificate cannot be used. The previous one then stays in use.
   */
  async useTls(
    tls: Tls,
    finishIncoming: () => Promise<void>,
  ): Promise<boolean> {
    if (tls.cert === this.#tls?.cert && tls.key === this.#tls.key) return false;
    checkTls(tls);
    await finishIncoming();
    this.#tls = tls;
    if (this.#rebinding === undefined && !this.#isDown) {
      void this.#replace(this.#server);
    }
    await this.#rebind();
    return true;
  }

  /** Stops accepting connections. Resolves when the last response is complete. */
  async shutdown(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([this.#server.shutdown(), ...this.#replaced]);
  }

  async #replace(server: Server): Promise<void> {
    const closed = server.shutdown();
    this.#replaced.add(closed);
    await closed;
    this.#replaced.delete(closed);
  }

  async #keepServing(server: Server): Promise<void> {
    try {
      return await server.finished;
    } catch (error) {
      if (server !== this.#server) return; // useTls() replaced it
      this.#reportDown(error);
    }
    await this.#pause(MAX_PAUSE_MS);
    if (server === this.#server) await this.#rebind();
  }

  /** Binds the port again, with the newest certificate. Simultaneous calls share one attempt. */
  async #rebind(): Promise<void> {
    this.#rebinding ??= this.#tryToRebind().finally(() =>
      this.#rebinding = undefined
    );
    await this.#rebinding;
  }

  async #tryToRebind(): Promise<void> {
    let pauseMs = MIN_PAUSE_MS;
    while (!this.#stopping.signal.aborted) {
      try {
        this.#server = bind(this.#options, this.port, this.#tls);
        break;
      } catch (error) {
        if (pauseMs === MAX_PAUSE_MS) this.#reportDown(error);
      }
      await this.#pause(pauseMs);
      pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS);
    }
    if (this.#stopping.signal.aborted) return;
    if (this.#isDown) this.logListening();
    this.#isDown = false;
    void this.#keepServing(this.#server);
  }

  #pause(ms: number): Promise<void> {
    return sleep(ms, this.#options.clock, { signal: this.#stopping.signal });
  }

  /** Logs once that nothing is served, until the port is bound again. */
  #reportDown(error: unknown): void {
    const { log, serves } = this.#options;
    if (this.#isDown) return;
    this.#isDown = true;
    const detail = `listening again: ${error}`;
    log.error("rep.listener.failed", { serves, detail });
  }

  /** The URL for a browser on this machine. */
  get link(): string {
    const host = this.address.replace(/^(?:0\.0\.0\.0|\[::\])/, "localhost");
    return `${this.scheme}://${host}${this.#options.path}/`;
  }

  /** Logs where the process listens: when it is ready, and after each time that it was down. */
  logListening(): void {
    const { serves, log, path } = this.#options;
    const url = `${this.scheme}://${this.address}${path}/`;
    const not_after = this.#tls?.notAfter?.toISOString();
    log.info("rep.listening", { serves, url, port: this.port, not_after });
  }
}

function bind(
  { hostname, handler, log }: ListenOptions,
  port: number,
  tls: Tls | undefined,
): Server {
  const onError = (error: unknown) => logError(error, log);
  const address = { hostname, port, onError, onListen() {} };
  const certificate = tls && { cert: tls.cert, key: tls.key };
  try {
    return Deno.serve({ ...address, ...certificate }, handler);
  } catch (cause) {
    throw bindError(cause, hostAndPort(hostname, port));
  }
}

/** Returns an error whose message names the address, unlike Deno's. */
export function bindError(cause: unknown, address: string): Error {
  const message = `Cannot listen on ${address}: ${messageOf(cause)}`;
  return new Error(message, { cause });
}

/** Logs the error of a response body, which `Deno.serve` would print with its stack. */
function logError(error: unknown, log: Log): Response {
  if (!(error instanceof BrokenBodyError)) {
    log.error("rep.request.failed", { detail: describeError(error) });
  }
  return new Response(null, { status: 500 });
}

/**
 * Checks that a certificate and a key can be used, without binding a port.
 *
 * @throws {Error} If they cannot be used. The message contains the paths of the files.
 */
function checkTls(tls: Tls): void {
  try {
    Deno.createHttpClient({ cert: tls.cert, key: tls.key }).close();
  } catch (cause) {
    const files =
      `--tls-cert "${tls.certFile}" with --tls-key "${tls.keyFile}"`;
    throw new Error(`Cannot use ${files}: ${messageOf(cause)}`, { cause });
  }
}
