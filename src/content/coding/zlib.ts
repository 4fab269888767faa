import { constants, createBrotliCompress, createGzip } from "node:zlib";
import type { Transform } from "node:stream";

/**
 * Encodes content that stays in memory and serves many requests: static files and their pages. Brotli at level 5 makes a
 * script about as small as at level 9. The highest level is only worth its time when the app is built. Files that the
 * build has compressed take precedence.
 */
export async function encodeThoroughly(
  bytes: Uint8Array<ArrayBuffer>,
  coding: "br" | "gzip",
): Promise<Uint8Array<ArrayBuffer>> {
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 5,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  const transformer = coding === "br"
    ? createBrotliCompress({ params })
    : createGzip({ level: 6 });
  const body = ReadableStream.from([bytes]);
  const encoded = transformBody(body, transformer);
  return await new Response(encoded).bytes();
}

/**
 * Passes a body through a decoder or an encoder of `node:zlib`, with bounded memory: it reads a chunk when the previous
 * one has been transformed and read. An error of the body itself is an error of the result.
 *
 * @param toError Converts an error of the transformer. By default, it is an encoder.
 */
export function transformBody(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  transformer: Transform,
  toError: (error: unknown) => Error = encodingError,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const reader = body.getReader();
  const transformed: AsyncIterator<Uint8Array> = transformer
    [Symbol.asyncIterator]();
  let failure: unknown; // the error of the body itself
  let isCancelled = false;
  transformer.on("error", () => {}); // the iterator listens only once it is read, and an earlier error would end the process
  feed(reader, transformer).catch((error) => {
    failure = error;
    transformer.destroy(error);
  });
  async function pull(
    controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>,
  ): Promise<void> {
    try {
      const { done, value } = await transformed.next();
      if (isCancelled) return; // the client has left, which is no error
      if (!done) return controller.enqueue(new Uint8Array(value)); // not a Buffer
      controller.close();
    } catch (error) {
      if (isCancelled) return;
      controller.error(failure ?? toError(error));
    }
    await reader.cancel().catch(() => {}); // the content may end before the body
  }
  async function cancel(reason: unknown): Promise<void> {
    isCancelled = true;
    transformer.destroy();
    await reader.cancel(reason);
  }
  return new ReadableStream({ pull, cancel }, { highWaterMark: 0 });
}

/**
 * How many bytes are transformed without a pause, which takes about a millisecond. In Deno 2.9, `node:zlib` works on the
 * main thread. If the body is in memory and the result fits into the socket's buffer, nothing else makes it pause.
 */
const SLICE_BYTES = 32 * 1024;

/** Passes the body to its transformer, slice by slice. Each slice waits until the previous one has been transformed. */
async function feed(
  reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>,
  transformer: Transform,
): Promise<void> {
  let isEmpty = true;
  let sincePause = 0;
  let read = await reader.read();
  while (!read.done) {
    const { value } = read;
    for (let start = 0; start < value.length; start += SLICE_BYTES) {
      isEmpty = false;
      const slice = value.subarray(start, start + SLICE_BYTES);
      // It also resolves when the slice cannot be transformed: the transformer emits the error itself.
      await new Promise<void>((resolve) =>
        transformer.write(slice, () => resolve())
      );
      if (transformer.destroyed) return; // the result was cancelled or has failed
      sincePause += slice.length;
      if (sincePause < SLICE_BYTES) continue;
      sincePause = 0;
      await new Promise((resolve) => setTimeout(resolve)); // other pending work: requests that have arrived, and timers
    }
    read = await reader.read();
  }
  if (isEmpty) transformer.push(null); // some servers send an empty body with a coding, which the decoder of gzip rejects
  else transformer.end();
}

function encodingError(error: unknown): Error {
  return new Error(`Cannot encode the content: ${error}`, { cause: error });
}
