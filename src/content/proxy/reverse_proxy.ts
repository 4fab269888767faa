import http, { type IncomingMessage } from "node:http";
import { filterAcceptEncoding } from "../../coding/decode_content.ts";
import type { ResponseContent } from "../../coding/response_content.ts";
import { Problem } from "../../http/problem.ts";
import type { RequestUrl, RouteContext } from "../../http/routes.ts";
import { messageOf } from "../../observe/log.ts";
import { secondsSince } from "../../observe/metrics.ts";
import type { RequestCounts } from "../content.ts";
import type { ContentOptions } from "../content_options.ts";
import { InFlight, type Transfer, type Transfers } from "../transfers.ts";
import { HeldBytes } from "./held_bytes.ts";
import { requestBody } from "./request_body.ts";
import {
  requestUpstream,
  StaleConnectionError,
  type UpstreamRequestOptions,
} from "./request_upstream.ts";
import { TlsAgent } from "./tls_agent.ts";
import { BrokenBodyError, type UpstreamFailure } from "./upstream_failure.ts";
import { upstreamHeaders } from "./upstream_headers.ts";
import { upstreamResponse } from "./upstream_response.ts";
import { isWebSocketRequest, proxyWebSocket } from "./websocket.ts";

/** Options of {@linkcode ReverseProxy}. */
export interface ReverseProxyOptions extends
  Pick<
    ContentOptions,
    | "basePath"
    | "preserveHost"
    | "rejectWebsockets"
    | "log"
    | "metrics"
    | "clock"
  > {
  /** As `parseUpstream()` returned it. Its path is the base path, which is prepended to the path of each request. */
  upstream: URL;
  /**
   * How long to wait for the response's headers, in milliseconds since the last byte of the request was sent. The body
   * has no time limit.
   */
  timeoutMs: number;
  /** Counts the requests, with their bodies, and WebSockets in flight. */
  transfers: Transfers;
}

/** Settings of a single request. */
export interface ProxyRequestOptions {
  /** Whether the upstream is asked for supported content codings only, and not for all that the client accepts. */
  mayDecode: boolean;
  /** Names of request headers that are not forwarded. */
  omitHeaders: readonly string[];
}

/** What the log says about a request. The path has no query, which may contain secrets. */
interface RequestFields {
  readonly method: string;
  readonly path: string;
}

/** Forwards requests to the upstream. */
export class ReverseProxy {
  readonly #options: ReverseProxyOptions;
  readonly #pool: http.Agent;
  readonly #unpooled: http.Agent;
  readonly #webSockets = new InFlight();
  /** Requests whose body is being received, and open WebSockets. */
  readonly #incoming = new InFlight();
  readonly #webSocketBytes = new HeldBytes();
  readonly #shutdown = new AbortController();

  constructor(options: ReverseProxyOptions) {
    this.#options = options;
    const Agent = options.upstream.protocol === "https:"
      ? TlsAgent
      : http.Agent;
    this.#pool = new Agent({ keepAlive: true });
    this.#unpooled = new Agent({ keepAlive: false });
  }

  /**
   * Returns the upstream's response to a request, byte for byte, redirects included; it may leave it to the caller to
   * create the response. Both bodies are streamed. A body that breaks off is logged, and ends in a `BrokenBodyError`.
   *
   * @param request The object that `Deno.serve` passed to its handler: only that one can be upgraded to a WebSocket,
   * and the response to such a request has to be returned unchanged.
   * @throws {Problem} 502 if the upstream cannot be reached or its response is not HTTP, 504 if the headers do not
   * arrive in time, 429 or 503 if too many responses are being sent, 501 for CONNECT and TRACE, 400 or 426 for an
   * invalid WebSocket handshake.
   */
  async forward(
    request: Request,
    context: RouteContext,
    options: ProxyRequestOptions,
  ): Promise<ResponseContent> {
    const fields = { method: request.method, path: context.url.path }; // now: Deno forgets them with the response
    const transfer = this.#options.transfers.begin(context.client);
    const isWebSocket = isWebSocketRequest(request);
    const isIncoming = isWebSocket || request.body !== null;
    const onReceived = isIncoming ? this.#startReceiving() : () => {};
    const onEnd = (error?: Error) => {
      onReceived();
      transfer.end();
      if (error !== undefined) this.#warn(error, fields, "broken_body");
    };
    try {
      rejectTunnels(request.method);
      if (isWebSocket) return await this.#bridge(request, context, onEnd);
      return await this.#forward(request, context, {
        ...options,
        transfer,
        onReceived,
        onEnd,
      });
    } catch (error) {
      onEnd();
      throw this.#toProblem(error, fields, request.signal);
    }
  }

  /** Closes the remaining WebSockets with 1001, and then the connections to the upstream, including those in use. */
  close(): void {
    this.#shutdown.abort();
    this.#pool.destroy();
    this.#unpooled.destroy();
  }

  /** Resolves when no body is being received and no WebSocket is open: at once, if that is so now. */
  drainIncoming(): Promise<void> {
    return this.#incoming.idle();
  }

  /** How many requests are in flight now. */
  countRequests(): RequestCounts {
    const webSockets = this.#webSockets.count;
    const uploads = this.#incoming.count - webSockets;
    return { uploads, all: this.#options.transfers.count - webSockets };
  }

  /** @returns What to call when everything has been received. Only the first call has an effect. */
  #startReceiving(): () => void {
    let isReceiving = true;
    this.#incoming.add();
    return () => {
      if (isReceiving) this.#incoming.remove();
      isReceiving = false;
    };
  }

  async #bridge(
    request: Request,
    context: RouteContext,
    onEnd: () => void,
  ): Promise<Response> {
    if (this.#options.rejectWebsockets) {
      throw new Problem(501, { detail: "WebSockets are turned off" });
    }
    this.#webSockets.add();
    const onClose = () => {
      this.#webSockets.remove();
      onEnd();
    };
    try {
      return await this.#connectWebSockets(request, context, onClose);
    } catch (error) {
      onClose();
      throw error;
    }
  }

  async #connectWebSockets(
    request: Request,
    context: RouteContext,
    onClose: () => void,
  ): Promise<Response> {
    const { upstream, timeoutMs, clock } = this.#options;
    return await proxyWebSocket(request, {
      upstream,
      target: this.#targetOf(context),
      headers: this.#headersFor(request, context),
      timeoutMs,
      clock,
      shutdown: this.#shutdown.signal,
      allHeldBytes: this.#webSocketBytes,
      onClose,
    });
  }

  async #forward(
    request: Request,
    context: RouteContext,
    options: ForwardOptions,
  ): Promise<ResponseContent> {
    const { clock, metrics } = this.#options;
    const { method, signal } = request;
    const target = this.#targetOf(context);
    const headers = forwardedHeaders(
      this.#headersFor(request, context),
      options,
    );
    const body = await requestBody(request, clock);
    if (body === null) options.onReceived();
    // Deno.serve drops the body of a GET; the upstream would wait for it.
    if (body === null && headers.get("content-length") !== "0") {
      headers.delete("content-length");
    }
    const startedAt = clock.monotonic();
    const message = await this.#send({
      method,
      target,
      headers,
      body: body && untilReceived(body, options.onReceived),
      signal,
    });
    metrics.record("rep.upstream.duration", secondsSince(startedAt, clock));
    try {
      const { transfer, onEnd } = options;
      return {
        ...upstreamResponse(message, { method, transfer, onEnd }),
        toDecodingError: decodingErrors(onEnd),
      };
    } catch (error) {
      message.destroy();
      throw error;
    }
  }

  #targetOf({ url }: RouteContext): string {
    return upstreamTarget(this.#options.upstream, url, this.#options.basePath);
  }

  #headersFor({ headers }: Request, { client }: RouteContext): Headers {
    return upstreamHeaders(headers, client, this.#options);
  }

  /**
   * Sends a request. The upstream may close an idle connection at the moment it is reused: a safe request is then sent
   * once more (RFC 9110 §9.2.2).
   */
  async #send(request: SentRequest): Promise<IncomingMessage> {
    const { upstream, timeoutMs, clock } = this.#options;
    const common = { ...request, upstream, timeoutMs, clock };
    try {
      return await requestUpstream({ ...common, agent: this.#pool });
    } catch (error) {
      const isRepeatable = error instanceof StaleConnectionError &&
        ["GET", "HEAD"].includes(request.method);
      if (!isRepeatable) throw error;
      return await requestUpstream({ ...common, agent: this.#unpooled });
    }
  }

  #toProblem(
    error: unknown,
    fields: RequestFields,
    signal: AbortSignal,
  ): Problem {
    if (error instanceof Problem) return error;
    if (signal.aborted || isDomException(error, "AbortError")) {
      return new Problem(502, {
        detail: "The request was aborted before the upstream responded",
      });
    }
    const isTimeout = isDomException(error, "TimeoutError");
    this.#warn(error, fields, isTimeout ? "timeout" : "unreachable");
    return isTimeout
      ? new Problem(504, { detail: "The upstream did not respond in time" })
      : new Problem(502, {
        detail:
          "The upstream could not be reached, or its response was invalid",
      });
  }

  #warn(error: unknown, fields: RequestFields, reason: UpstreamFailure): void {
    this.#options.metrics.count("rep.upstream.errors", 1, reason);
    this.#options.log.warn("rep.upstream.failed", {
      reason,
      detail: detailOf(error),
      ...fields,
    });
  }
}

type SentRequest = Pick<
  UpstreamRequestOptions,
  "method" | "target" | "headers" | "body" | "signal"
>;

interface ForwardOptions extends ProxyRequestOptions {
  transfer: Transfer;
  /** Called when the body of the request has been received. */
  onReceived: () => void;
  onEnd: (error?: Error) => void;
}

/**
 * Returns the request target for the upstream: its base path, followed by the path and the query of the request.
 *
 * The path is the normalized one, since the gateway's own routes are matched against it. Dot segments are
 * resolved before the base path is prepended, so no request leaves the base path. The path is not decoded or normalized
 * further. The query is forwarded byte for byte. The host is not part of the result: a request cannot choose it.
 *
 * @param upstream Its path is the base path.
 * @param basePath The beginning of the request's path that the upstream does not know, such as `/app`.
 * @returns The target in origin form (RFC 9112 §3.2.1), which always begins with a slash.
 */
export function upstreamTarget(
  upstream: URL,
  url: RequestUrl,
  basePath = "",
): string {
  const base = upstream.pathname.replace(/\/$/, "");
  const path = url.path.slice(basePath.length);
  return base + (path.startsWith("/") ? path : `/${path}`) + url.search;
}

/** A tunnel would bypass the gateway, and TRACE would reveal the gateway's own headers to a page (RFC 9110 §9.3.8). */
function rejectTunnels(method: string): void {
  if (method === "CONNECT" || method === "TRACE") {
    throw new Problem(501, { detail: `Cannot forward a ${method} request` });
  }
}

function forwardedHeaders(
  headers: Headers,
  { omitHeaders, mayDecode }: ProxyRequestOptions,
): Headers {
  for (const name of omitHeaders) headers.delete(name);
  if (mayDecode) {
    headers.set(
      "accept-encoding",
      filterAcceptEncoding(headers.get("accept-encoding")),
    );
  }
  return headers;
}

async function* untilReceived(
  body: AsyncIterable<Uint8Array>,
  onReceived: () => void,
): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } finally {
    onReceived();
  }
}

/** Returns a function that reports a body that cannot be decoded, and returns the error in which it ends. */
function decodingErrors(
  onEnd: ForwardOptions["onEnd"],
): (error: unknown) => Error {
  return (error) => {
    const invalid = new BrokenBodyError(
      `Cannot decode the body: ${messageOf(error)}`,
    );
    onEnd(invalid);
    return invalid;
  };
}

function isDomException(error: unknown, name: string): boolean {
  return error instanceof DOMException && error.name === name;
}

/** Returns what the log says. A host with several addresses fails with one error for each, and an empty message. */
function detailOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === "") {
    return error.errors.map(detailOf).join("; ");
  }
  return error instanceof Error ? error.message || error.name : String(error);
}
