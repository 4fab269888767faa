import { copyHeaders } from "./headers.ts";
import { Problem } from "./problem.ts";
import type { SharedBody } from "./shared_body.ts";

/** A resource in one content coding, with everything that a response needs. */
export interface Representation {
  /** Whether it is HTML: a page with the configuration, or a fragment of one. */
  readonly isHtml: boolean;
  /** @default {200} */
  readonly status?: number;
  readonly statusText?: string;
  /** The headers of a complete response: those of a shared body, which sends its own. */
  readonly headers: Headers | Readonly<Record<string, string>>;
  /** The entity tag, quotes included; `undefined` if nobody can tell whether a copy is current. */
  readonly etag: string | undefined;
  readonly body: Body;
}

/** The body of a complete response. */
export type Body = Uint8Array<ArrayBuffer> | SharedBody | StreamedBody;

/**
 * The largest body in memory that `Deno.serve` gets as a whole. It keeps a copy until the client has read it, and does
 * not say when that is: in Deno 2.9, `completed` of such a body is resolved before anything is sent. Sending parts costs
 * no more.
 */
const MAX_WHOLE_BYTES = 128 << 10;

/** Returns whether a body in memory has to be sent in parts. */
export function isLarge({ length }: Uint8Array | SharedBody): boolean {
  return length > MAX_WHOLE_BYTES;
}

/** A body that is not in memory. For each response, either `read()` or `cancel()` is called once. */
export interface StreamedBody {
  /** In bytes; `undefined` if it is unknown until the body is read. */
  readonly length: number | undefined;
  /** Returns all bytes, or those of a range. */
  read(range?: ByteRange): Promise<ReadableStream<Uint8Array> | null>;
  /** Frees what the body needs. */
  cancel(): void;
}

/** A range of a file's bytes. */
export interface ByteRange {
  /** The offset of the first byte. */
  start: number;
  /** The offset after the last byte. */
  end: number;
}

/** The bytes of a body. */
export type BodyContent =
  | ReadableStream<Uint8Array>
  | Uint8Array<ArrayBuffer>
  | null;

/** The part of a request that determines how a representation is sent. */
export interface SendRequest {
  readonly method: string;
  readonly headers: Headers;
}

/**
 * Sends a representation. This is the only place that decides about preconditions (RFC 9110 §13), ranges (§14) and HEAD.
 * A range refers to the bytes that are sent, whether they are compressed or not.
 *
 * Contrary to §13.2.1, it does not evaluate `If-Match` and `If-Unmodified-Since`, which protect writes: such a request
 * gets the whole representation, never a part of one that has changed.
 *
 * @throws {Problem} 416.
 */
export async function send(
  request: SendRequest,
  representation: Representation,
): Promise<Response> {
  const { headers, body } = representation;
  if (isNotModified(request, representation)) {
    cancel(body);
    return new Response(null, {
      status: 304,
      headers: notModifiedHeaders(headers),
    });
  }
  if (request.method === "HEAD") {
    cancel(body);
    return headResponse(new Response(null, representation));
  }
  const range = requestedRange(request, representation);
  if (range === undefined) {
    const { status = 200 } = representation;
    return isShared(body) && status === 200
      ? body.respond()
      : new Response(await read(body), representation);
  }
  return new Response(await read(body, range), {
    status: 206,
    headers: rangeHeaders(representation, range),
  });
}

/**
 * Returns whether the client has the representation already: `If-None-Match` lists its entity tag. `If-Modified-Since` is
 * ignored, since many tools give all files the same date.
 */
function isNotModified(
  { method, headers }: SendRequest,
  { status = 200, etag }: Representation,
): boolean {
  const isRead = method === "GET" || method === "HEAD";
  if (status !== 200 || !isRead || etag === undefined) return false;
  return ifNoneMatchFails(headers, etag);
}

/** Returns whether a body is not in memory. */
export function isStreamed(body: Body): body is StreamedBody {
  return "read" in body;
}

/** Returns whether the complete response is made already. */
export function isShared(body: Body): body is SharedBody {
  return "respond" in body;
}

/** Closes the file or the connection of a body that is not sent. */
function cancel(body: Body): void {
  if (isStreamed(body)) body.cancel();
}

async function read(body: Body, range?: ByteRange): Promise<BodyContent> {
  if (isStreamed(body)) return await body.read(range);
  const bytes = isShared(body) ? await body.bytes() : body;
  return range === undefined ? bytes : bytes.slice(range.start, range.end);
}

/**
 * Removes the headers that a 304 must not contain (RFC 9110 §15.4.5), which requires `Content-Location`. A Content
 * Security Policy stays, since it replaces that of the stored page.
 */
function notModifiedHeaders(headers: Representation["headers"]): Headers {
  const complete = headers instanceof Headers ? headers : new Headers(headers);
  return copyHeaders(
    complete,
    (name) =>
      name !== "accept-ranges" &&
      !/^content-(?!security-policy|location$)/.test(name),
  );
}

function requestedRange(
  { method, headers }: SendRequest,
  { isHtml, body, etag }: Representation,
): ByteRange | undefined {
  if (isHtml || method !== "GET") return undefined; // RFC 9110 §14.2
  const header = headers.get("range");
  if (header === null || !isRangeCurrent(headers, etag)) return undefined;
  const size = body.length ?? 0;
  const range = parseByteRange(header, size);
  if (range !== "unsatisfiable") return range;
  const shown = header.slice(0, 100);
  const detail =
    `Cannot send the range "${shown}": expected one within ${size} bytes`;
  throw new Problem(416, {
    detail,
    headers: { "content-range": `bytes */${size}` },
  });
}

function rangeHeaders(
  { headers, body }: Representation,
  { start, end }: ByteRange,
): Headers {
  const partial = new Headers(headers);
  partial.set("content-range", `bytes ${start}-${end - 1}/${body.length}`);
  partial.set("content-length", `${end - start}`);
  return partial;
}

/**
 * Parses a `Range` header for a representation of `size` bytes (RFC 9110 §14.1.2 and §14.2).
 *
 * @returns `undefined` if the header has to be ignored: it is malformed, uses another unit, or requests several ranges,
 * which a server may ignore. `unsatisfiable` if no byte of the representation is in the range.
 */
export function parseByteRange(
  header: string,
  size: number,
): ByteRange | "unsatisfiable" | undefined {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/i.exec(header) ?? [];
  if (first === undefined || last === undefined || first + last === "") {
    return undefined;
  }
  const isSuffix = first === "";
  if (!isSuffix && last !== "" && Number(last) < Number(first)) {
    return undefined; // malformed
  }
  const start = isSuffix ? Math.max(0, size - Number(last)) : Number(first);
  const isOpen = isSuffix || last === "";
  const end = isOpen ? size : Math.min(Number(last) + 1, size);
  return start < end ? { start, end } : "unsatisfiable";
}

/** Statuses for which `Response` permits no body. */
export const NULL_BODY_STATUSES: readonly number[] = [101, 204, 205, 304];

/**
 * Prepares a response to HEAD for `Deno.serve`, which adds `Content-Length: 0` to a response with the body `null`, but
 * adds no length to a stream, and sends nothing of it. The length has to be that of the response to GET, or absent
 * (RFC 9110 §8.6).
 */
export function headResponse(response: Response): Response {
  const hasLength = response.body !== null ||
    response.headers.has("content-length");
  if (hasLength || NULL_BODY_STATUSES.includes(response.status)) {
    return response;
  }
  return new Response(ReadableStream.from([]), response);
}

/**
 * Returns whether the condition `If-None-Match` is false, so that the response to GET and HEAD is 304: it lists the
 * current entity tag, by weak comparison, or is `*` (RFC 9110 §13.1.2).
 *
 * `@std/http/etag` is not used, because it takes quadratic time for a header that consists of spaces.
 *
 * @param etag The current entity tag, weak or strong, quotes included. It must not contain a comma.
 */
export function ifNoneMatchFails(
  headers: Headers,
  etag: string,
): boolean {
  const header = headers.get("if-none-match");
  if (header === null) return false;
  if (header.trim() === "*") return true;
  const current = withoutWeakness(etag);
  const tags = header.split(",");
  return tags.some((tag) => withoutWeakness(tag.trim()) === current);
}

/**
 * Returns whether a range of the current representation may be sent: `If-Range` is absent, or is its strong entity tag
 * (RFC 9110 §13.1.5), and no precondition of the request is unknown. A date is never strong enough.
 */
export function isRangeCurrent(
  headers: Headers,
  etag: string | undefined,
): boolean {
  if (headers.has("if-match") || headers.has("if-unmodified-since")) {
    return false;
  }
  const condition = headers.get("if-range");
  if (condition === null) return true;
  return condition === etag && condition.startsWith('"');
}

function withoutWeakness(tag: string): string {
  return tag.replace(/^W\//, "");
}
