import { isIP } from "node:net";
import type { Client } from "../../core/http/client_address.ts";
import { copyHeaders, parseList } from "../../core/http/headers.ts";
import type { RequestUrl } from "../../core/http/routes.ts";
import { type Clock, sleep } from "../../core/values/clock.ts";

/**
 * Returns the request target for the upstream: its base path, followed by the path and the query of the request.
 *
 * The path is the normalized one, which the gateway also matches against its own routes. Its dot segments were resolved
 * before the base path is prepended, so no request leaves the base path. It is not decoded or normalized further. The
 * query is forwarded byte for byte. The result contains no host, so a request cannot choose one.
 *
 * @param upstream Its path is the base path.
 * @param basePath The beginning of the request's path that the upstream does not know, such as `/app`.
 * @returns The target in origin form (RFC 9112 §3.2.1), which always begins with a slash.
 */
export function upstreamTarget(
  upstream: URL,
  url: RequestUrl,
  basePath: string,
): string {
  const base = upstream.pathname.replace(/\/$/, "");
  const path = url.path.slice(basePath.length);
  const separator = path.startsWith("/") ? "" : "/";
  return base + separator + path + url.search;
}

/** Headers that apply to one connection only, even if `Connection` does not list them (RFC 9110 §7.6.1 and §11.7). */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authentication-info",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/**
 * Copies the headers of a request or a response without the hop-by-hop headers, which are the known ones and those that
 * `Connection` lists (RFC 9110 §7.6.1). `Transfer-Encoding` overrides `Content-Length` (RFC 9112 §6.3), so a message with
 * both loses both: the upstream would trust a wrong length.
 *
 * @param isKept Returns whether to keep one of the other headers, by its name.
 */
export function withoutHopByHop(
  headers: Headers,
  isKept: (name: string) => boolean = () => true,
): Headers {
  const connection = headers.get("connection")?.toLowerCase() ?? null;
  const listed = parseList(connection);
  if (headers.has("transfer-encoding")) listed.push("content-length");
  return copyHeaders(headers, (name) => {
    return !HOP_BY_HOP.has(name) && !listed.includes(name) && isKept(name);
  });
}

/**
 * Headers that the gateway removes or replaces. CGI and its successors do not distinguish `X_Forwarded_For` from
 * `X-Forwarded-For` (RFC 3875 §4.1.18).
 */
const REPLACED =
  /^(host|expect|forwarded|x[-_]real[-_]ip|x[-_]forwarded[-_].*)$/;

/** A normalized origin: scheme and authority. */
const ORIGIN = /^([a-z][a-z\d+.-]*):\/\/([^/]+)$/;

/**
 * Returns the request headers for the upstream. It removes hop-by-hop headers, and replaces headers that describe the
 * client by the gateway's own.
 *
 * It removes `Host`, since the upstream has its own, or replaces it by the host that the gateway has checked: HTTP ignores
 * a `Host` header beside an absolute target (RFC 9112 §3.2.2) or beside `:authority` (RFC 9113 §8.3.1). It removes
 * `Expect`, because the server has already sent 100, or sends it when the body is read (RFC 9110 §10.1.1).
 *
 * @param basePath The beginning of the request's path that the upstream does not know. An app needs it for absolute
 * links, and gets it as `X-Forwarded-Prefix`.
 */
export function upstreamHeaders(
  request: Headers,
  client: Client,
  preserveHost: boolean,
  basePath: string,
): Headers {
  const headers = withoutHopByHop(request, (name) => !REPLACED.test(name));
  // The peer of a Unix socket has no IP address, and the origin of its requests has no host.
  if (isIP(client.address) !== 0) {
    headers.set("x-forwarded-for", client.address);
  }
  const [, scheme, authority] = ORIGIN.exec(client.origin) ?? [];
  const isHttp = scheme === "http" || scheme === "https";
  const host = isHttp ? authority : request.get("host");
  if (preserveHost && host) headers.set("host", host);
  if (scheme !== undefined && authority !== undefined) {
    headers.set("x-forwarded-proto", scheme);
    headers.set("x-forwarded-host", authority);
  }
  if (basePath !== "") headers.set("x-forwarded-prefix", basePath);
  return headers;
}

/**
 * Returns the body of a request, or `null` if it has none.
 *
 * `Deno.serve` creates a stream for every request other than GET and HEAD. If no body follows the headers, that stream
 * contains one empty chunk. Forwarding it would turn a DELETE without a body into one with an empty chunked body, which
 * some servers reject. So if the headers do not announce a body, which HTTP/2 does not require, this function waits for
 * the first bytes.
 *
 * A request over HTTP/2 that is reset at the moment when its head arrives looks like one without a body. It is forwarded
 * without a body, since waiting for a reset would also delay every preflight.
 *
 * @throws {DOMException} `AbortError` if the client has reset the request. The returned stream throws it, too.
 */
export async function requestBody(
  request: Request,
  clock: Clock,
): Promise<AsyncIterable<Uint8Array> | null> {
  const { body, headers, signal } = request;
  if (body === null || headers.get("content-length") === "0") return null;
  if (headers.has("content-length") || headers.has("transfer-encoding")) {
    return body;
  }
  const beginning = await readBeginning(body);
  if (beginning === "no body") return null;
  if (beginning === "no bytes") {
    await confirmEnd(signal, clock);
    return null;
  }
  return withConfirmedEnd(beginning, body, signal, clock);
}

/** Reads the first bytes, if there are any. "no bytes" means that a body began, but ended without any bytes. */
async function readBeginning(
  body: ReadableStream<Uint8Array>,
): Promise<Uint8Array | "no body" | "no bytes"> {
  const reader = body.getReader();
  try {
    let read = await reader.read();
    if (read.done) return "no bytes";
    while (!read.done) {
      if (read.value.length > 0) return read.value;
      read = await reader.read();
    }
    return "no body";
  } finally {
    reader.releaseLock();
  }
}

async function* withConfirmedEnd(
  first: Uint8Array,
  rest: ReadableStream<Uint8Array>,
  signal: AbortSignal,
  clock: Clock,
): AsyncGenerator<Uint8Array> {
  yield first;
  yield* rest;
  await confirmEnd(signal, clock);
}

/**
 * How long to wait after the end of a body that no header announces, in case the client has reset the request.
 * `Deno.serve` ends the body of such a request without an error, and aborts the request's signal some milliseconds later.
 * Several short pauses let a process that was suspended receive pending events before it decides.
 */
const RESET_NOTICE = { pauses: 10, pauseMs: 10 };

/** Makes sure that a body ended because it is complete, and not because the client has reset its stream. */
async function confirmEnd(signal: AbortSignal, clock: Clock): Promise<void> {
  for (let pause = 0; pause < RESET_NOTICE.pauses; pause++) {
    await sleep(RESET_NOTICE.pauseMs, clock, { signal });
  }
  signal.throwIfAborted();
}
