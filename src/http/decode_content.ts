import { parseList } from "./list_field.ts";

/** The supported content codings (RFC 9110 §8.4.1) and their names in `DecompressionStream`. */
const FORMATS: Readonly<Record<string, CompressionFormat>> = {
  "br": "brotli",
  "deflate": "deflate",
  "gzip": "gzip",
  "x-gzip": "gzip",
};

/** Headers that describe the encoded bytes (RFC 9110 §8.6, RFC 9530 §2 and §3). */
const ENCODED_CONTENT_HEADERS = ["content-encoding", "content-length", "content-digest", "repr-digest", "digest"];

/**
 * Decodes the content codings of a response: gzip, deflate and br, one or several. The body is streamed.
 *
 * A strong `ETag` becomes weak, since the bytes change (RFC 9110 §8.8.1). The response is returned unchanged if it is
 * not encoded, is partial, or has another coding, too, such as zstd. Invalid or truncated content makes the stream of
 * the body fail (except truncated deflate, which Deno does not detect); so does gzip with several members, which
 * `DecompressionStream` does not support.
 *
 * @param response Its body is consumed; use the returned response instead.
 */
export function decodeContent(response: Response): Response {
  const codings = parseCodings(response.headers.get("content-encoding")).filter((coding) => coding !== "identity");
  const isSupported = codings.every((coding) => Object.hasOwn(FORMATS, coding));
  if (codings.length === 0 || !isSupported || response.headers.has("content-range")) return response;
  const { status, statusText } = response;
  // Some servers send a coding with an empty body, which is not valid gzip.
  const isEmpty = response.headers.get("content-length") === "0";
  // Codings are listed in the order in which they were applied (RFC 9110 §8.4).
  const body = isEmpty ? response.body : codings.reverse().reduce(decode, response.body);
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
    return coding === "identity" || Object.hasOwn(FORMATS, coding);
  });
  return kept.join(", ") || "identity";
}

/** Names of codings are not case-sensitive. */
function parseCodings(header: string | null): string[] {
  return parseList(header).map((item) => item.toLowerCase());
}

function decode(body: ReadableStream<Uint8Array<ArrayBuffer>> | null, coding: string) {
  return body && body.pipeThrough(new DecompressionStream(FORMATS[coding]!));
}

function decodedHeaders(encoded: Headers): Headers {
  const headers = new Headers(encoded);
  for (const name of ENCODED_CONTENT_HEADERS) headers.delete(name);
  const tag = headers.get("etag");
  if (tag?.startsWith('"')) headers.set("etag", `W/${tag}`);
  return headers;
}
