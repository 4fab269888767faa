import { eTag } from "@std/http/etag";
import type { CompressorCoding } from "./content_coding.ts";

/** How many results may be waited for: with files of up to 1 MiB, they have at most 32 MiB. */
const MAX_WAITING = 32;

/** The result of a {@linkcode Compressor}. */
export interface Compressed {
  readonly body: Uint8Array<ArrayBuffer>;
  /** A strong entity tag: a hash of the bytes. */
  readonly etag: string;
}

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
  ): Promise<Compressed | undefined> {
    this.#waiting++;
    const result = this.#last.then(() => this.#compress(bytes, coding)).finally(
      () => this.#waiting--,
    );
    this.#last = result.catch(() => {}); // the caller handles the rejection
    return result;
  }

  /** Resolves when everything is compressed. */
  async idle(): Promise<void> {
    for (let last; last !== this.#last;) await (last = this.#last);
  }

  /** Drops what has not been compressed yet. */
  close(): void {
    this.#isClosed = true;
  }

  async #compress(
    bytes: Uint8Array<ArrayBuffer>,
    coding: CompressorCoding,
  ): Promise<Compressed | undefined> {
    if (this.#isClosed) return undefined;
    const { encodeThoroughly } = await import("./encode_content.ts"); // not at startup, since `node:zlib` is large
    const result = await encodeThoroughly(bytes, coding);
    if (this.#isClosed || result.length >= bytes.length) return undefined;
    return { body: result, etag: await eTag(result) };
  }
}
