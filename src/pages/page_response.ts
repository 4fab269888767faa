import { isEncoded } from "../coding/content_coding.ts";
import {
  type BodyContent,
  send,
  type SendRequest,
  type StreamedBody,
} from "../http/send.ts";
import { type Log, silentLog } from "../observe/log.ts";
import type { ConfigScript, GetConfigScript } from "./config_script.ts";
import {
  ETAG_PREFIX,
  isFragmentRequest,
  representPage,
  warnOfUtf16,
} from "./page.ts";

/**
 * A response that is not created yet, or a `Response`. Deno 2.9 copies the body and the headers of a `Response` when it
 * is created: so a page is created once, when it is finished.
 */
export interface ResponseContent {
  readonly status: number;
  readonly statusText?: string;
  readonly headers: Headers;
  /** Bytes must not be changed. */
  readonly body: BodyContent;
  /** Returns the error in which the body ends if it cannot be decoded. @default {a `TypeError`} */
  readonly toDecodingError?: (error: unknown) => Error;
}

/** Creates the response if it is not created yet. */
export function createResponse(content: ResponseContent): Response {
  return content instanceof Response
    ? content
    : new Response(content.body, content);
}

/**
 * Inserts the configuration into a response, if it is an HTML page. Any other response is returned as it is.
 *
 * The page gets an `ETag` that changes with the configuration, and caches have to revalidate it. A page with SENSITIVE
 * values must not be stored at all (REP-RFC-0001 §4.3). HTML that a script requests is a fragment, whose body is not
 * changed.
 *
 * A page whose content coding cannot be decoded, or that is UTF-16, is returned as it is, with a warning.
 *
 * @param request The request of the response. The response to HEAD has no body, and `If-None-Match` may make it a 304.
 * @param log Receives `rep.page.not_injected`.
 */
export async function injectPage(
  response: ResponseContent,
  request: SendRequest,
  getConfigScript: GetConfigScript,
  log: Log = silentLog,
): Promise<Response> {
  if (!isHtml(response)) return createResponse(response);
  if (isFragmentRequest(request.headers)) {
    return await sendPage(request, response, undefined, log);
  }
  if (isUtf16(response.headers)) {
    warnOfUtf16(log);
    return createResponse(response);
  }
  const page = await decodeIfEncoded(response);
  if (isEncoded(page.headers)) {
    warnOfCoding(page.headers, log);
    return createResponse(page);
  }
  return await sendPage(request, page, await getConfigScript(), log);
}

/** Sends a page with the config script; without one, a fragment. */
async function sendPage(
  request: SendRequest,
  { status, statusText = "", headers: original, body: content }:
    ResponseContent,
  script: ConfigScript | undefined,
  log: Log,
): Promise<Response> {
  const document = content instanceof Uint8Array ? content : streamed(content);
  const page = representPage(original, document, script, log);
  const { isPage, headers, validators, body } = page;
  const sent = { isPage, status, statusText, headers, validators, body };
  return await send(request, sent);
}

function streamed(content: Exclude<BodyContent, Uint8Array>): StreamedBody {
  return {
    length: undefined,
    read: () => Promise.resolve(content),
    cancel() {
      void content?.cancel().catch(() => {}); // it has failed already
    },
  };
}

/** The decoders are loaded when they are needed, since `node:zlib` takes longer to load than all of the gateway. */
async function decodeIfEncoded(
  response: ResponseContent,
): Promise<ResponseContent> {
  if (!isEncoded(response.headers)) return response;
  const { decodeContent } = await import("../coding/decode_content.ts");
  return decodeContent(createResponse(response), response.toDecodingError);
}

/** Logs that a page cannot be decoded. It has no script then, which is better than no page. */
function warnOfCoding(headers: Headers, log: Log): void {
  log.warn("rep.page.not_injected", {
    detail: "expected a single content coding: gzip or br",
    coding: headers.get("content-encoding")?.slice(0, 100),
  });
}

/** Statuses whose responses have no body, or only a part of it (RFC 9110 §15). */
const INCOMPLETE_BODY_STATUSES = [101, 204, 205, 206, 304];

/** Returns whether a response is a complete HTML document. */
function isHtml({ status, headers }: ResponseContent): boolean {
  const [type = ""] = (headers.get("content-type") ?? "").split(";", 1);
  return !INCOMPLETE_BODY_STATUSES.includes(status) &&
    type.trim().toLowerCase() === "text/html";
}

/** Returns whether the `charset` is UTF-16, which has nine labels (Encoding standard §4.2). */
function isUtf16(headers: Headers): boolean {
  const type = headers.get("content-type") ?? "";
  const charset = /;\s*charset\s*=\s*["']?([^"'\s;]+)/i.exec(type);
  if (charset === null) return false;
  try {
    return new TextDecoder(charset[1]).encoding.startsWith("utf-16");
  } catch {
    return false; // browsers ignore a label that they do not know
  }
}

/** Returns whether the response may become a page: not if the browser says that it is for a part of one. */
export function mayExpectPage(headers: Headers): boolean {
  return headers.get("sec-fetch-dest") === null ||
    headers.get("sec-fetch-mode") === "navigate";
}

/**
 * Returns the request headers that an upstream must not receive, since it does not know the configuration:
 * preconditions, which a page with an old configuration might meet, and a range, which would refer to another text.
 * They are omitted only if the request may be for a page.
 */
export function headersToOmit(request: SendRequest): readonly string[] {
  const known = request.headers.get("if-none-match") ?? "";
  const hasOurEtag = known.includes(ETAG_PREFIX.slice("W/".length));
  return hasOurEtag || isNavigation(request)
    ? ["if-none-match", "if-modified-since", "range"]
    : [];
}

/** Returns whether a browser sends such a request for a document, and hardly for anything else. */
function isNavigation({ method, headers }: SendRequest): boolean {
  const isRead = method === "GET" || method === "HEAD";
  const accepted = headers.get("accept") ?? "";
  return isRead && accepted.includes("text/html") &&
    !isFragmentRequest(headers);
}
