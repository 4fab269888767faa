import {
  constants,
  createBrotliCompress,
  createBrotliDecompress,
  createGunzip,
  createGzip,
} from "node:zlib";
import {
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
    : transformBody(body, createGunzip(), fail);
  return new Response(decoded, init);
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
 * Encodes a decoded page again, as it was encoded before.
 *
 * The validators stay the same, since a page has no strong one.
 *
 * @param response Its body is consumed, so use the returned response instead.
 * @param method The method of the request.
 * @param original The value of its `Content-Encoding` before it was decoded.
 */
export function encodeContent(
  response: Response,
  method: string,
  original: string,
): Response {
  const { body, status, statusText } = response;
  if (status === 304) return response;
  const isBrotli = original.trim().toLowerCase() === "br";
  const headers = copyHeaders(response.headers);
  headers.set("content-encoding", isBrotli ? "br" : "gzip");
  const init = { status, statusText, headers };
  if (body === null || method === "HEAD") return new Response(body, init);
  const transformer = isBrotli
    ? createBrotliCompress(STREAMED_BROTLI)
    : createGzip(STREAMED_GZIP);
  return new Response(transformBody(body, transformer), init);
}
