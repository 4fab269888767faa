import { HtmlTokenizer, TEXT_ELEMENTS, type Token } from "./html_tokenizer.ts";

/** How many bytes after the fallback are searched for `</head>`: 64 KiB. */
export const MAX_HEAD_BYTES = 65_536;

/** Most heads of single-page apps are smaller. */
const MIN_PART_BYTES = 1_024;

/** Start tags that are allowed in a head. Any other one ends it (HTML standard §13.2.6.4.4). */
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
  "template",
  "title",
]);

/** End tags other than `</head>` that end a head. All others are ignored there. */
const ENDS_HEAD: ReadonlySet<string> = new Set(["body", "br", "html"]);

/** Elements in which browsers parse the tags of {@linkcode TEXT_ELEMENTS}, and CDATA, differently. */
const AMBIGUOUS: ReadonlySet<string> = new Set([
  "col",
  "math",
  "select",
  "svg",
]);

/**
 * Finds the insertion point of REP-RFC-0001 §4.3 in an HTML document, without building a tree.
 *
 * `</head>` is the insertion point if a browser closes the head with it: it is not in a comment, a text, an attribute
 * or a template, and nothing before it belongs in a body. Elements such as `<svg>` end a head, so they matter only in a
 * `<template>`. Where only a tree would be unambiguous, the fallback is used, which is always correct.
 */
export class InsertionPointFinder {
  readonly #tokenizer = new HtmlTokenizer();
  #insertionPoint: number | "none" | undefined;
  #firstTag: number | undefined;
  #afterHeadTag: number | undefined;
  #openTemplates = 0;
  #isAmbiguous = false;

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

  /** Reads a chunk, in growing parts until the insertion point is known: to decode what follows would take longer. */
  read(chunk: Uint8Array): void {
    for (
      let start = 0, end;
      start < chunk.length && this.#insertionPoint === undefined;
      start = end
    ) {
      end = start +
        Math.min(Math.max(this.#tokenizer.end, MIN_PART_BYTES), MAX_HEAD_BYTES);
      this.#readPart(chunk.subarray(start, end));
    }
  }

  #readPart(part: Uint8Array): void {
    for (const token of this.#tokenizer.read(part)) {
      if (token.end - this.fallback > MAX_HEAD_BYTES) this.#useFallback();
      else this.#readToken(token);
      if (this.#insertionPoint !== undefined) return;
    }
    if (this.#tokenizer.end - this.fallback >= MAX_HEAD_BYTES) {
      this.#useFallback();
    }
  }

  #readToken(token: Token): void {
    if (token.kind === "utf16") this.#insertionPoint = "none";
    else if (token.kind === "startTag") this.#startTag(token);
    else if (token.kind === "endTag") this.#endTag(token);
    else if (token.kind === "cdata") this.#useFallbackIfAmbiguous();
    else if (token.kind === "text" && this.#openTemplates === 0) {
      this.#useFallback();
    }
  }

  #useFallback(): void {
    this.#insertionPoint = this.fallback;
  }

  #useFallbackIfAmbiguous(): void {
    if (this.#isAmbiguous) this.#useFallback();
  }

  #startTag(tag: Token): void {
    this.#firstTag ??= tag.start;
    if (this.#openTemplates > 0) this.#startTagInTemplate(tag);
    else if (!HEAD_CONTENT.has(tag.name)) this.#useFallback();
    if (tag.name === "head" && this.#openTemplates === 0) {
      this.#afterHeadTag ??= tag.end;
    }
    if (tag.name === "template") this.#openTemplates += 1;
  }

  #startTagInTemplate({ name }: Token): void {
    if (name === "template" || TEXT_ELEMENTS.has(name)) {
      this.#useFallbackIfAmbiguous();
    }
    if (AMBIGUOUS.has(name)) this.#isAmbiguous = true;
  }

  #endTag({ name, start }: Token): void {
    this.#firstTag ??= start;
    if (this.#openTemplates > 0) this.#endTagInTemplate(name);
    else if (name === "head") this.#insertionPoint = start;
    else if (ENDS_HEAD.has(name)) this.#useFallback();
  }

  #endTagInTemplate(name: string): void {
    if (name !== "template") return;
    this.#openTemplates -= 1;
    if (this.#openTemplates === 0) this.#isAmbiguous = false;
  }
}
