import { injectScript } from "./inject_script.ts";
import type { ConfigScript } from "./config_script.ts";
import { decodeContent } from "../http/decode_content.ts";
import { ifNoneMatchFails } from "../http/preconditions.ts";

/** What of a request decides how it is answered. */
export interface PageRequest {
  readonly method: string;
  readonly headers: Headers;
}

/** What the body was, and is no more. */
const OF_THE_OLD_BODY = [
  "content-length",
  "last-modified",
  "accept-ranges",
  "content-md5",
  "digest",
  "content-digest",
  "repr-digest",
];

/** Statuses whose responses have no body of their own, or only a part of it (RFC 9110 §15). */
const WITHOUT_WHOLE_BODY: readonly number[] = [101, 204, 205, 206, 304];

/**
 * Puts the configuration into a response, if it is an HTML page; any other is given back as it is.
 *
 * The page gets an `ETag` that changes with the configuration and may be kept only to be asked about again: with SENSITIVE
 * values it may not be kept at all (REP-RFC-0001 §4.3).
 *
 * @param request What it answers: a HEAD gets no body, and an `If-None-Match` may make it a 304.
 */
export async function injectPage(
  response: Response,
  request: PageRequest,
  getTag: () => Promise<ConfigScript>,
): Promise<Response> {
  if (!isPage(response)) return response;
  const plain = decodeContent(response);
  if (plain.headers.has("content-encoding")) return response; // one that we cannot undo: better a page without than none
  const tag = await getTag();
  const headers = pageHeaders(plain.headers, tag);
  if (plain.status === 200 && isKnown(request, headers.get("etag"))) {
    await plain.body?.cancel();
    return new Response(null, { status: 304, headers: notModifiedHeaders(headers) });
  }
  const { status, statusText } = plain;
  const body = request.method === "HEAD" ? null : injectScript(plain.body ?? emptyBody(), tag.bytes);
  return new Response(body, { status, statusText, headers });
}

function isPage({ status, headers }: Response): boolean {
  if (WITHOUT_WHOLE_BODY.includes(status)) return false;
  const [type = "", ...parameters] = (headers.get("content-type") ?? "").split(";");
  const isAscii = !parameters.some((parameter) => /charset\s*=\s*"?utf-?(16|32)/i.test(parameter));
  return type.trim().toLowerCase() === "text/html" && isAscii;
}

function pageHeaders(before: Headers, { revision, isSecret }: ConfigScript): Headers {
  const headers = new Headers(before);
  const etag = isSecret ? undefined : combinedTag(headers, revision);
  for (const name of OF_THE_OLD_BODY) headers.delete(name);
  headers.delete("etag");
  if (etag !== undefined) headers.set("etag", etag);
  headers.set("cache-control", cacheControl(headers.get("cache-control") ?? "", isSecret));
  return headers;
}

/** A page may be kept only to ask whether it is still right; what its own server said against keeping it stays. */
function cacheControl(own: string, isSecret: boolean): string {
  if (isSecret || /\bno-store\b/i.test(own)) return "no-store";
  return /\bprivate\b/i.test(own) ? "private, no-cache" : "no-cache";
}

/** How our tags begin, so that we know them again. */
const OURS = 'W/"rep-';

/** The document's own validator and the configuration's; without the first there is none to give. */
function combinedTag(headers: Headers, revision: string): string | undefined {
  const own = headers.get("etag") ?? headers.get("last-modified");
  if (own === null) return undefined;
  return `${OURS}${revision}-${encodeURIComponent(own.replace(/^W\//, ""))}"`; // without quotes and commas
}

/** A page without an `ETag` is always sent: one with SENSITIVE values must not be stored, so no client has it. */
function isKnown({ method, headers }: PageRequest, etag: string | null): boolean {
  if (etag === null || (method !== "GET" && method !== "HEAD")) return false;
  return ifNoneMatchFails(headers, etag);
}

/** RFC 9110 §15.4.5. */
function notModifiedHeaders(headers: Headers): Headers {
  const kept = [...headers].filter(([name]) => !name.startsWith("content-"));
  return new Headers(kept);
}

function emptyBody(): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new Blob([]).stream();
}

/**
 * The headers that an upstream must not see, since it does not know of the configuration: conditions, which a page with an older
 * one could meet, and a range, which would be one of another text. Only where a page may be meant: other files keep theirs.
 */
export function headersToOmit(request: PageRequest): readonly string[] {
  const isOurs = request.headers.get("if-none-match")?.includes(OURS.slice("W/".length)) === true;
  return isOurs || isNavigation(request) ? ["if-none-match", "if-modified-since", "range"] : [];
}

/** What a browser sends for a document, and for little else. */
function isNavigation({ method, headers }: PageRequest): boolean {
  return (method === "GET" || method === "HEAD") && headers.get("accept")?.includes("text/html") === true;
}
