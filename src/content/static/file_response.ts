import { type Coding, preferredCoding } from "../../coding/content_coding.ts";
import { codedEtag, type Representation, type Representations } from "../../coding/representations.ts";
import { failedPrecondition, ifRangeHolds, type Validators } from "../../http/preconditions.ts";
import { Problem } from "../../http/problem.ts";
import { type ByteRange, parseByteRange } from "./byte_range.ts";
import { fileHeaders, type FoundFile } from "./found_file.ts";
import { type OpenFile, openFile } from "./open_file.ts";

/** What is sent: a representation, in memory or in an open file. */
interface Sendable {
  /** The headers of a complete response. */
  readonly headers: Readonly<Record<string, string>>;
  readonly validators: Validators;
  readonly size: number;
  body(range: ByteRange): string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>;
}

/**
 * Returns the response with a page that is not in memory. It is always 200 and complete: the caller inserts the
 * configuration, and evaluates conditional requests itself.
 */
export async function pageResponse({ method }: Request, found: FoundFile): Promise<Response> {
  using file = await openFile(found.path, found.root);
  return new Response(bodyFor(method, file), { headers: pageHeaders(found, file) });
}

/** Returns the headers of a page before the configuration is inserted. */
export function pageHeaders(found: FoundFile, { etag, size }: Pick<OpenFile, "etag" | "size">): Record<string, string> {
  return { ...fileHeaders(found), ...(etag ? { etag } : {}), "content-length": `${size}` };
}

/**
 * Returns the response with any other file that is not in memory. It supports conditional requests (RFC 9110 §13),
 * single ranges (§14), and compressed variants next to the file. A range refers to the bytes that are sent, compressed
 * or not.
 *
 * @param now The time, in milliseconds since the Unix epoch.
 * @throws {Problem} 412 or 416.
 */
export async function assetResponse(request: Request, found: FoundFile, now: number): Promise<Response> {
  const names = found.variants.map(({ coding }) => coding);
  const opened = await openPreferred(found, preferredCoding(request.headers.get("accept-encoding"), names));
  using file = opened.file;
  const { coding } = opened;
  const validators = assetValidators(file, coding, now);
  const headers = assetHeaders(found, { coding, validators, size: file.size, varies: names.length > 0 });
  return send(request, { headers, validators, size: file.size, body: (range) => file.body(range) });
}

/** Opens the variant with a coding; the file itself if there is none, or it must not be read. */
async function openPreferred(found: FoundFile, coding: Coding["name"] | undefined) {
  const variant = found.variants.find((variant) => variant.coding === coding);
  if (variant !== undefined) {
    try {
      return { file: await openFile(variant.path, variant.root), coding: variant.coding };
    } catch (error) {
      if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
    }
  }
  return { file: await openFile(found.path, found.root), coding: "identity" as const };
}

/**
 * Returns the response with a file that is in memory. As {@linkcode assetResponse}, but synchronous.
 *
 * @throws {Problem} 412 or 416.
 */
export function memoryResponse(request: Request, representations: Representations): Response {
  const { bytes, body, headers, validators } = representations.select(request.headers);
  const size = bytes.length;
  return send(request, {
    headers,
    validators,
    size,
    body: ({ start, end }) => end - start === size ? body : bytes.subarray(start, end),
  });
}

/** Returns the validators of a file in a coding, with the entity tag of its bytes. */
export function assetValidators(
  { etag, mtime }: Pick<OpenFile, "etag" | "mtime">,
  coding: Representation["coding"],
  now: number,
): Validators {
  // RFC 9110 §8.8.2.1: Last-Modified is never in the future.
  return { etag: codedEtag(etag, coding), lastModified: mtime ? new Date(Math.min(mtime.getTime(), now)) : undefined };
}

/** What the headers of an asset depend on, besides its name. */
interface AssetProperties {
  readonly coding: Coding["name"] | "identity";
  readonly validators: Validators;
  readonly size: number;
  /** Whether there are, or will be, other codings. */
  readonly varies: boolean;
}

/** Returns the headers of a complete response with an asset. */
export function assetHeaders(
  found: FoundFile,
  { coding, validators: { etag, lastModified }, size, varies }: AssetProperties,
): Record<string, string> {
  return {
    ...fileHeaders(found),
    ...(etag ? { etag } : {}),
    ...(lastModified ? { "last-modified": lastModified.toUTCString() } : {}),
    ...(varies ? { vary: "Accept-Encoding" } : {}),
    ...(coding === "identity" ? {} : { "content-encoding": coding }),
    "accept-ranges": "bytes",
    "content-length": `${size}`,
  };
}

function send(request: Request, content: Sendable): Response {
  const { headers, validators } = content;
  const failed = failedPrecondition(request.headers, validators);
  if (failed === 412) throw new Problem(412, { detail: "Cannot send the file: a precondition of the request failed" });
  if (failed === 304) return new Response(null, { status: 304, headers: notModifiedHeaders(headers) });
  const range = requestedRange(request, content);
  return range ? rangeResponse(content, range) : new Response(bodyFor(request.method, content), { headers });
}

function bodyFor(method: string, { size, body }: Pick<Sendable, "size" | "body">): BodyInit | null {
  return method === "HEAD" ? null : body({ start: 0, end: size });
}

/** Removes the headers that describe the bytes, which a 304 does not have (RFC 9110 §15.4.5). */
function notModifiedHeaders(headers: Sendable["headers"]): Record<string, string> {
  const { "accept-ranges": _, "content-encoding": _coding, "content-length": _length, ...kept } = headers;
  return kept;
}

function requestedRange({ method, headers }: Request, { size, validators }: Sendable): ByteRange | undefined {
  const header = headers.get("range");
  if (header === null || method !== "GET" || !ifRangeHolds(headers, validators)) return undefined; // RFC 9110 §14.2
  const range = parseByteRange(header, size);
  if (range !== "unsatisfiable") return range;
  const detail = `Cannot send the range "${header.slice(0, 100)}": expected one within ${size} bytes`;
  throw new Problem(416, { detail, headers: { "content-range": `bytes */${size}` } });
}

function rangeResponse({ headers, size, body }: Sendable, { start, end }: ByteRange): Response {
  const rangeHeaders = { "content-range": `bytes ${start}-${end - 1}/${size}`, "content-length": `${end - start}` };
  return new Response(body({ start, end }), { status: 206, headers: { ...headers, ...rangeHeaders } });
}
