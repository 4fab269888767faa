import type { RequestCounter } from "./_relay.ts";

/** RFC 9113 §3.4: what a client sends before its first frame. */
const PREFACE_BYTES = 24;
/** RFC 9113 §4.1: length (3 bytes), type, flags, stream (4 bytes). */
const HEADER_BYTES = 9;
/** RFC 9113 §6.2. */
const HEADERS = 1;

/** Counts the requests of an HTTP/2 client: each has one HEADERS frame. */
export class Http2RequestCounter implements RequestCounter {
  #skip = PREFACE_BYTES;
  #header: number[] = [];

  count(bytes: Uint8Array): number {
    let requests = 0;
    for (let at = 0; at < bytes.length;) {
      const skipped = Math.min(this.#skip, bytes.length - at);
      this.#skip -= skipped;
      at += skipped;
      if (this.#skip > 0 || at === bytes.length) break;
      this.#header.push(bytes[at++] ?? 0);
      if (
        this.#header.length === HEADER_BYTES && this.#readHeader() === HEADERS
      ) requests++;
    }
    return requests;
  }

  /** Returns the frame's type; its payload is skipped. */
  #readHeader(): number | undefined {
    const [high = 0, middle = 0, low = 0, type] = this.#header;
    this.#skip = high << 16 | middle << 8 | low;
    this.#header = [];
    return type;
  }
}
