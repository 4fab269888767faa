import { decodeContent } from "../http/decode_content.ts";
import { ifNoneMatchFails } from "../http/preconditions.ts";
import { type Log, silentLog } from "../log.ts";
import type { ConfigScript } from "./config_script.ts";
import { injectScript } from "./inject_script.ts";

/** The part of a request that determines the response. */
export interface PageRequest {
  readonly method: string;
  readonly headers: Headers;
}

/** Headers that describe the original body. */
const ORIGINAL_BODY_HEADERS = [
  "content-length",
  "last-modified",
  "accept-ranges",
  "content-md5",
  "digest",
  "content-digest",
  "repr-digest",
];

/** Statuses whose responses have no body, or only a part of it (RFC 9110 §15). */
const INCOMPLETE_BODY_STATUSES: readonly number[] = [101, 204, 205, 206, 304];

/**
 * Inserts the configuration into a response, if it is an HTML page. Any other response is returned as it is.
 *
 * The page gets an `ETag` that changes with the configuration, and caches have to revalidate it. A page with SENSITIVE values
 * must not be stored at all (REP-RFC-0001 §4.3).
 *
 * A page whose content coding cannot be decoded is returned as it is, with a warning.
 *
 * @param request The request of the response. The response to HEAD has no body, and `If-None-Match` may turn it into a 304.
 * @param log Receives `rep.page.not_injected`.
 */
export async function injectPage(
  response: Response,
  request: PageRequest,
  getConfigScript: () => Promise<ConfigScript>,
  log: Log = silentLog,
): Promise<Response> {
  if (!isPage(response)) return response;
  const page = decodeContent(response);
  if (page.headers.has("content-encoding")) return withoutScript(response, log);
  const script = await getConfigScript();
  const headers = pageHeaders(page.headers, script);
  const { status, statusText } = page;
  if (status === 200 && isNotModified(request, headers.get("etag"))) {
    return await withoutBody(page, { status: 304, headers: notModifiedHeaders(headers) });
  }
  if (request.method === "HEAD") return await withoutBody(page, { status, statusText, headers });
  return new Response(injectScript(page.body ?? emptyBody(), script.bytes), { status, statusText, headers });
}

/** A page without the script is better than none. */
function withoutScript(response: Response, log: Log): Response {
  const coding = response.headers.get("content-encoding")?.slice(0, 100);
  log.warn("rep.page.not_injected", { detail: "expected a single content coding: gzip, deflate or br", coding });
  return response;
}

/** Cancels the body of a page, which would otherwise keep its file or its connection open. */
async function withoutBody(page: Response, init: ResponseInit): Promise<Response> {
  await page.body?.cancel();
  return new Response(null, init);
}

function isPage({ status, headers }: Response): boolean {
  if (INCOMPLETE_BODY_STATUSES.includes(status)) return false;
  const [type = "", ...parameters] = (headers.get("content-type") ?? "").split(";");
  const extendsAscii = !parameters.some((parameter) => /charset\s*=\s*"?utf-?(16|32)/i.test(parameter));
  return type.trim().toLowerCase() === "text/html" && extendsAscii;
}

function pageHeaders(original: Headers, { revision, isSecret }: ConfigScript): Headers {
  const headers = new Headers(original);
  const etag = isSecret ? undefined : combinedEtag(headers, revision);
  for (const name of ORIGINAL_BODY_HEADERS) headers.delete(name);
  headers.delete("etag");
  if (etag !== undefined) headers.set("etag", etag);
  headers.set("cache-control", cacheControl(headers.get("cache-control") ?? "", isSecret));
  return headers;
}

/** Caches have to revalidate a page. A stricter original directive is kept. */
function cacheControl(original: string, isSecret: boolean): string {
  if (isSecret || /\bno-store\b/i.test(original)) return "no-store";
  return /\bprivate\b/i.test(original) ? "private, no-cache" : "no-cache";
}

/** The beginning of the entity tags that are created here. */
const ETAG_PREFIX = 'W/"rep-';

/** Combines the document's validator with the revision of the configuration. Without a validator, there is no entity tag. */
function combinedEtag(headers: Headers, revision: string): string | undefined {
  const validator = headers.get("etag") ?? headers.get("last-modified");
  if (validator === null) return undefined;
  return `${ETAG_PREFIX}${revision}-${encodeURIComponent(validator.replace(/^W\//, ""))}"`; // no quotes, no commas
}

/** A page without an `ETag` is always sent: one with SENSITIVE values must not be stored, so no client has it. */
function isNotModified({ method, headers }: PageRequest, etag: string | null): boolean {
  if (etag === null || (method !== "GET" && method !== "HEAD")) return false;
  return ifNoneMatchFails(headers, etag);
}

/** Removes the headers that a 304 does not have (RFC 9110 §15.4.5). */
function notModifiedHeaders(headers: Headers): Headers {
  const kept = [...headers].filter(([name]) => !name.startsWith("content-"));
  return new Headers(kept);
}

function emptyBody(): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new Blob([]).stream();
}

/**
 * Returns the request headers that an upstream must not receive, since it does not know the configuration: preconditions,
 * which a page with an old configuration might meet, and a range, which would refer to another text. They are omitted only if
 * the request may be for a page.
 */
export function headersToOmit(request: PageRequest): readonly string[] {
  const hasOurEtag = request.headers.get("if-none-match")?.includes(ETAG_PREFIX.slice("W/".length)) === true;
  return hasOurEtag || isNavigation(request) ? ["if-none-match", "if-modified-since", "range"] : [];
}

/** Returns whether a browser sends such a request for a document, and hardly for anything else. */
function isNavigation({ method, headers }: PageRequest): boolean {
  return (method === "GET" || method === "HEAD") && headers.get("accept")?.includes("text/html") === true;
}
