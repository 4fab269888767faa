import { HtmlTokenizer, type MarkupListener, type Tag, TEXT_ELEMENTS } from "./html_tokenizer.ts";

/** How much of a document may be read past the place it would get otherwise, in search of `</head>`: 64 KiB. */
export const MAX_HEAD_BYTES = 65_536;

/** What a head may contain; any other start tag means that it has ended (HTML standard §13.2.6.4.4). */
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

/** End tags that end a head which was never closed; all others but `</head>` mean nothing there. */
const ENDS_HEAD: ReadonlySet<string> = new Set(["body", "br", "html"]);

/** Elements in which a browser takes the tags of {@linkcode TEXT_ELEMENTS}, and CDATA, otherwise than elsewhere. */
const AMBIGUOUS: ReadonlySet<string> = new Set(["col", "math", "select", "svg"]);

/**
 * Finds the place in an HTML document that REP-RFC-0001 §4.3 gives the configuration, without building a tree.
 *
 * `</head>` counts where a browser would close the head with it: not in comments, text, attributes and templates, and
 * not once something has begun that belongs in a body. `<svg>` and the like end a head, so that they need attention
 * only within a `<template>`; what would take a tree to tell there is settled by the fallback, which is always right.
 */
export class InsertionPointFinder {
  readonly #tokenizer: HtmlTokenizer;
  #insertionPoint: number | "none" | undefined;
  #firstTag: number | undefined;
  #afterHeadTag: number | undefined;
  #openTemplates = 0;
  #isMurky = false;

  constructor() {
    const listener: MarkupListener = {
      text: () => this.#text(),
      startTag: (tag) => this.#startTag(tag),
      endTag: (tag) => this.#endTag(tag),
      cdata: () => this.#giveUpIfMurky(),
      utf16: () => this.#insertionPoint = "none",
    };
    this.#tokenizer = new HtmlTokenizer(listener);
  }

  /** The offset of the place, once it is known; `"none"` if the document's encoding (UTF-16) does not allow any. */
  get insertionPoint(): number | "none" | undefined {
    return this.#insertionPoint;
  }

  /**
   * The place if nothing more comes, an offset that never goes back: after `<head …>`; before there is one, after the
   * byte order mark, white space, comments and the doctype that begin the document.
   */
  get fallback(): number {
    return this.#afterHeadTag ?? this.#firstTag ?? this.#tokenizer.start;
  }

  /** Reads on, as far as it takes to know the place. */
  read(chunk: Uint8Array): void {
    for (const byte of chunk) {
      if (this.#tokenizer.offset - this.fallback === MAX_HEAD_BYTES) this.#giveUp();
      if (this.#insertionPoint !== undefined) return;
      this.#tokenizer.read(byte);
    }
  }

  #giveUp(): void {
    this.#insertionPoint = this.fallback;
  }

  #text(): void {
    if (this.#openTemplates === 0) this.#giveUp();
  }

  #startTag(tag: Tag): void {
    this.#firstTag ??= tag.start;
    if (this.#openTemplates > 0) this.#startTagInTemplate(tag);
    else if (!HEAD_CONTENT.has(tag.name)) this.#giveUp();
    if (tag.name === "head" && this.#openTemplates === 0) this.#afterHeadTag ??= tag.end;
    if (tag.name === "template") this.#openTemplates += 1;
  }

  #startTagInTemplate({ name }: Tag): void {
    if (name === "template" || TEXT_ELEMENTS.has(name)) this.#giveUpIfMurky();
    if (AMBIGUOUS.has(name)) this.#isMurky = true;
  }

  #giveUpIfMurky(): void {
    if (this.#isMurky) this.#giveUp();
  }

  #endTag({ name, start }: Tag): void {
    this.#firstTag ??= start;
    if (this.#openTemplates > 0) this.#endTagInTemplate(name);
    else if (name === "head") this.#insertionPoint = start;
    else if (ENDS_HEAD.has(name)) this.#giveUp();
  }

  #endTagInTemplate(name: string): void {
    if (name !== "template") return;
    this.#openTemplates -= 1;
    if (this.#openTemplates === 0) this.#isMurky = false;
  }
}
