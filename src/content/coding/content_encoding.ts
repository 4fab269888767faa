import {
  constants,
  createBrotliCompress,
  createBrotliDecompress,
  createGzip,
  createInflateRaw,
} from "node:zlib";
import {
  addToVary,
  contentCodings,
  copyHeaders,
  parseCodings,
} from "../../core/http/headers.ts";
import { concat } from "../../core/values/chunks.ts";
import { COMPRESSOR_CODINGS, preferredCoding } from "./representations.ts";
import { encodingError, transformBody } from "./zlib.ts";

/**
 * The supported content codings (RFC 9110 §8.4.1). Deflate is not supported: servers disagree on whether it has a header,
 * and few use it. Clients and servers that support it also support gzip.
 */
const CODINGS = ["br", "gzip", "x-gzip"];

/** Headers that describe the encoded bytes (RFC 9110 §8.6, RFC 9530 §2 and §3). */
const ENCODED_CONTENT_HEADERS = [
  "content-encoding",
  "content-length",
  "content-digest",
  "repr-digest",
  "digest",
];

/**
 * Decodes the content coding of a response: gzip or br. The body is streamed with bounded memory: the decoders produce
 * 16 KiB at a time, when somebody reads. `DecompressionStream` would put all the content of a chunk into memory at once,
 * which is up to 1,000 times its size with gzip, and far more with Brotli.
 *
 * It reads gzip as browsers do, and ignores everything after the compressed data of the first member, such as the
 * checksum.
 *
 * A strong `ETag` becomes weak, since the bytes change (RFC 9110 §8.8.1). The response is returned unchanged if it is
 * not encoded, is partial, or has several codings or an unsupported one such as zstd. Few servers apply several codings,
 * and their factors multiply: 6.7 KB of gzip in gzip can contain gigabytes. Invalid or truncated content makes the stream
 * of the body fail (except truncated Brotli, which Deno does not detect). An empty body is empty content.
 *
 * @param response Its body is consumed, so use the returned response instead.
 * @param toError Called once if the content is invalid, but not if the body itself breaks off.
 */
export function decodeContent(
  response: Response,
  toError: (error: unknown) => Error = decodingError,
): Response {
  const { body, status, statusText } = response;
  const [coding = "", ...others] = contentCodings(response.headers);
  const isSupported = CODINGS.includes(coding) && others.length === 0;
  const isPartial = response.headers.has("content-range");
  if (!isSupported || isPartial) return response;
  const headers = decodedHeaders(response.headers);
  const init = { status, statusText, headers };
  if (body === null) return new Response(null, init);
  const decoded = coding === "br"
    ? transformBody(body, createBrotliDecompress(), toError)
    : transformBody(
      body.pipeThrough(gzipHeaderRemover(toError)),
      createInflateRaw(),
      toError,
    );
  return new Response(decoded, init);
}

/** A gzip header may contain a file name and a comment. This is far above the length of usual ones. */
const MAX_HEADER_BYTES = 4_096;

/** Compressed data without content. It replaces an empty body, which some servers send with a coding. */
const NO_CONTENT = Uint8Array.of(3, 0);

/** Removes the gzip header that precedes the compressed data. */
function gzipHeaderRemover(
  toError: (error: unknown) => Error,
): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  let header = new Uint8Array();
  let isRemoved = false;
  return new TransformStream({
    transform(chunk, controller) {
      if (isRemoved) return controller.enqueue(chunk);
      header = concat([header, chunk]);
      const length = gzipHeaderLength(header);
      if (typeof length === "number") {
        isRemoved = true;
        controller.enqueue(header.subarray(length));
      } else if (length === "invalid" || header.length > MAX_HEADER_BYTES) {
        throw toError("expected a header");
      }
    },
    flush(controller) {
      if (isRemoved) return;
      if (header.length > 0) throw toError("expected a complete header");
      controller.enqueue(NO_CONTENT);
    },
  });
}

/** Flags of a gzip header (RFC 1952 §2.3.1). */
const [HAS_CHECKSUM, HAS_EXTRA, HAS_NAME, HAS_COMMENT] = [2, 4, 8, 16];

/** Returns the length of a gzip header; `undefined` if the bytes contain only a part of it. */
function gzipHeaderLength(bytes: Uint8Array): number | "invalid" | undefined {
  const [first = 0x1f, second = 0x8b, method = 8, flags = 0] = bytes;
  if (first !== 0x1f || second !== 0x8b || method !== 8) return "invalid";
  let length = 10;
  if (flags & HAS_EXTRA) {
    length += 2 + (bytes[10] ?? 0) + 256 * (bytes[11] ?? 0);
  }
  for (const flag of [HAS_NAME, HAS_COMMENT]) {
    if (!(flags & flag)) continue;
    const end = bytes.indexOf(0, length);
    if (end === -1) return undefined;
    length = end + 1;
  }
  if (flags & HAS_CHECKSUM) length += 2;
  return bytes.length < length ? undefined : length;
}

/**
 * Removes the codings that {@linkcode decodeContent} does not support from an `Accept-Encoding` header (RFC 9110
 * §12.5.3).
 *
 * @param accepted The value of the header; `null` if it is absent, which would permit any coding.
 * @returns The new value, which is `identity` if no coding is left.
 */
export function filterAcceptEncoding(accepted: string | null): string {
  const kept = parseCodings(accepted).filter((item) => {
    const coding = item.replace(/;.*/, "").trim();
    return coding === "identity" || CODINGS.includes(coding);
  });
  return kept.join(", ") || "identity";
}

function decodingError(error: unknown): TypeError {
  return new TypeError(`Cannot decode the content: ${error}`, { cause: error });
}

function decodedHeaders(encoded: Headers): Headers {
  const headers = copyHeaders(encoded);
  for (const name of ENCODED_CONTENT_HEADERS) headers.delete(name);
  const tag = headers.get("etag");
  if (tag?.startsWith('"')) headers.set("etag", `W/${tag}`);
  return headers;
}

/**
 * The level is low because the result serves only one response: a higher level costs more time than its bytes save. Each
 * write is flushed, so that a page that is rendered in parts arrives in parts, which `CompressionStream` cannot do.
 */
const STREAMED_GZIP = { level: 4, flush: constants.Z_SYNC_FLUSH };

/** The level is low for the same reason. A window of 256 KiB instead of 4 MiB limits the memory for each response. */
const STREAMED_BROTLI = {
  flush: constants.BROTLI_OPERATION_FLUSH,
  params: {
    [constants.BROTLI_PARAM_QUALITY]: 3,
    [constants.BROTLI_PARAM_LGWIN]: 18,
  },
};

/**
 * Encodes a decoded response again, in its original coding, or in another one that the client prefers. If the client
 * accepts none of the codings, it only adds `Vary`.
 *
 * The validators stay the same, since a decoded response has no strong one.
 *
 * @param response Its body is consumed, so use the returned response instead.
 * @param original The value of its `Content-Encoding` before it was decoded.
 */
export function encodeContent(
  response: Response,
  { method, headers: accepts }: Pick<Request, "method" | "headers">,
  original: string,
): Response {
  const { body, status, statusText } = response;
  const first = original.trim().toLowerCase();
  const coding = preferredCoding(accepts.get("accept-encoding"), [
    ...COMPRESSOR_CODINGS.filter((coding) => coding === first),
    ...COMPRESSOR_CODINGS,
  ]);
  const headers = copyHeaders(response.headers);
  headers.set("vary", addToVary(headers.get("vary"), ["Accept-Encoding"]));
  const init = { status, statusText, headers };
  if (coding === undefined || status === 304) return new Response(body, init);
  headers.set("content-encoding", coding);
  headers.delete("content-length");
  if (body === null || method === "HEAD") return new Response(body, init);
  const transformer = coding === "br"
    ? createBrotliCompress(STREAMED_BROTLI)
    : createGzip(STREAMED_GZIP);
  const encoded = transformBody(body, transformer, encodingError);
  return new Response(encoded, init);
}
