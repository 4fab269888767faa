import { concat } from "../values/chunks.ts";
import { InsertionPointFinder } from "./insertion_point.ts";

/**
 * Inserts a script element into a streamed HTML document. No other byte of the document changes (REP-RFC-0001 §4.3).
 *
 * The insertion point is immediately before the `</head>` that closes the head. If the body begins without one, or
 * there is none within 64 KiB ({@linkcode MAX_HEAD_BYTES}), it is after the opening `<head …>`, and without that, at
 * the beginning of the document: after a byte order mark, white space, comments and the doctype, since browsers would
 * use quirks mode for a document with a script before its doctype.
 *
 * Until the insertion point is known, the document is held back from the best candidate on: at most 64 KiB and the rest
 * of a chunk. Everything else is forwarded immediately, and nothing is copied. The body is read only on demand.
 * Cancelling the result cancels the body, and an error of the body is an error of the result.
 *
 * @param body A document in UTF-8, or in another encoding that extends ASCII. A document that begins with a UTF-16 byte
 * order mark is returned unchanged. Documents that are UTF-16 only by their `charset` must not be passed.
 * @param script The element, in the encoding of the document.
 * @param onUtf16 Called once if the document begins with a UTF-16 byte order mark.
 * @returns The document with the element.
 * @throws {TypeError} If the body is locked.
 */
export function injectScript(
  body: ReadableStream<Uint8Array>,
  script: Uint8Array,
  onUtf16: () => void = () => {},
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const splice = new Splice(script, onUtf16);
  async function pull(controller: ReadableStreamDefaultController<Uint8Array>) {
    let pieces: Uint8Array[] = [];
    while (pieces.length === 0) {
      const { done, value } = await reader.read();
      pieces = done ? splice.end() : splice.push(value);
      for (const piece of pieces) controller.enqueue(piece);
      if (done) return controller.close();
    }
  }
  return new ReadableStream(
    { pull, cancel: (reason) => reader.cancel(reason) },
    { highWaterMark: 0 },
  );
}

/**
 * Inserts a script element into a complete document, at the same place as {@linkcode injectScript}.
 *
 * @param onUtf16 Called if the document begins with a UTF-16 byte order mark.
 * @returns A new document; the same one if it is UTF-16.
 */
export function insertScript(
  document: Uint8Array<ArrayBuffer>,
  script: Uint8Array,
  onUtf16: () => void = () => {},
): Uint8Array<ArrayBuffer> {
  const splice = new Splice(script, onUtf16);
  return concat([...splice.push(document), ...splice.end()]);
}

/** Splices the script into the chunks of a document. */
class Splice {
  readonly #script: Uint8Array;
  readonly #onUtf16: () => void;
  readonly #finder = new InsertionPointFinder();
  #held: Uint8Array[] = [];
  #heldFrom = 0;
  #isDone = false;

  constructor(script: Uint8Array, onUtf16: () => void) {
    this.#script = script;
    this.#onUtf16 = onUtf16;
  }

  /** Adds a chunk, and returns what can be forwarded. */
  push(chunk: Uint8Array): Uint8Array[] {
    if (this.#isDone) return [chunk];
    this.#held.push(chunk);
    this.#finder.read(chunk);
    const { insertionPoint, fallback } = this.#finder;
    return insertionPoint === undefined
      ? this.#releaseUpTo(fallback)
      : this.#finish(insertionPoint);
  }

  /** Returns the rest of the document. */
  end(): Uint8Array[] {
    return this.#isDone ? [] : this.#finish(this.#finder.fallback);
  }

  #finish(insertionPoint: number | "none"): Uint8Array[] {
    this.#isDone = true;
    if (insertionPoint === "none") {
      this.#onUtf16();
      return this.#held.splice(0);
    }
    const before = this.#releaseUpTo(insertionPoint);
    const script = this.#script.slice(); // a reader may transfer the memory of a chunk, but the script is reused
    return [...before, script, ...this.#held.splice(0)];
  }

  /** Returns the held bytes before an offset. */
  #releaseUpTo(offset: number): Uint8Array[] {
    const released: Uint8Array[] = [];
    for (const chunk of this.#held) {
      if (this.#heldFrom + chunk.length > offset) break;
      released.push(chunk);
      this.#heldFrom += chunk.length;
    }
    this.#held.splice(0, released.length);
    const [divided] = this.#held;
    if (divided === undefined || offset === this.#heldFrom) return released;
    const length = offset - this.#heldFrom;
    this.#held[0] = divided.subarray(length);
    this.#heldFrom = offset;
    return [...released, divided.subarray(0, length)];
  }
}
