import { concat } from "@std/bytes/concat";
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
import { transformBody } from "./zlib.ts";

/**
 * The supported content codings (RFC 9110 §8.4.1). Deflate is not supported: servers disagree on whether it has a header,
 * and few use it. Clients and servers that support it also support gzip.
 */
const CODINGS = ["br", "gzip", "x-gzip"];

/**
 * Decodes the content coding of a page: gzip or br. The body is streamed with bounded memory: the decoders produce
 * 16 KiB at a time, when somebody reads. `DecompressionStream` would put all the content of a chunk into memory at once,
 * which is up to 1,000 times its size with gzip, and far more with Brotli.
 *
 * Of gzip, it reads the first member and ignores what follows the compressed data, as browsers do: some servers append
 * text to a compressed page, such as an empty line, and `createGunzip()` would reject the page.
 *
 * The other headers that describe the encoded bytes stay, since `injectPage()` removes them from every page. The
 * response is returned unchanged if it is not encoded, or has several codings or an unsupported one such as zstd. Few
 * servers apply several codings, and their factors multiply: 6.7 KB of gzip in gzip can contain gigabytes. Invalid or
 * truncated content makes the stream of the body fail (except truncated Brotli, which Deno does not detect). An empty
 * body is empty content.
 *
 * @param response Its body is consumed, so use the returned response instead.
 * @param toError Converts the error if the content is invalid, but not if the body itself breaks off.
 */
export function decodeContent(
  response: Response,
  toError: (error: TypeError) => Error = (error) => error,
): Response {
  const { body, status, statusText } = response;
  const [coding = "", ...others] = contentCodings(response.headers);
  const isSupported = CODINGS.includes(coding) && others.length === 0;
  if (!isSupported) return response;
  const headers = copyHeaders(
    response.headers,
    (name) => name !== "content-encoding",
  );
  const init = { status, statusText, headers };
  if (body === null) return new Response(null, init);
  const fail = (cause: unknown) =>
    toError(new TypeError(`Cannot decode the content: ${cause}`, { cause }));
  const decoded = coding === "br"
    ? transformBody(body, createBrotliDecompress(), fail)
    : transformBody(withoutGzipHeader(body, fail), createInflateRaw(), fail);
  return new Response(decoded, init);
}

/** A gzip header may contain a file name and a comment. This is far above the length of usual ones. */
const MAX_HEADER_BYTES = 4_096;

/** Removes the gzip header that precedes the compressed data. */
function withoutGzipHeader(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  fail: (cause: unknown) => Error,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let beginning = new Uint8Array();
  let isRemoved = false;
  const remover = new TransformStream<
    Uint8Array<ArrayBuffer>,
    Uint8Array<ArrayBuffer>
  >({
    transform(chunk, controller) {
      if (isRemoved) return controller.enqueue(chunk);
      beginning = concat([beginning, chunk]);
      const length = gzipHeaderLength(beginning);
      if (length !== undefined) {
        isRemoved = true;
        controller.enqueue(beginning.subarray(length));
      } else if (beginning.length > MAX_HEADER_BYTES || !isGzip(beginning)) {
        throw fail("expected a header of gzip");
      }
    },
    flush() {
      const isEmpty = beginning.length === 0;
      if (!isRemoved && !isEmpty) throw fail("unexpected end of the header");
    },
  });
  return body.pipeThrough(remover);
}

/** The first bytes of gzip, and the method of its compression (RFC 1952 §2.3.1). */
const GZIP_BEGINNING = [0x1f, 0x8b, 8];

/** Returns whether bytes are the beginning of gzip, of which they may have only a part. */
function isGzip(bytes: Uint8Array): boolean {
  return GZIP_BEGINNING.every((byte, i) => byte === (bytes[i] ?? byte));
}

/** Flags of a gzip header (RFC 1952 §2.3.1). */
const [HAS_CHECKSUM, HAS_EXTRA, HAS_NAME, HAS_COMMENT] = [2, 4, 8, 16];

/** Returns the length of a gzip header; `undefined` if the bytes are not the whole header and what follows it. */
function gzipHeaderLength(bytes: Uint8Array): number | undefined {
  if (!isGzip(bytes)) return undefined;
  const flags = bytes[3] ?? 0;
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
  return length < bytes.length ? length : undefined;
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
 * Encodes a decoded page again, as it was encoded before. It adds `Accept-Encoding` to `Vary`, which nginx does not by
 * default: the page has the same entity tag in each coding, so a cache would send it to clients that cannot read it.
 *
 * The validators stay the same, since a page has no strong one.
 *
 * @param response Its body is consumed, so use the returned response instead.
 * @param method The method of the request.
 * @param original Its coding before it was decoded, in lower case.
 */
export function encodeContent(
  response: Response,
  method: string,
  original: string,
): Response {
  const { body, status, statusText } = response;
  const isBrotli = original === "br";
  const headers = copyHeaders(response.headers);
  headers.set("vary", addToVary(headers.get("vary"), ["Accept-Encoding"]));
  if (status === 304) return new Response(null, { status, headers });
  headers.set("content-encoding", isBrotli ? "br" : "gzip");
  const init = { status, statusText, headers };
  if (body === null || method === "HEAD") return new Response(body, init);
  const transformer = isBrotli
    ? createBrotliCompress(STREAMED_BROTLI)
    : createGzip(STREAMED_GZIP);
  return new Response(transformBody(body, transformer), init);
}
