import http, { type IncomingMessage } from "node:http";
import { type Clock, systemClock } from "../clock.ts";
import type { Client } from "../http/client_address.ts";
import { Problem } from "../http/problem.ts";
import { type Log, silentLog } from "../log.ts";
import { filterAcceptEncoding } from "../http/decode_content.ts";
import { requestUpstream, StaleConnectionError, type UpstreamRequestOptions } from "./request_upstream.ts";
import { requestBody } from "./request_body.ts";
import { TlsAgent } from "./tls_agent.ts";
import { upstreamHeaders } from "./upstream_headers.ts";
import { upstreamResponse } from "./upstream_response.ts";
import { upstreamTarget } from "./upstream_target.ts";
import { isWebSocketRequest, proxyWebSocket } from "./websocket.ts";

/** Settings of {@linkcode createProxy}. */
export interface ProxyOptions {
  /** Where requests go: `http:` or `https:`, and a base path that is put in front of theirs. */
  upstream: URL;
  /**
   * How long the upstream may take until its headers are there, in milliseconds since the last byte of the request was
   * sent. After the headers there is no limit.
   *
   * @default {30_000}
   */
  timeoutMs?: number;
  /** Gets `rep.upstream.failed`. @default {silentLog} */
  log?: Log;
  /** @default {systemClock} */
  clock?: Clock;
}

/** What may differ from one proxied request to the next. */
export interface ProxyCallOptions {
  /**
   * Whether to ask for no other content codings than those that `decodeContent()` can undo.
   *
   * @default {false}
   */
  decodable?: boolean;
  /**
   * Names of request headers that the upstream is not to see.
   *
   * @default {[]}
   */
  omitHeaders?: readonly string[];
}

/** Hands requests on to the upstream. */
export interface Proxy {
  /**
   * Answers a request with what the upstream answers, byte for byte, redirects included. Both bodies stream.
   *
   * @param request As `Deno.serve` gives it: a WebSocket can only be accepted with that very object, and the response to
   * such a request must be returned untouched.
   * @throws {Problem} 502 if the upstream cannot be reached or does not speak HTTP, 504 if its headers are not there in
   * time, 501 for CONNECT and TRACE, 400 or 426 for a WebSocket handshake that is none.
   */
  (request: Request, client: Client, call?: ProxyCallOptions): Promise<Response>;
  /** Ends the connections to the upstream, those in use too, and all WebSockets. */
  close(): void;
}

/**
 * Makes a reverse proxy.
 *
 * @throws {TypeError} If the upstream is not a plain `http:` or `https:` URL.
 */
export function createProxy(options: ProxyOptions): Proxy {
  const { upstream, timeoutMs = 30_000, log = silentLog, clock = systemClock } = options;
  checkUpstream(upstream);
  const Agent = upstream.protocol === "https:" ? TlsAgent : http.Agent;
  const pool = new Agent({ keepAlive: true });
  const unpooled = new Agent({ keepAlive: false });
  const shutdown = new AbortController();

  async function answer(request: Request, client: Client, call: ProxyCallOptions): Promise<Response> {
    refuseTunnels(request.method);
    const asked = askedBy(request);
    const { method, signal } = request;
    const target = upstreamTarget(upstream, request.url);
    const headers = upstreamHeaders(request.headers, client);
    if (isWebSocketRequest(request)) {
      return await proxyWebSocket(request, { upstream, target, headers, timeoutMs, clock, shutdown: shutdown.signal });
    }
    for (const name of call.omitHeaders ?? []) headers.delete(name);
    if (call.decodable) headers.set("accept-encoding", filterAcceptEncoding(headers.get("accept-encoding")));
    const body = await requestBody(request);
    // Deno.serve has dropped a GET's body by now; the upstream would wait for it.
    if (body === null && headers.get("content-length") !== "0") headers.delete("content-length");
    const message = await send({ upstream, agent: pool, method, target, headers, body, signal, timeoutMs, clock });
    try {
      return upstreamResponse(message, { method, onBroken: (error) => warn(asked, error) });
    } catch (error) {
      message.destroy();
      throw error;
    }
  }

  /** A kept connection may be closed just when it is used: what changes nothing is then asked again (RFC 9110 §9.2.2). */
  async function send(options: UpstreamRequestOptions): Promise<IncomingMessage> {
    try {
      return await requestUpstream(options);
    } catch (error) {
      const isRepeatable = error instanceof StaleConnectionError && ["GET", "HEAD"].includes(options.method);
      if (!isRepeatable) throw error;
      return await requestUpstream({ ...options, agent: unpooled });
    }
  }

  function warn(asked: Asked, error: unknown): void {
    log.warn("rep.upstream.failed", { reason: reasonOf(error), ...asked });
  }

  function problemOf(error: unknown, asked: Asked, signal: AbortSignal): Problem {
    if (error instanceof Problem) return error;
    if (signal.aborted || isNamed(error, "AbortError")) {
      return new Problem(502, { detail: "The request was given up before the upstream had answered" });
    }
    warn(asked, error);
    return isNamed(error, "TimeoutError")
      ? new Problem(504, { detail: "The upstream did not answer in time" })
      : new Problem(502, { detail: "The upstream could not be reached, or gave no valid answer" });
  }

  async function proxy(request: Request, client: Client, call: ProxyCallOptions = {}): Promise<Response> {
    const asked = askedBy(request);
    try {
      return await answer(request, client, call);
    } catch (error) {
      throw problemOf(error, asked, request.signal);
    }
  }

  function close(): void {
    shutdown.abort();
    pool.destroy();
    unpooled.destroy();
  }

  return Object.assign(proxy, { close });
}

/** What the log says of a request. Taken at its beginning: one that `Deno.serve` has answered cannot be read any more. */
interface Asked {
  method: string;
  /** Without the query, which may hold secrets. */
  path: string;
}

function askedBy({ method, url }: Request): Asked {
  return { method, path: new URL(url).pathname };
}

function checkUpstream({ protocol, host, username, password, search, hash }: URL): void {
  const isPlain = /^https?:$/.test(protocol) && [username, password, search, hash].every((part) => part === "");
  if (isPlain) return;
  // Without the user name and the password, which the URL in full would show.
  throw new TypeError(
    `Cannot proxy to "${protocol}//${host}": expected an http: or https: URL without user name, password, query and fragment`,
  );
}

/** A tunnel leads past the gateway, and TRACE shows a page what the gateway tells the upstream (RFC 9110 §9.3.8). */
function refuseTunnels(method: string): void {
  if (method === "CONNECT" || method === "TRACE") {
    throw new Problem(501, { detail: `Cannot pass on a ${method} request` });
  }
}

function isNamed(error: unknown, name: string): boolean {
  return error instanceof DOMException && error.name === name;
}

/** What the log says; a host with several addresses fails with one error for each of them, and an empty message. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === "") return error.errors.map(reasonOf).join("; ");
  return error instanceof Error ? error.message || error.name : String(error);
}
