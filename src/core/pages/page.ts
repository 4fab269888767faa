import { addToVary, copyHeaders, isEncoded } from "../http/headers.ts";
import {
  type BodyContent,
  send,
  type SendRequest,
  type StreamedBody,
} from "../http/send.ts";
import { type Log, silentLog } from "../observe/log.ts";
import type { ConfigScript, GetConfigScript } from "./config_script.ts";
import { injectScript, insertScript } from "./insert_script.ts";

/**
 * Returns whether a script of a page requested the response (Fetch Metadata §2.1, §2.2). HTML is then a fragment, which
 * the script inserts into a page that already contains the configuration.
 *
 * A service worker that forwards a navigation with `fetch(event.request)` requests a page. The copy of the request loses
 * its destination, but keeps the mode `navigate`, which no other script can set (Fetch §5.4). A script that looks for
 * another build (`lost_chunks.ts`) asks for the page with the header `Rep-Page`. `Vary` does not name it: caches revalidate
 * HTML in any case, and the entity tags of page and fragment differ.
 */
export function isFragmentRequest(headers: Headers): boolean {
  return headers.get("sec-fetch-dest") === "empty" &&
    headers.get("sec-fetch-mode") !== "navigate" && !headers.has("rep-page");
}

/** The body of an HTML document, as it is before the configuration is inserted. */
export type DocumentBody = Uint8Array<ArrayBuffer> | StreamedBody;

/**
 * Returns the representation of an HTML document. With a config script, it is a page that contains the script; without
 * one, it is a fragment, whose body is not changed.
 *
 * @param original The headers of the unchanged document.
 * @param log Receives `rep.page.not_injected` if the document is in UTF-16.
 */
export function representHtml(
  original: Headers,
  body: DocumentBody,
  script: ConfigScript | undefined,
  log: Log,
) {
  const headers = pageHeaders(original, script);
  const etag = headers.get("etag") ?? undefined;
  return {
    isHtml: true,
    headers,
    etag,
    body: script === undefined ? body : withScript(body, script, log),
  };
}

/** Headers that describe the original body. */
const ORIGINAL_BODY_HEADERS: ReadonlySet<string> = new Set([
  "content-length",
  "last-modified",
  "accept-ranges",
  "content-md5",
  "digest",
  "content-digest",
  "repr-digest",
  "etag",
]);

/** Headers that pages replace, and headers with which a cache may store or reuse a response despite `Cache-Control`. */
const CACHING_HEADERS: ReadonlySet<string> = new Set([
  "age",
  "cache-control",
  "edge-control",
  "expires",
  "pragma",
  "surrogate-control",
  "vary",
  "warning",
  "x-accel-expires",
]);

/** Targeted headers, such as `CDN-Cache-Control` and `Cloudflare-CDN-Cache-Control` (RFC 9213). */
const TARGETED_SUFFIX = "-cache-control";

/** The request headers that decide whether HTML is sent as a page, with the configuration, or as a fragment. */
const DECIDING_HEADERS = ["Sec-Fetch-Dest", "Sec-Fetch-Mode"];

/** The beginning of the entity tags that the gateway creates for pages. */
const ETAG_PREFIX = 'W/"rep-';

/**
 * Copies the headers of an HTML document and replaces the caching headers: caches have to revalidate the document, and
 * must not store it if it contains SENSITIVE values. A stricter original directive is kept. A fragment gets the same
 * headers, since a cache that ignores `Vary` would use it as a page. The entity tag of a page combines the validator of
 * the document with `etagPart` of the configuration script. If the document has no validator, the page gets no entity tag.
 */
function pageHeaders(
  original: Headers,
  script: ConfigScript | undefined,
): Headers {
  const isPage = script !== undefined;
  const isSecret = script?.isSecret === true;
  const headers = copyHeaders(original, (name) => {
    if (isPage && ORIGINAL_BODY_HEADERS.has(name)) return false;
    return !CACHING_HEADERS.has(name) && !name.endsWith(TARGETED_SUFFIX);
  });
  const caching = original.get("cache-control") ?? "";
  headers.append("cache-control", cacheControl(caching, isSecret));
  headers.append("vary", addToVary(original.get("vary"), DECIDING_HEADERS));
  const validator = original.get("etag") ?? original.get("last-modified");
  if (isPage && !isSecret && validator !== null) {
    const encoded = encodeURIComponent(validator.replace(/^W\//, "")); // no quotes, no commas
    headers.append("etag", `${ETAG_PREFIX}${script.etagPart}-${encoded}"`);
  }
  return headers;
}

function cacheControl(original: string, isSecret: boolean): string {
  if (isSecret || /\bno-store\b/i.test(original)) return "no-store";
  return /\bprivate\b/i.test(original) ? "private, no-cache" : "no-cache";
}

/** Inserts the config script into a page: immediately if the page is in memory, otherwise when it is read. */
function withScript(
  body: DocumentBody,
  { bytes }: ConfigScript,
  log: Log,
): DocumentBody {
  const onUtf16 = () => warnOfCharset(log);
  if (body instanceof Uint8Array) return insertScript(body, bytes, onUtf16);
  return {
    length: undefined,
    async read() {
      const content = await body.read() ?? new Blob([]).stream();
      return injectScript(content, bytes, onUtf16);
    },
    cancel: () => body.cancel(),
  };
}

/**
 * The parts of a response, or a `Response`. Deno 2.9 copies the body and the headers when it creates a `Response`, so
 * only the finished page becomes one.
 */
export interface ResponseContent {
  readonly status: number;
  readonly statusText?: string;
  readonly headers: Headers;
  /** Nobody may change the bytes. */
  readonly body: BodyContent;
}

/**
 * Decodes the content coding of a response. The core has no decoders: whoever delivers encoded pages hands one in. A
 * response that it cannot decode is returned unchanged.
 */
export type DecodeResponse = (
  response: Response,
) => Response | Promise<Response>;

/** Options of {@linkcode injectPage}. */
export interface InjectOptions {
  /** Receives `rep.page.not_injected` for each such page. @default {a log that discards everything} */
  readonly log?: Log;
  /** @default {encoded pages get no configuration, with a warning} */
  readonly decode?: DecodeResponse;
}

/** Returns the `Response`, which it creates from the parts if necessary. */
function createResponse(content: ResponseContent): Response {
  return content instanceof Response
    ? content
    : new Response(content.body, content);
}

/**
 * Inserts the configuration into a response if it is an HTML page. Any other response is returned unchanged.
 *
 * The page gets an `ETag` that changes with the configuration, and caches have to revalidate it. Nobody may store a page
 * with SENSITIVE values (REP-RFC-0001 §4.3). HTML that a script requests is a fragment, whose body is not changed.
 *
 * A page with a content coding that the gateway does not decode, or in UTF-16, is returned unchanged, with a warning.
 *
 * @param request The request for the response. The response to HEAD has no body, and `If-None-Match` may make it a 304.
 */
export async function injectPage(
  response: ResponseContent,
  request: SendRequest,
  getConfigScript: GetConfigScript,
  { log = silentLog, decode }: InjectOptions = {},
): Promise<Response> {
  if (!isHtml(response)) return createResponse(response);
  if (isFragmentRequest(request.headers)) {
    return await sendHtml(request, response, undefined, log);
  }
  if (UTF_16.test(response.headers.get("content-type") ?? "")) {
    warnOfCharset(log);
    return createResponse(response);
  }
  const canDecode = decode !== undefined && isEncoded(response.headers);
  const page = canDecode ? await decode(createResponse(response)) : response;
  if (isEncoded(page.headers)) {
    warnOfCoding(page.headers, log);
    return createResponse(page);
  }
  return await sendHtml(request, page, await getConfigScript(), log);
}

/** Sends HTML as a page with the config script; without one, as a fragment. */
async function sendHtml(
  request: SendRequest,
  { status, statusText = "", headers: original, body: content }:
    ResponseContent,
  script: ConfigScript | undefined,
  log: Log,
): Promise<Response> {
  const document = content instanceof Uint8Array ? content : streamed(content);
  const html = representHtml(original, document, script, log);
  return await send(request, { ...html, status, statusText });
}

function streamed(content: Exclude<BodyContent, Uint8Array>): StreamedBody {
  return {
    length: undefined,
    read: () => Promise.resolve(content),
    cancel() {
      void content?.cancel().catch(() => {}); // it rejects if the body has already failed
    },
  };
}

/** Logs that a page got no script, because it cannot be decoded. A page without a script is better than no page. */
function warnOfCoding(headers: Headers, log: Log): void {
  log.warn("rep.page.not_injected", {
    detail: "expected a single content coding: gzip or br",
    coding: headers.get("content-encoding")?.slice(0, 100),
  });
}

/** Logs that a page got no script, because its characters are not an extension of ASCII. */
function warnOfCharset(log: Log): void {
  log.warn("rep.page.not_injected", {
    detail: "expected a page in UTF-8, got UTF-16 or UTF-32",
  });
}

/** The type of a page in UTF-16, by each of its labels (Encoding standard §4.2), at the end of a list. */
const UTF_16 =
  /;\s*charset\s*=\s*["']?\s*(?:utf-16(?:be|le)?|(?:iso-10646-)?ucs-2|csunicode|unicode(?:fffe|feff)?)\s*(?:["';][^,]*)?$/i;

/** Statuses of responses without a body, or with only a part of it (RFC 9110 §15). */
const INCOMPLETE_BODY_STATUSES = [101, 204, 205, 206, 304];

/** The type of a page, at the end of a list. */
const HTML_TYPE = /(?:^|,)\s*text\/html\s*(?:;[^,]*)?$/i;

/** What browsers save instead of showing it: every type of `Content-Disposition` but `inline` (RFC 6266 §4.2). */
const DOWNLOAD = /^\s*(?!inline\b)[\w!#$%&'*+.^`|~-]+(?:[;,\s]|$)/i;

/**
 * Returns whether a response is a complete HTML document that is shown, not saved as a file. If `Content-Type` was sent
 * several times, the last one counts, as in browsers (Fetch §3.5).
 */
export function isHtml(
  { status, headers }: Pick<ResponseContent, "status" | "headers">,
): boolean {
  const type = headers.get("content-type") ?? "";
  const disposition = headers.get("content-disposition") ?? "";
  return !INCOMPLETE_BODY_STATUSES.includes(status) && HTML_TYPE.test(type) &&
    !DOWNLOAD.test(disposition);
}

/** Returns whether the response may become a page. It cannot if the browser says that it loads a part of a page. */
export function mayExpectPage(headers: Headers): boolean {
  return headers.get("sec-fetch-dest") === null ||
    headers.get("sec-fetch-mode") === "navigate" || headers.has("rep-page");
}

/**
 * Returns the request headers that an upstream must not receive if the request may be for a page, since the upstream does
 * not know the configuration. It would answer a precondition although the configuration has changed, and a range of its
 * own text.
 */
export function headersToOmit(request: SendRequest): readonly string[] {
  const known = request.headers.get("if-none-match") ?? "";
  const hasOurEtag = known.includes(ETAG_PREFIX.slice("W/".length));
  return hasOurEtag || isNavigation(request)
    ? ["if-none-match", "if-modified-since", "range"]
    : [];
}

/** Returns whether the request looks like that of a browser for a document. */
function isNavigation({ method, headers }: SendRequest): boolean {
  const isRead = method === "GET" || method === "HEAD";
  const accepted = headers.get("accept") ?? "";
  return isRead && accepted.includes("text/html") &&
    !isFragmentRequest(headers);
}
