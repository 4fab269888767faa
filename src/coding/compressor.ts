import type { CompressorCoding } from "./representations.ts";

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
  async compress(
    bytes: Uint8Array<ArrayBuffer>,
    coding: CompressorCoding,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    this.#waiting++;
    const result = this.#last.then(() => this.#compress(bytes, coding));
    this.#last = result.catch(() => {}); // the caller handles the rejection
    try {
      return await result;
    } finally {
      this.#waiting--;
    }
  }

  /** Resolves when everything is compressed. */
  async idle(): Promise<void> {
    while (this.#waiting > 0) await this.#last;
  }

  /** Drops what has not been compressed yet. */
  close(): void {
    this.#isClosed = true;
  }

  async #compress(
    bytes: Uint8Array<ArrayBuffer>,
    coding: CompressorCoding,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    if (this.#isClosed) return undefined;
    const { encodeThoroughly } = await import("./encode_content.ts"); // not at startup, since `node:zlib` is large
    const compressed = await encodeThoroughly(bytes, coding);
    const isSmaller = compressed.length < bytes.length;
    return isSmaller && !this.#isClosed ? compressed : undefined;
  }
}
