import type { IncomingMessage } from "node:http";
import {
  decodeContent,
  encodeContent,
  filterAcceptEncoding,
} from "../coding/content_encoding.ts";
import { contentCodings, isEncoded } from "../../core/http/headers.ts";
import { Problem } from "../../core/http/problem.ts";
import type { RouteContext } from "../../core/http/routes.ts";
import { type Log, logOnce } from "../../core/observe/log.ts";
import { type Metrics, secondsSince } from "../../core/observe/metrics.ts";
import { RejectionLog } from "../../core/observe/rejection_log.ts";
import {
  type ClientSpanStart,
  spanMethod,
  type Telemetry,
} from "../../core/observe/telemetry.ts";
import type { GetConfigScript } from "../../core/pages/config_script.ts";
import {
  headersToOmit,
  injectPage,
  mayExpectPage,
  type ResponseContent,
} from "../../core/pages/page.ts";
import type { Clock } from "../../core/values/clock.ts";
import { portOf } from "../../core/values/urls.ts";
import { BrokenBodyError } from "../../core/http/broken_body.ts";
import type {
  Transfer,
  Transfers,
  UpstreamFailure,
} from "../../core/http/transfers.ts";
import { challengesConnection } from "./connection_reuse.ts";
import {
  requestBody,
  upstreamHeaders,
  upstreamTarget,
} from "./forwarded_request.ts";
import {
  Upstream,
  type UpstreamRequest,
  upstreamResponse,
} from "./upstream.ts";
import { isWebSocketRequest, proxyWebSocket } from "./websocket.ts";

/** How requests are forwarded, under the names of the gateway's options. */
export interface ProxySettings {
  /** The beginning of the path of each request, which the upstream does not get. */
  readonly basePath: string;
  /**
   * Whether the upstream gets the `Host` that the client sends. It does not for WebSockets, for which Deno cannot set the
   * header.
   */
  readonly preserveHost: boolean;
  /**
   * How long to wait for the response's headers, in milliseconds after the last byte of the request was sent, and for
   * each part of the request's body.
   */
  readonly upstreamTimeoutMs: number;
  /** Whether WebSockets to the upstream are rejected. */
  readonly rejectWebsockets: boolean;
}

/** The services that a proxy uses. */
export interface ProxyServices {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Records a span for each request to the upstream. */
  readonly telemetry: Telemetry;
  /** Counts the requests, from their beginning to the end of their responses. */
  readonly transfers: Transfers;
}

/** Forwards requests to an upstream, and injects the configuration into its pages. */
export class ReverseProxy {
  readonly #url: URL;
  readonly #settings: ProxySettings;
  readonly #services: ProxyServices;
  readonly #upstream: Upstream;
  readonly #failures: RejectionLog;
  readonly #onceLog: Log;
  readonly #shutdown = new AbortController();

  /**
   * @param upstream The result of `parseUpstream()`. Its path is prepended to the path of each request.
   */
  constructor(
    upstream: URL,
    settings: ProxySettings,
    services: ProxyServices,
  ) {
    const { upstreamTimeoutMs } = settings;
    const { clock, log } = services;
    this.#url = upstream;
    this.#settings = settings;
    this.#services = services;
    this.#upstream = new Upstream(upstream, upstreamTimeoutMs, clock);
    this.#onceLog = logOnce(log);
    this.#failures = new RejectionLog({
      clock,
      log,
      summaryEvent: FAILED,
      summaryFields: (detail) => ({ detail }),
    });
  }

  /**
   * Forwards a request, and injects the configuration into the response if it is a page. It returns any other response
   * byte for byte, redirects included. It streams both bodies. If a body breaks off, it logs that, and the body ends in a
   * `BrokenBodyError`.
   *
   * If the upstream compressed a page, the proxy compresses it again. If the upstream did not, the page stays
   * uncompressed, since only the upstream knows whether it contains both a secret and text of an attacker (BREACH).
   *
   * @param request The object that `Deno.serve` passed to its handler, the only one that can be upgraded to a WebSocket.
   * The caller has to return the response to such a request unchanged.
   * @throws {Problem} 502 if the upstream cannot be reached or its response is not HTTP, 504 if the headers do not
   * arrive in time, 429 or 503 if too many responses are being sent, 501 for CONNECT and TRACE, 400 for an invalid
   * WebSocket handshake.
   */
  async respond(
    request: Request,
    { url, client }: RouteContext,
    getConfigScript: GetConfigScript,
  ): Promise<Response> {
    const { method } = request; // before the first await: nobody can read a request after its response
    const { preserveHost, basePath } = this.#settings;
    this.#requireForwardable(request);
    const exchange = {
      method,
      path: url.path,
      target: upstreamTarget(this.#url, url, basePath),
      headers: upstreamHeaders(request.headers, client, preserveHost, basePath),
      transfer: this.#services.transfers.begin(client),
    };
    const response = await this.#forward(request, exchange);
    const [coding] = contentCodings(response.headers);
    const decode = (encoded: Response) =>
      decodeContent(encoded, (error) => this.#toBrokenBody(error, exchange));
    const page = await injectPage(response, request, getConfigScript, {
      log: this.#onceLog,
      decode,
    });
    if (coding === undefined || isEncoded(page.headers)) return page;
    return encodeContent(page, method, coding);
  }

  /** Returns the upstream's response, or its parts, from which the caller creates one. */
  async #forward(
    request: Request,
    exchange: Exchange,
  ): Promise<ResponseContent> {
    try {
      return isWebSocketRequest(request)
        ? await this.#bridge(request, exchange)
        : await this.#exchange(request, exchange);
    } catch (error) {
      exchange.transfer.end();
      throw this.#toProblem(error, exchange, request.signal);
    }
  }

  /** Closes the remaining WebSockets with 1001, and then the connections to the upstream, including those in use. */
  close(): void {
    this.#shutdown.abort();
    this.#upstream.close();
    this.#failures.close();
  }

  /**
   * Rejects CONNECT, whose tunnel would bypass the gateway, and TRACE, whose response would show a page the headers that
   * the gateway adds (RFC 9110 §9.3.8).
   */
  #requireForwardable(request: Request): void {
    const { method } = request;
    if (method === "CONNECT" || method === "TRACE") {
      throw new Problem(501, { detail: `Cannot forward a ${method} request` });
    }
    if (this.#settings.rejectWebsockets && isWebSocketRequest(request)) {
      throw new Problem(501, { detail: "WebSockets are turned off" });
    }
  }

  async #exchange(
    request: Request,
    exchange: Exchange,
  ): Promise<ResponseContent> {
    const { signal } = request;
    const { method, target, headers, transfer } = exchange;
    const { clock, transfers } = this.#services;
    const endUpload = transfers.uploads.add();
    transfer.onEnd = endUpload;
    for (const name of headersToOmit(request)) headers.delete(name);
    if (mayExpectPage(request.headers)) {
      const accepted = headers.get("accept-encoding");
      headers.set("accept-encoding", filterAcceptEncoding(accepted));
    }
    const body = await requestBody(request, clock);
    if (body === null && headers.get("content-length") !== "0") {
      headers.delete("content-length"); // Deno.serve drops the body of a GET, for which the upstream would wait
    }
    const message = await this.#send({
      method,
      target,
      headers,
      body,
      onBodyEnd: endUpload,
      signal,
    });
    try {
      return upstreamResponse(message, method, {
        transfer,
        clock,
        toBrokenBody: (error) => this.#toBrokenBody(error, exchange),
      });
    } catch (error) {
      message.destroy();
      throw error;
    }
  }

  /** Sends a request in its own span, which is the parent of the upstream's spans. */
  async #send(request: UpstreamRequest): Promise<IncomingMessage> {
    const { clock, metrics, telemetry } = this.#services;
    const startedAt = clock.monotonic();
    const start = () => spanOf(request, this.#url);
    const message = await telemetry.inClientSpan(start, async (span) => {
      telemetry.injectContext(request.headers);
      const message = await this.#upstream.send(request);
      if (challengesConnection(message.headers)) {
        this.#onceLog.warn("rep.upstream.no_login", { detail: NO_LOGIN });
      }
      span.setHttpStatus(message.statusCode ?? 0);
      return message;
    });
    metrics.record("rep.upstream.duration", secondsSince(startedAt, clock));
    return message;
  }

  async #bridge(
    request: Request,
    { target, headers, transfer }: Exchange,
  ): Promise<Response> {
    transfer.onEnd = this.#services.transfers.webSockets.add();
    this.#services.telemetry.injectContext(headers);
    return await proxyWebSocket(request, {
      upstream: this.#url,
      target,
      headers,
      timeoutMs: this.#settings.upstreamTimeoutMs,
      clock: this.#services.clock,
      shutdown: this.#shutdown.signal,
      onClose: () => transfer.end(),
    });
  }

  #toProblem(error: unknown, exchange: Exchange, signal: AbortSignal): Problem {
    if (error instanceof Problem) return error;
    const name = error instanceof DOMException ? error.name : undefined;
    if (signal.aborted || name === "AbortError") {
      return new Problem(502, {
        detail: "The request was aborted before the upstream responded",
      });
    }
    if (name === "TimeoutError") {
      this.#warn(error, exchange, "timeout");
      return new Problem(504, {
        detail: "The upstream did not respond in time",
      });
    }
    this.#warn(error, exchange, "unreachable");
    return new Problem(502, {
      detail: "The upstream could not be reached, or its response was invalid",
    });
  }

  #toBrokenBody(error: unknown, exchange: Exchange): BrokenBodyError {
    this.#warn(error, exchange, "broken_body");
    return new BrokenBodyError(detailOf(error));
  }

  #warn(
    error: unknown,
    { method, path }: Exchange,
    reason: UpstreamFailure,
  ): void {
    const detail = detailOf(error);
    const fields = { reason, detail, method, path };
    this.#services.metrics.count("rep.upstream.errors", 1, reason);
    this.#failures.report({ key: detail, reason, event: FAILED, fields });
  }
}

/** The event of the log if the upstream fails: the first failure with each detail, then one line a minute. */
const FAILED = "rep.upstream.failed";

const NO_LOGIN =
  "the upstream authenticates connections (NTLM, Negotiate), which are never reused: only a login in one message (Kerberos) works";

/** A request and its response while they are in flight. */
interface Exchange {
  /** Method and path are for the log. The path has no query, since that may contain secrets. */
  readonly method: string;
  readonly path: string;
  /** Target and headers are for the upstream. */
  readonly target: string;
  readonly headers: Headers;
  readonly transfer: Transfer;
}

/** Returns the name and the attributes of a request's span, without the query, since that may contain secrets. */
function spanOf(
  { method, target }: UpstreamRequest,
  url: URL,
): ClientSpanStart {
  const [path = ""] = target.split("?");
  const attributes = {
    "http.request.method": method,
    "server.address": url.hostname,
    "server.port": portOf(url),
    "url.full": `${url.protocol}//${url.host}${path}`,
  };
  return { name: spanMethod(method), attributes };
}

/** Returns the text for the log. If a host has several addresses, the error contains one error for each, and no message. */
function detailOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === "") {
    return error.errors.map(detailOf).join("; ");
  }
  return error instanceof Error ? error.message || error.name : String(error);
}
