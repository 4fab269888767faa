import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import { copyHeaders } from "../http/copy_headers.ts";
import { contentCodings, parseCodings } from "./content_coding.ts";
import { type BodyTransformer, transformBody } from "./transform_body.ts";

/**
 * The supported content codings (RFC 9110 §8.4.1). Their decoders produce 16 KiB at a time, when they are read.
 * `DecompressionStream` would put everything that a chunk contains into memory at once: up to 1,000 times its size with
 * gzip, and far more with Brotli.
 */
const DECODERS: Readonly<Record<string, () => BodyTransformer>> = {
  "br": createBrotliDecompress,
  "deflate": createInflate,
  "gzip": createGunzip,
  "x-gzip": createGunzip,
};

/** Headers that describe the encoded bytes (RFC 9110 §8.6, RFC 9530 §2 and §3). */
const ENCODED_CONTENT_HEADERS = ["content-encoding", "content-length", "content-digest", "repr-digest", "digest"];

/**
 * Decodes the content coding of a response: gzip, deflate or br. The body is streamed, with bounded memory.
 *
 * A strong `ETag` becomes weak, since the bytes change (RFC 9110 §8.8.1). The response is returned unchanged if it is
 * not encoded, is partial, has several codings, or has another one such as zstd. Hardly any server applies several, and
 * the sizes multiply: 6.7 KB of gzip in gzip can contain gigabytes. Invalid or truncated content makes the stream of
 * the body fail (except truncated Brotli, which Deno does not detect).
 *
 * @param response Its body is consumed; use the returned response instead.
 */
export function decodeContent(response: Response): Response {
  const codings = contentCodings(response.headers);
  const [coding = ""] = codings;
  if (codings.length !== 1 || !Object.hasOwn(DECODERS, coding) || response.headers.has("content-range")) {
    return response;
  }
  const { status, statusText } = response;
  // Some servers send a coding with an empty body, which is not valid gzip.
  const isEmpty = response.headers.get("content-length") === "0";
  const body = isEmpty
    ? response.body
    : response.body && transformBody(response.body, { transformer: DECODERS[coding]!(), toError: decodingError });
  return new Response(body, { status, statusText, headers: decodedHeaders(response.headers) });
}

/**
 * Removes the codings that {@linkcode decodeContent} does not support from an `Accept-Encoding` header (RFC 9110
 * §12.5.3).
 *
 * @param accepted The value of the header; `null` if it is absent, which permits any coding.
 * @returns The new value; `identity` if no coding is left.
 */
export function filterAcceptEncoding(accepted: string | null): string {
  const kept = parseCodings(accepted).filter((item) => {
    const [coding = ""] = item.split(";", 1).map((name) => name.trim());
    return coding === "identity" || Object.hasOwn(DECODERS, coding);
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
