/** The codings that content is compressed in here, the preferred one first. */
export const COMPRESSOR_CODINGS = ["br", "gzip"] as const;

/** The name of a coding that a {@linkcode Compressor} applies. */
export type CompressorCoding = typeof COMPRESSOR_CODINGS[number];

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

  /** Drops what has not been compressed yet. */
  close(): void {
    this.#isClosed = true;
  }

  async #compress(
    bytes: Uint8Array<ArrayBuffer>,
    coding: CompressorCoding,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    if (this.#isClosed) return undefined;
    const { encodeThoroughly } = await import("./encode_content.ts"); // `node:zlib` takes as long to load as the gateway
    const result = await encodeThoroughly(bytes, coding);
    return this.#isClosed || result.length >= bytes.length ? undefined : result;
  }
}
