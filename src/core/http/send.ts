import { copyHeaders } from "./headers.ts";
import { Problem } from "./problem.ts";

/** A resource in one content coding, with everything that a response needs. */
export interface Representation {
  /** Whether it is HTML: a page with the configuration, or a fragment of one. */
  readonly isHtml: boolean;
  /** @default {200} */
  readonly status?: number;
  readonly statusText?: string;
  /** The headers of a complete response. */
  readonly headers: Headers | Readonly<Record<string, string>>;
  readonly validators: Validators;
  readonly body: Body;
}

/** The body of a complete response. A string contains only ASCII characters, so each is one byte. */
export type Body = Uint8Array<ArrayBuffer> | string | StreamedBody;

/**
 * The largest body in memory that `Deno.serve` gets as a whole. It keeps a copy until the client has read it, and does
 * not say when that is: in Deno 2.9, `completed` of such a body is resolved before anything is sent. Sending parts costs
 * no more for bytes, but twice as much for ASCII text.
 */
const MAX_WHOLE_BYTES = 128 << 10;

/** Returns whether a body in memory has to be sent in parts. */
export function isLarge(bytes: Uint8Array): boolean {
  return bytes.length > MAX_WHOLE_BYTES;
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
 * @throws {Problem} 412 or 416.
 */
export async function send(
  request: SendRequest,
  representation: Representation,
): Promise<Response> {
  const { headers, body } = representation;
  const failed = preconditionStatus(request, representation);
  if (failed === 412) {
    throw new Problem(412, {
      detail: "Cannot send the file: a precondition of the request failed",
    });
  }
  if (failed === 304) {
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
    return new Response(await read(body), representation);
  }
  return new Response(await read(body, range), {
    status: 206,
    headers: rangeHeaders(representation, range),
  });
}

/** Only `If-None-Match` applies to HTML: the other preconditions refer to the file that a page was made from. */
function preconditionStatus(
  { method, headers }: SendRequest,
  { isHtml, status = 200, validators }: Representation,
): 304 | 412 | undefined {
  if (!isHtml) return failedPrecondition(headers, validators);
  const isRead = method === "GET" || method === "HEAD";
  if (status !== 200 || !isRead || validators.etag === undefined) return;
  if (ifNoneMatchFails(headers, validators.etag)) return 304;
}

/** Returns whether a body is not in memory. */
export function isStreamed(body: Body): body is StreamedBody {
  return typeof body === "object" && "read" in body;
}

/** Closes the file or the connection of a body that is not sent. */
function cancel(body: Body): void {
  if (isStreamed(body)) body.cancel();
}

async function read(
  body: Body,
  range?: ByteRange,
): Promise<BodyContent | string> {
  if (isStreamed(body)) return await body.read(range);
  return range === undefined ? body : body.slice(range.start, range.end);
}

/**
 * Removes the headers that a 304 must not contain (RFC 9110 §15.4.5). A Content Security Policy stays, since it replaces
 * that of the stored page.
 */
function notModifiedHeaders(headers: Representation["headers"]): Headers {
  const complete = headers instanceof Headers ? headers : new Headers(headers);
  return copyHeaders(
    complete,
    (name) =>
      name !== "accept-ranges" && !/^content-(?!security-policy)/.test(name),
  );
}

function requestedRange(
  { method, headers }: SendRequest,
  { isHtml, body, validators }: Representation,
): ByteRange | undefined {
  if (isHtml || method !== "GET") return undefined; // RFC 9110 §14.2
  const header = headers.get("range");
  if (header === null || !ifRangeHolds(headers, validators)) return undefined;
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
const NULL_BODY_STATUSES: readonly number[] = [101, 204, 205, 304];

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

/** The validators of the current representation (RFC 9110 §8.8). */
export interface Validators {
  /** A strong entity tag, quotes included. */
  etag: string | undefined;
  lastModified: Date | undefined;
}

/** The three formats of an HTTP date (RFC 9110 §5.6.7). The last one contains no time zone and means GMT. */
const HTTP_DATES = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
];

/**
 * Evaluates the preconditions of a GET or HEAD request in the order of RFC 9110 §13.2.2.
 *
 * @returns The status to respond with if a precondition fails; `undefined` if the representation has to be sent.
 */
export function failedPrecondition(
  headers: Headers,
  validators: Validators,
): 304 | 412 | undefined {
  if (isChanged(headers, validators)) return 412;
  if (isUnchanged(headers, validators)) return 304;
  return undefined;
}

/**
 * Returns whether the condition `If-None-Match` is false, so that the response to GET and HEAD is 304: it lists the
 * current entity tag, by weak comparison, or is `*` (RFC 9110 §13.1.2).
 *
 * @param etag The current entity tag, weak or strong, quotes included. It must not contain a comma.
 */
export function ifNoneMatchFails(
  headers: Headers,
  etag: string | undefined,
): boolean {
  const current = etag && withoutWeakness(etag);
  const header = headers.get("if-none-match");
  return listsTag(header, (tag) => withoutWeakness(tag) === current);
}

/**
 * Returns whether `Range` applies: `If-Range` is absent, or identifies the current representation (RFC 9110 §13.1.5).
 */
export function ifRangeHolds(
  headers: Headers,
  { etag, lastModified }: Validators,
): boolean {
  const condition = headers.get("if-range");
  if (condition === null) return true;
  return condition === etag || condition === lastModified?.toUTCString();
}

/** Evaluates `If-Match`, or `If-Unmodified-Since` if that is absent. */
function isChanged(
  headers: Headers,
  { etag, lastModified }: Validators,
): boolean {
  const ifMatch = headers.get("if-match"); // in Deno, get() is faster than has()
  if (ifMatch !== null) return !listsTag(ifMatch, (tag) => tag === etag);
  const since = parseHttpDate(headers.get("if-unmodified-since"));
  if (since === undefined || lastModified === undefined) return false;
  return toWholeSeconds(lastModified) > since;
}

/** Evaluates `If-None-Match`, or `If-Modified-Since` if that is absent. */
function isUnchanged(
  headers: Headers,
  { etag, lastModified }: Validators,
): boolean {
  if (headers.get("if-none-match") !== null) {
    return ifNoneMatchFails(headers, etag);
  }
  const since = parseHttpDate(headers.get("if-modified-since"));
  if (since === undefined || lastModified === undefined) return false;
  return toWholeSeconds(lastModified) <= since;
}

/** Returns whether a header lists a matching tag. `@std/http/etag` is not used, because it takes quadratic time for a header that consists of spaces. */
function listsTag(
  header: string | null,
  matches: (tag: string) => boolean,
): boolean {
  if (header === null) return false;
  if (header.trim() === "*") return true;
  return header.split(",").some((tag) => matches(tag.trim()));
}

function withoutWeakness(tag: string): string {
  return tag.replace(/^W\//, "");
}

/** Returns milliseconds since the epoch; `undefined` for an invalid date, which is ignored (RFC 9110 §13.1.3). */
function parseHttpDate(text: string | null): number | undefined {
  if (text === null) return undefined;
  if (!HTTP_DATES.some((format) => format.test(text))) return undefined;
  const zone = text.endsWith("GMT") ? "" : " GMT";
  const milliseconds = Date.parse(text + zone);
  return Number.isNaN(milliseconds) ? undefined : milliseconds;
}

/** Drops the fraction of a second, which file times contain and HTTP dates do not. */
function toWholeSeconds(date: Date): number {
  return Math.floor(date.getTime() / 1000) * 1000;
}
