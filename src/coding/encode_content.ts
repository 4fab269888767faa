import {
  COMPRESSOR_CODINGS,
  type CompressorCoding,
  preferredCoding,
} from "./representations.ts";
import { constants, createBrotliCompress, createGzip } from "node:zlib";
import { copyHeaders, parseList } from "../http/headers.ts";
import { transformBody } from "./transform_body.ts";

/**
 * A page is compressed for one response only: higher levels take more time than they save bytes. What has been written is
 * flushed, so that a page that is rendered in parts arrives in parts, which `CompressionStream` cannot do.
 */
const STREAMED_GZIP = { level: 4, flush: constants.Z_SYNC_FLUSH };

/** The level is low for the same reason; a window of 256 KiB instead of 4 MiB limits the memory for each response. */
const STREAMED_BROTLI = {
  flush: constants.BROTLI_OPERATION_FLUSH,
  params: {
    [constants.BROTLI_PARAM_QUALITY]: 3,
    [constants.BROTLI_PARAM_LGWIN]: 18,
  },
};

/**
 * Encodes content that is in memory and is kept, between requests: static files and their pages. Brotli at 5 makes a
 * script about as small as at 9. The highest level is worth its time once, when the app is built, and files that are
 * compressed there take precedence.
 */
export async function encodeThoroughly(
  bytes: Uint8Array<ArrayBuffer>,
  coding: CompressorCoding,
): Promise<Uint8Array<ArrayBuffer>> {
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 5,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  const transformer = coding === "br"
    ? createBrotliCompress({ params })
    : createGzip({ level: 6 });
  const body = ReadableStream.from([bytes]);
  const encoded = transformBody(body, transformer, encodingError);
  return await new Response(encoded).bytes();
}

/**
 * Encodes a decoded response again: in its original coding, or in another one if the client prefers that. Without a
 * coding that the client accepts, only `Vary` is added.
 *
 * The validators are left as they are: a decoded response has none that is strong.
 *
 * @param response Its body is consumed; use the returned response instead.
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
  const vary = parseList(headers.get("vary")?.toLowerCase() ?? null);
  if (!vary.includes("*") && !vary.includes("accept-encoding")) {
    headers.append("vary", "Accept-Encoding");
  }
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

function encodingError(error: unknown): Error {
  return new Error(`Cannot encode the content: ${error}`, { cause: error });
}
