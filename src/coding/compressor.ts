import type { Transform } from "node:stream";
import { nextTurn } from "./next_turn.ts";

/** The codings that content is compressed in here, the preferred one first. */
export const COMPRESSOR_CODINGS = ["br", "gzip"] as const;

/** The name of a coding that a {@linkcode Compressor} applies. */
export type CompressorCoding = typeof COMPRESSOR_CODINGS[number];

/**
 * How much is compressed without a pause. In Deno 2.9 both `node:zlib` and `CompressionStream` compress on the main
 * thread, even where they return a promise, so that requests wait for it.
 */
const SLICE_BYTES = 16 * 1024;

/**
 * Brotli at 5 makes a script about as small as at 9. The highest level is worth its time once, when the app is built,
 * and files that are compressed there take precedence.
 */
const ENCODERS: Readonly<Record<CompressorCoding, (zlib: typeof import("node:zlib"), size: number) => Transform>> = {
  "br": ({ constants, createBrotliCompress }, size) =>
    createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: 5, [constants.BROTLI_PARAM_SIZE_HINT]: size } }),
  "gzip": ({ createGzip }) => createGzip({ level: 6 }),
};

/** How many results may be waited for: with files of up to 1 MiB, they have at most 32 MiB. */
const MAX_WAITING = 32;

/** Compresses content in memory, one after the other, between requests. */
export class Compressor {
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  #isClosed = false;

  /** Whether so much is waiting that more should be compressed later, as when files come and go in a full cache. */
  get isBusy(): boolean {
    return this.#waiting >= MAX_WAITING;
  }

  /**
   * Compresses bytes.
   *
   * @returns `undefined` if the result would not be smaller, or the compressor was closed.
   */
  compress(
    bytes: Uint8Array<ArrayBuffer>,
    coding: CompressorCoding,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    this.#waiting++;
    const result = this.#last.then(() => this.#compress(bytes, coding)).finally(() => this.#waiting--);
    this.#last = result.catch(() => {}); // the caller handles the rejection
    return result;
  }

  /** Resolves when everything is compressed. */
  async idle(): Promise<void> {
    for (let last; last !== this.#last;) await (last = this.#last);
  }

  /** Ends what is in progress. */
  close(): void {
    this.#isClosed = true;
  }

  async #compress(
    bytes: Uint8Array<ArrayBuffer>,
    coding: CompressorCoding,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const zlib = await import("node:zlib"); // not at startup: it takes as long to load as the gateway
    const encoder = ENCODERS[coding](zlib, bytes.length);
    const compressed = collect(encoder);
    for (let start = 0; start < bytes.length && !this.#isClosed; start += SLICE_BYTES) {
      await nextTurn();
      await new Promise<unknown>((resolve) => encoder.write(bytes.subarray(start, start + SLICE_BYTES), resolve));
    }
    encoder.end();
    const result = await compressed;
    return this.#isClosed || result.length >= bytes.length ? undefined : result;
  }
}

async function collect(encoder: Transform): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  for await (const chunk of encoder) chunks.push(chunk);
  return await new Blob(chunks).bytes();
}
