import { type Clock, sleep } from "../clock.ts";
import type { ConnectionInfo } from "../http/respond.ts";
import type { Log } from "../log.ts";
import { isGranted } from "../permissions.ts";
import { BrokenBodyError } from "../proxy/broken_body_error.ts";

/** Where to listen, and who answers. */
export interface ListenOptions {
  hostname: string;
  /** 0 takes a free one. */
  port: number;
  /** PEM texts. */
  tls?: { cert: string; key: string } | undefined;
  handler: (request: Request, info: ConnectionInfo) => Promise<Response>;
  /** What is served here, for the log. */
  serves: string;
  clock: Clock;
  log: Log;
}

/** Somebody who listens. */
export interface Listener {
  /** The port that was taken. */
  readonly port: number;
  /** Ends when the last request that is under way does. */
  shutdown(): Promise<void>;
}

/** A process that is out of file descriptors gets some back when connections end. */
const PAUSE_MS = 500;

/**
 * Listens until it is told to stop. When the process runs out of file descriptors, `Deno.serve` stops accepting for good:
 * then it starts again, on the same port.
 */
export function listen(options: ListenOptions): Listener {
  const { clock, log, serves } = options;
  requireNetwork(options);
  const stopping = new AbortController();
  let server = serve(options);
  const { port } = server.addr;
  log.info("rep.listening", { serves, url: urlOf(options, port), port });
  void keepListening();

  async function keepListening(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await server.finished;
        return;
      } catch (error) {
        log.error("rep.listener.failed", { serves, detail: `listening again: ${error}` });
      }
      await listenAgain();
    }
  }

  async function listenAgain(): Promise<void> {
    for (;;) {
      await sleep(PAUSE_MS, clock, { signal: stopping.signal });
      if (stopping.signal.aborted) return;
      try {
        server = serve({ ...options, port });
        return log.info("rep.listening", { serves, url: urlOf(options, port), port });
      } catch (error) {
        log.error("rep.listener.failed", { serves, detail: `trying again: ${error}` });
      }
    }
  }

  return {
    port,
    shutdown() {
      stopping.abort();
      return server.shutdown();
    },
  };
}

/** Without the permission, listening would stop and prompt. */
function requireNetwork({ hostname, port }: ListenOptions): void {
  const host = hostAndPort(hostname, port);
  if (isGranted({ name: "net", host })) return;
  throw new Deno.errors.NotCapable(`Cannot listen on ${host}: expected --allow-net`);
}

function serve({ hostname, port, tls, handler, log }: ListenOptions): Deno.HttpServer<Deno.NetAddr> {
  const onListen = () => {}; // the log says it
  const onError = (error: unknown) => logError(error, log);
  return tls
    ? Deno.serve({ hostname, port, onListen, onError, ...tls }, handler)
    : Deno.serve({ hostname, port, onListen, onError }, handler);
}

/** Logs a body that ended in an error, which `Deno.serve` would print with its stack. */
function logError(error: unknown, log: Log): Response {
  const detail = error instanceof Error ? error.stack ?? error.message : String(error);
  if (!(error instanceof BrokenBodyError)) log.error("rep.request.failed", { detail });
  return new Response(null, { status: 500 });
}

function urlOf({ hostname, tls }: ListenOptions, port: number): string {
  return `${tls ? "https" : "http"}://${hostAndPort(hostname, port)}/`;
}

function hostAndPort(hostname: string, port: number): string {
  return `${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}
