import type { RequestCounter } from "./_relay.ts";

/** RFC 9113 §3.4: what a client sends before its first frame. */
const PREFACE_BYTES = 24;
/** RFC 9113 §4.1: length (3 bytes), type, flags, stream (4 bytes). */
const HEADER_BYTES = 9;
/** RFC 9113 §6.2. */
const HEADERS = 1;

/** Counts the requests of an HTTP/2 client: each has one HEADERS frame. */
export function http2RequestCounter(): RequestCounter {
  let skip = PREFACE_BYTES;
  let header: number[] = [];
  return (bytes) => {
    let requests = 0;
    for (let at = 0; at < bytes.length;) {
      const skipped = Math.min(skip, bytes.length - at);
      skip -= skipped;
      at += skipped;
      if (skip > 0 || at === bytes.length) break;
      header.push(bytes[at++] ?? 0);
      if (header.length < HEADER_BYTES) continue;
      const [high = 0, middle = 0, low = 0, type] = header;
      skip = high << 16 | middle << 8 | low;
      if (type === HEADERS) requests++;
      header = [];
    }
    return requests;
  };
}
