import { isEncoded } from "../coding/content_coding.ts";
import type { CodedBody } from "../coding/representations.ts";
import {
  createResponse,
  type ResponseContent,
} from "../coding/response_content.ts";
import {
  type Representation,
  send,
  type SendRequest,
  type StreamedBody,
} from "../http/send.ts";
import { type Log, silentLog } from "../observe/log.ts";
import type { ConfigScript, GetConfigScript } from "./config_script.ts";
import { injectScript, insertScript } from "./inject_script.ts";
import { isFragmentRequest, withCachingHeaders } from "./page_caching.ts";

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

/** Statuses whose responses have no body, or only a part of it (RFC 9110 §15). */
const INCOMPLETE_BODY_STATUSES: readonly number[] = [101, 204, 205, 206, 304];

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
  const isFragment = isFragmentRequest(request.headers);
  if (!isPage(response)) {
    if (isHtml(response) && !isFragment) warnOfEncoding(log);
    return createResponse(response);
  }
  if (isFragment) {
    return send(request, representationOf(response, undefined, log));
  }
  const page = await decodeIfEncoded(response);
  if (isEncoded(page.headers)) return withoutScript(createResponse(page), log);
  return send(request, representationOf(page, await getConfigScript(), log));
}

/** Inserts the config script into a page: at once if it is in memory, else when it is read. */
export function withScript(
  body: CodedBody["body"],
  { bytes }: ConfigScript,
  log: Log,
): CodedBody["body"] {
  const warn = () => warnOfEncoding(log);
  if (body instanceof Uint8Array) return insertScript(body, bytes, warn);
  const read = async () => {
    const content = await body.read();
    return content instanceof Uint8Array
      ? insertScript(content, bytes, warn)
      : injectScript(content ?? new Blob([]).stream(), bytes, warn);
  };
  return { length: undefined, read, cancel: () => body.cancel() };
}

/** Logs that a page in UTF-16 has no script. */
function warnOfEncoding(log: Log): void {
  log.warn("rep.page.not_injected", {
    detail:
      "expected UTF-8, or another encoding that extends ASCII; got UTF-16",
  });
}

/** The decoders are loaded when they are needed, since `node:zlib` takes longer to load than all of the gateway. */
async function decodeIfEncoded(
  response: ResponseContent,
): Promise<ResponseContent> {
  if (!isEncoded(response.headers)) return response;
  const { decodeContent } = await import("../coding/decode_content.ts");
  return decodeContent(createResponse(response), response.toDecodingError);
}

/** A page without the script is better than none. */
function withoutScript(response: Response, log: Log): Response {
  const coding = response.headers.get("content-encoding")?.slice(0, 100);
  log.warn("rep.page.not_injected", {
    detail: "expected a single content coding: gzip, deflate or br",
    coding,
  });
  return response;
}

/** Returns the representation of a page with the config script; without one, that of a fragment. */
function representationOf(
  response: ResponseContent,
  script: ConfigScript | undefined,
  log: Log,
): Representation {
  const { status, statusText = "", headers } = response;
  const body = bodyOf(response);
  return {
    ...pageHead(headers, script),
    status,
    statusText,
    body: script ? withScript(body, script, log) : body,
  };
}

function bodyOf({ body }: ResponseContent): StreamedBody {
  function cancel() {
    if (body instanceof ReadableStream) void body.cancel().catch(() => {}); // it has failed already
  }
  return { length: undefined, read: () => Promise.resolve(body), cancel };
}

/** Returns whether a response is a complete HTML page, in an encoding that extends ASCII by its `charset`. */
function isPage(response: Pick<Response, "status" | "headers">): boolean {
  return isHtml(response) &&
    !contentType(response.headers).parameters.some(isUtf16);
}

/** Returns whether a response is a complete HTML page. */
function isHtml(
  { status, headers }: Pick<Response, "status" | "headers">,
): boolean {
  return !INCOMPLETE_BODY_STATUSES.includes(status) &&
    contentType(headers).type === "text/html";
}

function contentType(headers: Headers): { type: string; parameters: string[] } {
  const [type = "", ...parameters] = (headers.get("content-type") ?? "").split(
    ";",
  );
  return { type: type.trim().toLowerCase(), parameters };
}

/** Returns whether a parameter is the `charset` UTF-16, which has nine labels (Encoding standard §4.2). */
function isUtf16(parameter: string): boolean {
  const [, label] = /^\s*charset\s*=\s*["']?([^"'\s]+)/i.exec(parameter) ?? [];
  try {
    return label !== undefined &&
      new TextDecoder(label).encoding.startsWith("utf-16");
  } catch {
    return false; // browsers ignore a label that they do not know
  }
}

/** Returns the headers and the validators of a page, without the size of its body; without a script, of a fragment. */
export function pageHead(original: Headers, script: ConfigScript | undefined) {
  const headers = script
    ? pageHeaders(original, script)
    : withCachingHeaders(original, false);
  return {
    isPage: true,
    headers,
    validators: {
      etag: headers.get("etag") ?? undefined,
      lastModified: undefined,
    },
  };
}

function pageHeaders(
  original: Headers,
  { revision, isSecret }: ConfigScript,
): Headers {
  const headers = withCachingHeaders(original, isSecret, ORIGINAL_BODY_HEADERS);
  const etag = isSecret ? undefined : combinedEtag(original, revision);
  if (etag !== undefined) headers.append("etag", etag);
  return headers;
}

/** The beginning of the entity tags that are created here. */
const ETAG_PREFIX = 'W/"rep-';

/** Combines the document's validator with the configuration's revision. Without a validator, there is no entity tag. */
function combinedEtag(headers: Headers, revision: string): string | undefined {
  const validator = headers.get("etag") ?? headers.get("last-modified");
  if (validator === null) return undefined;
  return `${ETAG_PREFIX}${revision}-${
    encodeURIComponent(validator.replace(/^W\//, ""))
  }"`; // no quotes, no commas
}

/**
 * Returns the request headers that an upstream must not receive, since it does not know the configuration:
 * preconditions, which a page with an old configuration might meet, and a range, which would refer to another text.
 * They are omitted only if the request may be for a page.
 */
export function headersToOmit(request: SendRequest): readonly string[] {
  const hasOurEtag = request.headers.get("if-none-match")?.includes(
    ETAG_PREFIX.slice("W/".length),
  ) === true;
  return hasOurEtag || isNavigation(request)
    ? ["if-none-match", "if-modified-since", "range"]
    : [];
}

/** Returns whether a browser sends such a request for a document, and hardly for anything else. */
function isNavigation({ method, headers }: SendRequest): boolean {
  if ((method !== "GET" && method !== "HEAD") || isFragmentRequest(headers)) {
    return false;
  }
  return headers.get("accept")?.includes("text/html") === true;
}
