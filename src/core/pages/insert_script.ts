import { concat } from "@std/bytes/concat";
import { HtmlTokenizer, type Token } from "./html_tokenizer.ts";

/**
 * Inserts a script element into a streamed HTML document. No other byte of the document changes (REP-RFC-0001 §4.3).
 * If another gateway inserted an element before the insertion point, that element is removed, so that a page contains
 * only the configuration of the gateway that sends it.
 *
 * The insertion point is immediately before the `</head>` that closes the head. If the body begins without a `</head>`,
 * or the first 64 KiB ({@linkcode MAX_HEAD_BYTES}) contain none, it is after the opening `<head …>`. Without an opening
 * tag, it is at the beginning of the document, but after a byte order mark, white space, comments and the doctype:
 * browsers would use quirks mode if a script preceded the doctype.
 *
 * Until the insertion point is known, the stream holds back the document from the best candidate on: at most 64 KiB and
 * the rest of a chunk. It forwards everything else immediately, and copies nothing. It reads the body only on demand.
 * Cancelling the result cancels the body, and an error of the body is an error of the result.
 *
 * @param body A document in UTF-8, which the HTML standard requires (§4.2.5.4), or in another encoding that extends ASCII.
 * @param script The element, in ASCII.
 * @param onUtf16 Called if a byte order mark says that the document is in UTF-16 or UTF-32. It is then not changed.
 * @returns The document with the element.
 * @throws {TypeError} If the body is locked.
 */
export function injectScript(
  body: ReadableStream<Uint8Array>,
  script: Uint8Array,
  onUtf16?: () => void,
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
 * Inserts a script element into a complete document, at the same place as {@linkcode injectScript}. That place follows
 * from the rest of the document, so a second call replaces the element of the first.
 */
export function insertScript(
  document: Uint8Array<ArrayBuffer>,
  script: Uint8Array,
  onUtf16?: () => void,
): Uint8Array<ArrayBuffer> {
  const splice = new Splice(script, onUtf16);
  return concat([...splice.push(document), ...splice.end()]);
}

/** Splices the script into the chunks of a document. */
class Splice {
  readonly #script: Uint8Array;
  readonly #onUtf16: (() => void) | undefined;
  readonly #finder = new InsertionPointFinder();
  #held: Uint8Array[] = [];
  #heldFrom = 0;
  #isDone = false;

  constructor(script: Uint8Array, onUtf16?: () => void) {
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

  #finish(insertionPoint: number): Uint8Array[] {
    this.#isDone = true;
    if (insertionPoint === NOWHERE) {
      this.#onUtf16?.();
      return this.#held.splice(0);
    }
    const before = this.#releaseUpTo(insertionPoint);
    const script = this.#script.slice(); // a copy, since a reader may transfer the memory of a chunk
    this.#releaseUpTo(this.#finder.endOfEarlier ?? insertionPoint); // removes the earlier element
    return [...before, script, ...this.#held.splice(0)];
  }

  /** Returns the held bytes before an offset, and no longer holds them. */
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

/** The insertion point of a document that cannot contain the script. */
const NOWHERE = Infinity;

/** How many bytes after the fallback are searched for `</head>`: 64 KiB. */
export const MAX_HEAD_BYTES = 65_536;

/** How many bytes of a chunk are searched first. Most heads are shorter. */
const FIRST_PART_BYTES = 2_048;

/**
 * Start tags that do not end a head (HTML standard §13.2.6.4.4). `<template>` does not end a head either, but is left
 * out: without a tree, nothing tells which of the following tags belong to the template.
 */
const HEAD_CONTENT: ReadonlySet<string> = new Set([
  "base",
  "basefont",
  "bgsound",
  "head",
  "html",
  "link",
  "meta",
  "noframes",
  "noscript",
  "script",
  "style",
  "title",
]);

/** End tags other than `</head>` that end a head. Browsers ignore all others in a head. */
const ENDS_HEAD: ReadonlySet<string> = new Set(["body", "br", "html"]);

/**
 * Finds the insertion point of REP-RFC-0001 §4.3 in an HTML document, without building a tree.
 *
 * `</head>` is the insertion point if a browser closes the head there: it is not in a comment, a text or an attribute,
 * and nothing before it belongs in a body or in a template. Otherwise the finder uses the fallback, which is always
 * correct.
 */
class InsertionPointFinder {
  /** The offset of the insertion point once it is known; {@linkcode NOWHERE} if the document is in UTF-16. */
  insertionPoint: number | undefined;
  /** The offset after an element that was inserted earlier. The element then begins at the insertion point. */
  endOfEarlier: number | undefined;
  readonly #tokenizer = new HtmlTokenizer();
  #firstTag: number | undefined;
  #afterHeadTag: number | undefined;
  /** The start tag of an element that was inserted earlier. */
  #earlier: Token | undefined;

  /**
   * The insertion point if the document ended here. It never decreases. It is after `<head …>`; before that tag is found,
   * it is after the byte order mark, white space, comments and the doctype at the beginning of the document.
   */
  get fallback(): number {
    return this.#afterHeadTag ?? this.#firstTag ?? this.#tokenizer.start;
  }

  /**
   * Reads a chunk until the insertion point is known. It reads in parts, since decoding the text after the insertion point
   * would take most of the time. The size of the parts doubles, since a long token is read again with each part.
   */
  read(chunk: Uint8Array): void {
    let start = 0;
    let size = FIRST_PART_BYTES;
    while (start < chunk.length && this.insertionPoint === undefined) {
      this.#readPart(chunk.subarray(start, start + size));
      start += size;
      size = Math.min(2 * size, MAX_HEAD_BYTES);
    }
  }

  #readPart(part: Uint8Array): void {
    for (const token of this.#tokenizer.read(part)) {
      const isTooFar = token.end - this.fallback > MAX_HEAD_BYTES;
      this.insertionPoint = isTooFar ? this.fallback : this.#pointAt(token);
      if (this.insertionPoint !== undefined) return;
    }
    if (this.#tokenizer.end - this.fallback >= MAX_HEAD_BYTES) {
      this.insertionPoint = this.fallback;
    }
  }

  /** Returns the insertion point if this token determines it. */
  #pointAt(token: Token): number | undefined {
    const { kind, name, start, end } = token;
    if (this.#earlier !== undefined) {
      this.endOfEarlier = end;
      return this.#earlier.start;
    }
    if (kind === "utf16") return NOWHERE;
    if (isConfigTag(token)) this.#earlier = token;
    if (kind === "comment") return undefined;
    if (kind === "text") return this.fallback;
    this.#firstTag ??= start;
    if (kind === "endTag") {
      if (name === "head") return start;
      return ENDS_HEAD.has(name) ? this.fallback : undefined;
    }
    if (!HEAD_CONTENT.has(name)) return this.fallback;
    if (name === "head") this.#afterHeadTag ??= end;
    return undefined;
  }
}

function isConfigTag({ kind, name, tag }: Token): boolean {
  return kind === "startTag" && name === "script" &&
    /\sid\s*=\s*(["']?)__rep__\1[\s/>]/i.test(tag);
}
