import type { Transform } from "node:stream";

/** A decoder or an encoder of `node:zlib`. */
export interface BodyTransformer extends Transform {
  flush(callback: () => void): void;
}

/** How {@linkcode transformBody} transforms a body. */
interface TransformOptions {
  readonly transformer: BodyTransformer;
  /**
   * Whether what has been written is flushed while the body pauses, so that what arrives in parts leaves in parts.
   *
   * @default {false}
   */
  readonly flushes?: boolean;
  /** How much is transformed without a pause. @default {131_072} */
  readonly sliceBytes?: number;
  /** Reads the first bytes that are transformed. @default {as they are} */
  readonly readFirst?:
    | ((reader: BodyReader) => ReturnType<BodyReader["read"]>)
    | undefined;
  /** Converts an error of the transformer. */
  readonly toError: (error: unknown) => Error;
}

/**
 * Passes a body through a decoder or an encoder of `node:zlib`, with bounded memory: a chunk is read when the one
 * before has been transformed and read. An error of the body itself is an error of the result.
 */
export function transformBody(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  {
    transformer,
    flushes = false,
    sliceBytes = SLICE_BYTES,
    readFirst,
    toError,
  }: TransformOptions,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const reader = body.getReader();
  const transformed: AsyncIterator<Uint8Array<ArrayBuffer>> = transformer
    [Symbol.asyncIterator]();
  let failure: unknown; // of the body itself
  transformer.on("error", () => {}); // the iterator listens once it is read; an error before that would end the process
  void feed(reader, { transformer, flushes, sliceBytes, readFirst }).catch((
    error,
  ) => transformer.destroy(failure = error));
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      try {
        const { done, value } = await transformed.next();
        if (!done) return controller.enqueue(new Uint8Array(value)); // not a Buffer
        controller.close();
      } catch (error) {
        controller.error(failure ?? toError(error));
      }
      await reader.cancel().catch(() => {}); // the content has ended before the body
    },
    async cancel(reason) {
      transformer.destroy();
      await reader.cancel(reason);
    },
  }, { highWaterMark: 0 });
}

/**
 * How much is transformed without a pause: a few milliseconds. In Deno 2.9 `node:zlib` works on the main thread, and
 * where the body is in memory and the result fits the socket's buffer, nothing else is waited for.
 */
const SLICE_BYTES = 128 * 1024;

/** The reader of a body. */
export type BodyReader = ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>;

type FeedOptions =
  & Required<Omit<TransformOptions, "toError" | "readFirst">>
  & Pick<TransformOptions, "readFirst">;

/** Passes the body to its transformer, the next slice when the last one has been transformed. */
async function feed(
  reader: BodyReader,
  { transformer, flushes, sliceBytes, readFirst }: FeedOptions,
): Promise<void> {
  let untilPause = sliceBytes;
  for (let reading = readFirst?.(reader) ?? reader.read();;) {
    const { done, value } = await reading;
    if (done) break;
    for (let start = 0, end; start < value.length; start = end) {
      end = Math.min(start + untilPause, value.length);
      await new Promise<unknown>((resolve) =>
        transformer.write(value.subarray(start, end), resolve)
      ); // it emits its errors itself
      if (transformer.destroyed) return; // the result was cancelled, or an error has ended it
      untilPause -= end - start;
      if (untilPause > 0) continue;
      untilPause = sliceBytes;
      await nextTurn();
    }
    reading = reader.read();
    if (flushes && !(await isReady(reading))) {
      await new Promise<void>((resolve) => transformer.flush(resolve));
    }
  }
  transformer.end();
}

/** Lets other work run first: requests that have arrived, and timers. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

/** How many turns of the microtask queue a chunk takes that is in memory already, through a few streams. */
const TURNS = 10;

/** Returns whether a promise is settled without anything from outside. */
async function isReady(promise: Promise<unknown>): Promise<boolean> {
  let isSettled = false;
  const settle = () => isSettled = true;
  promise.then(settle, settle);
  for (let turn = 0; turn < TURNS && !isSettled; turn++) await undefined;
  return isSettled;
}
