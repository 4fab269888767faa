import {
  constants,
  createBrotliCompress,
  createDeflate,
  createGzip,
} from "node:zlib";
import { copyHeaders, parseList } from "../http/headers.ts";
import { type CompressorCoding, preferredCoding } from "./content_coding.ts";
import { type BodyTransformer, transformBody } from "./transform_body.ts";

/** A page is compressed for one response only: higher levels take more time than they save bytes. */
const GZIP = { level: 4 };

/** The level is low for the same reason; a window of 256 KiB instead of 4 MiB limits the memory for each response. */
const BROTLI = {
  params: {
    [constants.BROTLI_PARAM_QUALITY]: 3,
    [constants.BROTLI_PARAM_LGWIN]: 18,
  },
};

/**
 * The codings that content is encoded in while it is streamed. `CompressionStream` can neither be flushed, so that a
 * page that is rendered in parts arrives in parts, nor be given a level.
 */
const ENCODERS = {
  "br": () => createBrotliCompress(BROTLI),
  "gzip": () => createGzip(GZIP),
  "deflate": () => createDeflate(GZIP),
} as const satisfies Record<string, () => BodyTransformer>;

/**
 * The encoders of what is kept in memory: static files and their pages. Brotli at 5 makes a script about as small as at 9. The highest level is worth its time
 * once, when the app is built, and files that are compressed there take precedence.
 */
const THOROUGH_ENCODERS = {
  "br": (size: number) =>
    createBrotliCompress({
      params: {
        [constants.BROTLI_PARAM_QUALITY]: 5,
        [constants.BROTLI_PARAM_SIZE_HINT]: size,
      },
    }),
  "gzip": () => createGzip({ level: 6 }),
} as const satisfies Record<
  CompressorCoding,
  (size: number) => BodyTransformer
>;

/** How much is encoded without a pause while no client waits for it, but others may: less than a millisecond. */
const BACKGROUND_SLICE_BYTES = 16 * 1024;

/** Encodes content that is in memory and is kept, between requests. */
export async function encodeThoroughly(
  bytes: Uint8Array<ArrayBuffer>,
  coding: CompressorCoding,
): Promise<Uint8Array<ArrayBuffer>> {
  const transformer = THOROUGH_ENCODERS[coding](bytes.length);
  const options = {
    transformer,
    sliceBytes: BACKGROUND_SLICE_BYTES,
    toError: encodingError,
  };
  return await new Response(
    transformBody(ReadableStream.from([bytes]), options),
  ).bytes();
}

type StreamCoding = keyof typeof ENCODERS;

const STREAM_CODINGS = Object.keys(ENCODERS) as StreamCoding[];

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
  { method, headers }: Pick<Request, "method" | "headers">,
  original: string,
): Response {
  const coding = preferredCoding(headers.get("accept-encoding"), [
    ...originalCoding(original),
    ...STREAM_CODINGS,
  ]);
  const { body, status, statusText } = response;
  const encoded = encodedHeaders(
    response.headers,
    status === 304 ? undefined : coding,
  );
  if (body === null || coding === undefined || method === "HEAD") {
    return new Response(body, { status, statusText, headers: encoded });
  }
  const options = {
    transformer: ENCODERS[coding](),
    flushes: true,
    toError: encodingError,
  };
  return new Response(transformBody(body, options), {
    status,
    statusText,
    headers: encoded,
  });
}

function originalCoding(original: string): StreamCoding[] {
  const name = original.trim().toLowerCase();
  return STREAM_CODINGS.filter((coding) => coding === name);
}

function encodedHeaders(
  original: Headers,
  coding: StreamCoding | undefined,
): Headers {
  const headers = copyHeaders(original);
  const vary = parseList(headers.get("vary")).map((name) => name.toLowerCase());
  if (!vary.includes("*") && !vary.includes("accept-encoding")) {
    headers.append("vary", "Accept-Encoding");
  }
  if (coding === undefined) return headers;
  headers.set("content-encoding", coding);
  headers.delete("content-length");
  return headers;
}

function encodingError(error: unknown): Error {
  return new Error(`Cannot encode the content: ${error}`, { cause: error });
}
