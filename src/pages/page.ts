import {
  type CodedBody,
  type Compressor,
  COMPRESSOR_CODINGS,
  isEncoded,
  Representations,
} from "../coding/representations.ts";
import { copyHeaders, parseList } from "../http/headers.ts";
import {
  type BodyContent,
  type Representation,
  send,
  type SendRequest,
  type StreamedBody,
} from "../http/send.ts";
import { type Log, silentLog } from "../observe/log.ts";
import type { ConfigScript, GetConfigScript } from "./config_script.ts";
import { injectScript, insertScript } from "./insert_script.ts";

/**
 * Returns whether a script of a page requested the response (Fetch Metadata §2.1, §2.2). HTML is then a fragment, which
 * the script inserts into a page that has the configuration.
 *
 * A service worker that passes a navigation on with `fetch(event.request)` requests a page: the copy of the request has
 * no destination any more, but it still has the mode `navigate`, which no other script can set (Fetch §5.4).
 */
export function isFragmentRequest(headers: Headers): boolean {
  return headers.get("sec-fetch-dest") === "empty" &&
    headers.get("sec-fetch-mode") !== "navigate";
}

/**
 * Returns the representation of an HTML document: as a page with a config script; without one, as a fragment, whose body
 * is not changed.
 *
 * @param original The headers of the document as it is.
 * @param log Receives `rep.page.not_injected`.
 */
function representHtml(
  original: Headers,
  body: CodedBody["body"],
  script: ConfigScript | undefined,
  log: Log,
): Representation {
  const headers = pageHeaders(original, script);
  const etag = headers.get("etag") ?? undefined;
  return {
    isHtml: true,
    headers,
    validators: { etag, lastModified: undefined },
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

/** Headers that let a cache store or reuse a response, whatever its `Cache-Control` says, and those that are replaced. */
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

/** The beginning of the entity tags that are created here. */
const ETAG_PREFIX = 'W/"rep-';

/**
 * Copies the headers of an HTML document, with other caching headers: caches have to revalidate it, and may not store it
 * if it is secret. A stricter original directive is kept. A fragment gets the same headers, since caches that ignore
 * `Vary` would use it as a page. The entity tag of a page combines the document's validator with the configuration's
 * revision; without a validator, it has none.
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
  headers.append("vary", withDecidingHeaders(original.get("vary")));
  const validator = original.get("etag") ?? original.get("last-modified");
  if (isPage && !isSecret && validator !== null) {
    const encoded = encodeURIComponent(validator.replace(/^W\//, "")); // no quotes, no commas
    headers.append("etag", `${ETAG_PREFIX}${script.revision}-${encoded}"`);
  }
  return headers;
}

function cacheControl(original: string, isSecret: boolean): string {
  if (isSecret || /\bno-store\b/i.test(original)) return "no-store";
  return /\bprivate\b/i.test(original) ? "private, no-cache" : "no-cache";
}

/** Decide whether an HTML document is sent as a page, with the configuration, or as a fragment. */
const DECIDING_HEADERS = ["Sec-Fetch-Dest", "Sec-Fetch-Mode"];

function withDecidingHeaders(vary: string | null): string {
  const names = parseList(vary?.toLowerCase() ?? null);
  if (vary !== null && names.includes("*")) return vary;
  const missing = DECIDING_HEADERS.filter((name) => {
    return !names.includes(name.toLowerCase());
  });
  return (vary ? [vary, ...missing] : missing).join(", ");
}

/** Inserts the config script into a page: at once if it is in memory, else when it is read. */
function withScript(
  body: CodedBody["body"],
  { bytes }: ConfigScript,
  log: Log,
): CodedBody["body"] {
  const warn = () => warnOfUtf16(log);
  if (body instanceof Uint8Array) return insertScript(body, bytes, warn);
  return {
    length: undefined,
    async read() {
      const content = await body.read();
      return content instanceof Uint8Array
        ? insertScript(content, bytes, warn)
        : injectScript(content ?? new Blob([]).stream(), bytes, warn);
    },
    cancel: () => body.cancel(),
  };
}

/** Logs that a page in UTF-16 has no script. */
function warnOfUtf16(log: Log): void {
  log.warn("rep.page.not_injected", {
    detail:
      "expected UTF-8, or another encoding that extends ASCII; got UTF-16",
  });
}

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
function createResponse(content: ResponseContent): Response {
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
    return await sendHtml(request, response, undefined, log);
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
      void content?.cancel().catch(() => {}); // it has failed already
    },
  };
}

/** The decoders are loaded when they are needed, since `node:zlib` takes longer to load than all of the gateway. */
async function decodeIfEncoded(
  response: ResponseContent,
): Promise<ResponseContent> {
  if (!isEncoded(response.headers)) return response;
  const { decodeContent } = await import("../coding/content_encoding.ts");
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
export function isHtml(
  { status, headers }: Pick<ResponseContent, "status" | "headers">,
): boolean {
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

/** Options of {@linkcode HtmlFile}. */
interface HtmlFileOptions {
  readonly body: CodedBody["body"];
  /** The headers of a response with the file as it is, without its size. */
  readonly headers: Headers;
  readonly compressor: Compressor | undefined;
  /** Receives `rep.page.not_injected`. */
  readonly log: Log;
}

/** An HTML file, with the page that was made of it for the current config script. */
export class HtmlFile {
  readonly #options: HtmlFileOptions;
  readonly #fragment: Representations;
  #page: Representations | undefined;
  #pageScript: ConfigScript | undefined;

  constructor(options: HtmlFileOptions) {
    this.#options = options;
    this.#fragment = this.#represent(undefined);
  }

  /** Returns what the file takes in memory at most, in bytes: itself, the fragment and the page, each compressed. */
  maxBytes(scriptBytes: number): number {
    const { body } = this.#options;
    const length = body instanceof Uint8Array ? body.length : 0;
    return length + 2 * this.#fragment.maxBytes +
      (1 + COMPRESSOR_CODINGS.length) * scriptBytes;
  }

  /** Returns the page with a config script; without one, the file as a fragment. */
  represent(script: ConfigScript | undefined): Representations {
    if (script === undefined) return this.#fragment;
    if (this.#page === undefined || this.#pageScript !== script) {
      this.#page = this.#represent(script);
      this.#pageScript = script;
    }
    return this.#page;
  }

  #represent(script: ConfigScript | undefined): Representations {
    const { headers: original, body: document, compressor, log } =
      this.#options;
    const html = representHtml(original, document, script, log);
    const headers = Object.fromEntries(new Headers(html.headers));
    const { body, validators: { etag } } = html;
    return new Representations(
      { isHtml: true, headers, compressor },
      { coding: "identity", body, etag },
    );
  }
}
