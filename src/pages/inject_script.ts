import { InsertionPointFinder } from "./insertion_point.ts";

/**
 * Puts a tag into an HTML document that streams by; no other byte of the document changes (REP-RFC-0001 §4.3).
 *
 * The place is immediately before the `</head>` that closes the head. If there is none before the body begins, or none
 * within 64 KiB ({@linkcode MAX_HEAD_BYTES}), it is right after the opening `<head …>`; without that, first in the
 * document. First means after a byte order mark, white space, comments and the doctype: a tag before the doctype would
 * have browsers render the page in quirks mode.
 *
 * Until the place is certain, what follows the best place so far is held back: 64 KiB and the rest of a chunk at most.
 * Everything else goes through at once, and nothing is copied. Nothing is read before it is asked for; whoever cancels
 * the result cancels `body` with it, and an error of `body` is an error of the result.
 *
 * @param body A document in UTF-8, or in another encoding that extends ASCII. One that begins with a byte order mark of
 * UTF-16 goes through as it is, without the tag; keep UTF-16 that only a `charset` tells of away from here.
 * @param tag The tag, in the encoding of the document.
 * @returns The document with the tag.
 * @throws {TypeError} If `body` is locked.
 */
export function injectScript(body: ReadableStream<Uint8Array>, tag: Uint8Array): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const splice = new Splice(tag);
  async function pull(controller: ReadableStreamDefaultController<Uint8Array>) {
    let pieces: Uint8Array[] = [];
    while (pieces.length === 0) {
      const { done, value } = await reader.read();
      pieces = done ? splice.end() : splice.take(value);
      for (const piece of pieces) controller.enqueue(piece);
      if (done) return controller.close();
    }
  }
  return new ReadableStream({ pull, cancel: (reason) => reader.cancel(reason) }, { highWaterMark: 0 });
}

/**
 * Puts a tag into an HTML document that is there as a whole, at the same place as {@linkcode injectScript}.
 *
 * @returns A copy of the document, with the tag.
 */
export function injectTagInto(document: Uint8Array, tag: Uint8Array): Uint8Array<ArrayBuffer> {
  const splice = new Splice(tag);
  return concat([...splice.take(document), ...splice.end()]);
}

/** A document with the tag, piece by piece. */
class Splice {
  readonly #tag: Uint8Array;
  readonly #finder = new InsertionPointFinder();
  #held: Uint8Array[] = [];
  #heldFrom = 0;
  #isDone = false;

  constructor(tag: Uint8Array) {
    this.#tag = tag;
  }

  take(chunk: Uint8Array): Uint8Array[] {
    if (this.#isDone) return [chunk];
    this.#held.push(chunk);
    this.#finder.read(chunk);
    const { insertionPoint, fallback } = this.#finder;
    return insertionPoint === undefined ? this.#releaseUpTo(fallback) : this.#finish(insertionPoint);
  }

  end(): Uint8Array[] {
    return this.#isDone ? [] : this.#finish(this.#finder.fallback);
  }

  #finish(place: number | "none"): Uint8Array[] {
    this.#isDone = true;
    if (place === "none") return this.#held.splice(0);
    const before = this.#releaseUpTo(place);
    const tag = this.#tag.slice(); // a reader may take a chunk's memory with it, and the tag is for many documents
    return [...before, tag, ...this.#held.splice(0)];
  }

  /** Lets go of what comes before an offset. */
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

function concat(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let offset = 0;
  for (const piece of pieces) {
    whole.set(piece, offset);
    offset += piece.length;
  }
  return whole;
}
