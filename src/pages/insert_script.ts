import { HtmlTokenizer, type Token } from "./html_tokenizer.ts";
import { concat } from "../values/chunks.ts";

/**
 * Inserts a script element into a streamed HTML document. No other byte of the document changes (REP-RFC-0001 §4.3).
 * An element that was inserted earlier, before the insertion point, is replaced: each page has one configuration, that of
 * the gateway that sends it.
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
  const finder = new InsertionPointFinder();
  finder.read(document);
  const point = finder.insertionPoint ?? finder.fallback;
  if (point === "none") {
    onUtf16();
    return document;
  }
  return concat([
    document.subarray(0, point),
    script,
    document.subarray(finder.endOfEarlier ?? point),
  ]);
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
    this.#releaseUpTo(this.#finder.endOfEarlier ?? insertionPoint); // and drops it
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

/** How many bytes after the fallback are searched for `</head>`: 64 KiB. */
export const MAX_HEAD_BYTES = 65_536;

/** How much of a chunk is searched first. Most heads are shorter. */
const FIRST_PART_BYTES = 2_048;

/**
 * Start tags that are allowed in a head. Any other one ends it (HTML standard §13.2.6.4.4). `<template>` is treated like
 * one of them, although it is allowed: which tags belong to it can only be told with a tree.
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

/** End tags other than `</head>` that end a head. All others are ignored there. */
const ENDS_HEAD: ReadonlySet<string> = new Set(["body", "br", "html"]);

/**
 * Finds the insertion point of REP-RFC-0001 §4.3 in an HTML document, without building a tree.
 *
 * `</head>` is the insertion point if a browser closes the head with it: it is not in a comment, a text or an attribute,
 * and nothing before it belongs in a body or in a template. Otherwise the fallback is used, which is always correct.
 */
class InsertionPointFinder {
  readonly #tokenizer = new HtmlTokenizer();
  #insertionPoint: number | "none" | undefined;
  #firstTag: number | undefined;
  #afterHeadTag: number | undefined;
  /** The start tag of an element that was inserted earlier. */
  #earlier: Token | undefined;
  #endOfEarlier: number | undefined;

  /** The offset after an element that was inserted earlier, which then begins at the insertion point. */
  get endOfEarlier(): number | undefined {
    return this.#endOfEarlier;
  }

  /** The offset of the insertion point once it is known; `"none"` if the document is UTF-16. */
  get insertionPoint(): number | "none" | undefined {
    return this.#insertionPoint;
  }

  /**
   * The insertion point if the document ended here. It never decreases: it is after `<head …>`, and before there is
   * one, after the byte order mark, white space, comments and the doctype at the beginning of the document.
   */
  get fallback(): number {
    return this.#afterHeadTag ?? this.#firstTag ?? this.#tokenizer.start;
  }

  /**
   * Reads a chunk until the insertion point is known, in parts: to decode what follows would take longer than all the
   * rest. Each part is twice as long as the one before, since a long token is read again with each of them.
   */
  read(chunk: Uint8Array): void {
    let start = 0;
    let size = FIRST_PART_BYTES;
    while (start < chunk.length && this.#insertionPoint === undefined) {
      this.#readPart(chunk.subarray(start, start + size));
      start += size;
      size = Math.min(2 * size, MAX_HEAD_BYTES);
    }
  }

  #readPart(part: Uint8Array): void {
    for (const token of this.#tokenizer.read(part)) {
      const isTooFar = token.end - this.fallback > MAX_HEAD_BYTES;
      this.#insertionPoint = isTooFar ? this.fallback : this.#pointAt(token);
      if (this.#insertionPoint !== undefined) return;
    }
    if (this.#tokenizer.end - this.fallback >= MAX_HEAD_BYTES) {
      this.#insertionPoint = this.fallback;
    }
  }

  /** Returns the insertion point if a token decides about it. */
  #pointAt(token: Token): number | "none" | undefined {
    const { kind, name, start, end } = token;
    if (this.#earlier !== undefined) {
      this.#endOfEarlier = end;
      return this.#earlier.start;
    }
    if (isConfigTag(token)) this.#earlier = token;
    if (kind === "comment") return undefined;
    if (kind === "utf16") return "none";
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

/**
 * Puts a script element into a document in place of the one that was injected earlier, if there is one, at the
 * insertion point of {@linkcode insertScript}. No other byte changes, so doing it again with the same element changes
 * nothing.
 *
 * @returns The document; `undefined` if it is UTF-16, into which nothing can be inserted.
 */
export function replaceScript(
  document: Uint8Array<ArrayBuffer>,
  script: Uint8Array,
): Uint8Array<ArrayBuffer> | undefined {
  const kept: Uint8Array[] = [];
  let position = 0;
  for (const { element: [start, end] } of findConfigScripts(document)) {
    kept.push(document.subarray(position, start));
    position = end;
  }
  const without = concat([...kept, document.subarray(position)]);
  const result = insertScript(without, script);
  return result === without ? undefined : result;
}

/** Returns the text of the script element that was injected into a document earlier, if there is one. */
export function readConfigScript(document: Uint8Array): string | undefined {
  const [found] = findConfigScripts(document);
  if (found === undefined) return undefined;
  return new TextDecoder().decode(document.subarray(...found.text));
}

/** The offsets of the first byte, and of the byte after the last one. */
type Range = [start: number, end: number];

function findConfigScripts(
  document: Uint8Array,
): { element: Range; text: Range }[] {
  const found: { element: Range; text: Range }[] = [];
  let open: Token | undefined;
  for (const token of new HtmlTokenizer().read(document)) {
    if (open !== undefined) {
      found.push({
        element: [open.start, token.end],
        text: [open.end, token.start],
      });
    }
    open = isConfigTag(token) ? token : undefined;
  }
  return found;
}

function isConfigTag({ kind, name, tag }: Token): boolean {
  return kind === "startTag" && name === "script" &&
    /\sid\s*=\s*(["']?)__rep__\1[\s/>]/i.test(tag);
}
